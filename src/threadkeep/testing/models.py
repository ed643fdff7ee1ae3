"""A language model for tests: it answers as it is told to, without HTTP (`openai_server` has one behind HTTP)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from threadkeep.errors import ModelFailed
from threadkeep.memory.ports import ChatMessage, JsonSchema

Json = dict[str, Any]
Answer = Json | Exception | asyncio.Event | Callable[[Sequence[ChatMessage]], Json]


class ScriptedModel:
    """Gives its answers in order: an object, an error to raise, or what a function makes of the messages.

    An `asyncio.Event` among them is a gate: the model waits until it is set, and goes on to the next answer.
    What it was asked is in `asked`. Beyond the script it fails.
    """

    def __init__(self, answers: Sequence[Answer] = (), name: str = "scripted") -> None:
        self.name = name
        self.answers = list(answers)
        self.asked: list[Sequence[ChatMessage]] = []
        self._called = asyncio.Event()

    async def until_asked(self, times: int = 1) -> None:
        """Wait until the model was asked so often."""
        while len(self.asked) < times:
            self._called.clear()
            await self._called.wait()

    async def complete(self, messages: Sequence[ChatMessage], schema: JsonSchema) -> Json:
        """The next answer."""
        self.asked.append(messages)
        self._called.set()
        while self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, asyncio.Event):
                await answer.wait()
                continue
            if isinstance(answer, Exception):
                raise answer
            return answer(messages) if callable(answer) else answer
        raise ModelFailed(f"No answer is scripted for request {len(self.asked)}")


class OneModel:
    """The same model for every space; None: there is no model."""

    def __init__(self, model: ScriptedModel | None) -> None:
        self.model = model

    @property
    def can_extract(self) -> bool:
        """Whether there is a model."""
        return self.model is not None

    async def chat(self, model_name: str | None, base_url: str | None) -> ScriptedModel | None:
        """The model."""
        return self.model

    async def close(self) -> None:
        """Nothing is open."""
