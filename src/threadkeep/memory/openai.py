"""Any endpoint that speaks OpenAI's chat completions and embeddings, as a chat model and as an embedder.

An answer may take forms that were not asked for (streamed, in parts, wrapped in prose); an endpoint may not know JSON
schemas, or no temperature. What it says in an error is not passed on, but for its short code: it may quote a key.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from threadkeep.errors import ModelFailed
from threadkeep.memory.answers import parse_answer
from threadkeep.memory.endpoint import Endpoint, Json, Rejected
from threadkeep.memory.ports import ChatMessage, JsonSchema, Vector

_TEXTS_AT_ONCE = 96
_CUT_OFF = ("length", "max_tokens")


class OpenAIChat:
    """A chat model; `name` is what the endpoint calls it."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self.name = name
        self._endpoint = endpoint
        self._options: dict[str, Any] = {"temperature": 0}
        self._takes_schema = True

    async def complete(self, messages: Sequence[ChatMessage], schema: JsonSchema) -> dict[str, Any]:
        """The JSON object that the model answered with. Raises ModelFailed."""
        plain = {
            "model": self.name,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
        }
        options = dict(self._options)
        if self._takes_schema:
            options["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)},
            }
        while True:
            try:
                answer = await self._endpoint.post("/chat/completions", {**plain, **options})
                break
            except Rejected as rejected:
                unknown = _named_in(rejected.text, options)
                if unknown is None:
                    raise
                del options[unknown]
        # What was refused once is not asked again for as long as this process lives.
        self._takes_schema = "response_format" in options
        self._options = {name: value for name, value in options.items() if name != "response_format"}
        return parse_answer(_said(answer), list(schema.get("properties", ())))


class OpenAIEmbedder:
    """An embedder; `name` is what the endpoint calls its model."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self.name = name
        self.dimensions: int | None = None
        self._endpoint = endpoint

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each text, in order. Raises ModelFailed."""
        vectors: list[Vector] = []
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            # An empty text is refused by most endpoints.
            some = [text or " " for text in texts[at : at + _TEXTS_AT_ONCE]]
            answer = await self._endpoint.post(
                "/embeddings", {"model": self.name, "input": some, "encoding_format": "float"}
            )
            vectors += _vectors(answer, len(some))
        for vector in vectors:
            if self.dimensions is None:
                self.dimensions = len(vector)
            if len(vector) != self.dimensions:
                raise ModelFailed(f"A vector of {len(vector)} values came where {self.dimensions} were expected")
        return vectors


def _named_in(text: str, options: Json) -> str | None:
    """The option that a rejection is about, or may be about."""
    named = [name for name in options if name in text]
    return next(iter([*named, *reversed(options)]), None)


def _said(answer: Json) -> str:
    """The text of the first choice. Raises ModelFailed where it was refused or cut off."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ModelFailed("The model's endpoint answered without a message")
    finish = choice.get("finish_reason")
    if message.get("refusal") or finish == "content_filter":
        raise ModelFailed("The model refused to answer")
    if finish in _CUT_OFF:
        raise ModelFailed("The model's answer was cut off at its greatest length")
    return _text_of(message.get("content"))


def _text_of(content: Any) -> str:
    """The text of a content, whole or in parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _vectors(answer: Json, count: int) -> Iterator[Vector]:
    items = answer.get("data")
    if not isinstance(items, list) or len(items) != count:
        raise ModelFailed(f"The embedder's endpoint did not answer with {count} vectors")
    try:
        for item in sorted(items, key=lambda item: item.get("index", 0)):
            yield _unit(array("f", item["embedding"]))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise ModelFailed("The embedder's endpoint answered with something other than vectors") from None


def _unit(vector: Vector) -> Vector:
    length = sum(value * value for value in vector) ** 0.5
    if not 0 < length < float("inf"):
        raise ValueError("no direction")
    return array("f", [value / length for value in vector])
