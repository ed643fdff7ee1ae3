"""OpenAI's Responses for the scripted server: replies as responses, whole or as events, and the conversations it keeps.

It keeps a response unless it is told `store: false`, goes on from `previous_response_id`, and refuses what the real
service refuses: a response that it does not have, a call without its output, an output without its call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.testing.openai_server import Reply

Json = dict[str, Any]


class Conversations:
    """What the service has kept: the items of each response, with all that came before it."""

    def __init__(self) -> None:
        self._items: dict[str, list[Json]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Why a request is refused, or None."""
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self._items:
            return f"Previous response with id '{previous}' not found."
        calls: set[str] = set()
        answered: set[str] = set()
        for item in self._asked(body):
            if item.get("type") == "function_call":
                calls.add(item["call_id"])
            elif item.get("type") == "function_call_output":
                if item["call_id"] not in calls:
                    return f"No tool call found for function call output with call_id {item['call_id']}."
                answered.add(item["call_id"])
        for call_id in sorted(calls - answered):
            return f"No tool output found for function call {call_id}."
        return None

    def answer(self, body: Mapping[str, Any], reply: Reply, model: str) -> Json:
        """The response to a request, kept unless it is not to be."""
        with self._lock:
            self._count += 1
            number = self._count
        response = response_of(reply, number, model)
        if body.get("store") is not False:
            self._items[response["id"]] = [*self._asked(body), *response["output"]]
        return response

    def _asked(self, body: Mapping[str, Any]) -> list[Json]:
        given = body["input"]
        items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        return [*self._items.get(body.get("previous_response_id") or "", []), *items]


def response_of(reply: Reply, number: int, model: str) -> Json:
    """A reply as one response."""
    output: list[Json] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": "".join(reply.reasoning)}]
        output.append(
            {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": f"sealed_{number}"}
        )
    if reply.text:
        output.append({**_message(number), "content": [_text("".join(reply.text))]})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": call.id,
            "name": call.name,
            "arguments": "".join(call.arguments),
            "status": "completed",
        }
        for index, call in enumerate(reply.calls)
    ]
    usage = {
        "input_tokens": reply.usage["prompt_tokens"],
        "output_tokens": reply.usage["completion_tokens"],
        "total_tokens": reply.usage["total_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {**_head(number, model, "completed"), "output": output, "usage": usage}


def events_of(response: Json, reply: Reply) -> Iterator[Json]:
    """The response as the events of a stream. A reply that is cut has no last event."""
    for number, event in enumerate(_events(response, reply)):
        yield {**event, "sequence_number": number}


def _events(response: Json, reply: Reply) -> Iterator[Json]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        kind = item["type"]
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        if kind == "message":
            inner = {**place, "content_index": 0}
            yield {"type": "response.content_part.added", **inner, "part": _text("")}
            for piece in reply.text:
                yield {"type": "response.output_text.delta", **inner, "delta": piece, "logprobs": []}
            text = item["content"][0]["text"]
            yield {"type": "response.output_text.done", **inner, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **inner, "part": item["content"][0]}
        elif kind == "function_call":
            call = next(each for each in reply.calls if each.id == item["call_id"])
            for piece in call.arguments:
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, **done}
        else:
            for piece in reply.reasoning:
                yield {"type": "response.reasoning_summary_text.delta", **place, "summary_index": 0, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    if not reply.cut:
        yield {"type": "response.completed", "response": response}


def _head(number: int, model: str, status: str) -> Json:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": status,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message(number: int) -> Json:
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _empty(item: Json) -> Json:
    """An output item before anything of it has been streamed."""
    without: dict[str, Json] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    begun = {**item, **without[item["type"]]}
    begun.pop("encrypted_content", None)
    return begun
