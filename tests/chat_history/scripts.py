"""Scripted agents and inputs for tests: what an agent emits is given as JSON objects."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import ag_ui.core
from ag_ui.core import BaseEvent

from threadkeep.chat_history import AGUIAgent, WireEvent, WireInput
from threadkeep.chat_history.ag_ui.wire import message_fields

Fields = Mapping[str, Any]


class Crash(Exception):
    """What a scripted agent raises."""


class ScriptedAgent(AGUIAgent):
    """Emits what it is told to: JSON objects (as bytes, or as the protocol's models), futures to wait for, exceptions.

    `seen` collects the messages of each input, under their wire names.
    """

    def __init__(self, script: Sequence[Any], *, objects: bool = False) -> None:
        super().__init__("scripted")
        self.script = script
        self.objects = objects
        self.seen: list[list[dict[str, Any]]] = []
        self.inputs: list[Any] = []

    async def run(self, input: Any) -> AsyncIterator[Any]:
        self.inputs.append(input)
        self.seen.append([dict(message_fields(message)) for message in input.messages])
        for step in self.script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, Mapping):
                yield as_object(step) if self.objects else WireEvent.of(step)
            elif callable(step):
                await step()
            else:
                yield step


def as_object(fields: Fields) -> BaseEvent:
    """The event as the installed release's own model; raises where it has none, or does not take the fields."""
    cls = getattr(ag_ui.core, "".join(word.capitalize() for word in fields["type"].split("_")) + "Event")
    return cls.model_validate(dict(fields))


def wire_input(**fields: Any) -> WireInput:
    whole = {"threadId": "t1", "runId": "r1", "state": {}, "messages": [], "tools": [], "context": []} | fields
    # What comes over the wire shares nothing with anybody.
    return WireInput(json.loads(json.dumps(whole)))


def said(agui_id: str, *deltas: str, **start: Any) -> list[Fields]:
    """A whole text message."""
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": agui_id, "role": "assistant", **start},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": agui_id, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": agui_id},
    ]


def called(agui_id: str, name: str = "f", arguments: str = "{}", parent: str | None = None) -> list[Fields]:
    """A whole tool call, without its result."""
    owner = {} if parent is None else {"parentMessageId": parent}
    return [
        {"type": "TOOL_CALL_START", "toolCallId": agui_id, "toolCallName": name, **owner},
        {"type": "TOOL_CALL_ARGS", "toolCallId": agui_id, "delta": arguments},
        {"type": "TOOL_CALL_END", "toolCallId": agui_id},
    ]


def result(agui_id: str, content: Any = "ok") -> Fields:
    return {"type": "TOOL_CALL_RESULT", "toolCallId": agui_id, "messageId": f"res-{agui_id}", "content": content}


def thought(agui_id: str, *deltas: str) -> list[Fields]:
    """A whole reasoning phase."""
    return [
        {"type": "REASONING_START", "messageId": agui_id},
        {"type": "REASONING_MESSAGE_START", "messageId": agui_id, "role": "reasoning"},
        *({"type": "REASONING_MESSAGE_CONTENT", "messageId": agui_id, "delta": delta} for delta in deltas),
        {"type": "REASONING_MESSAGE_END", "messageId": agui_id},
        {"type": "REASONING_END", "messageId": agui_id},
    ]


def started(run_id: str = "r1") -> Fields:
    return {"type": "RUN_STARTED", "threadId": "t1", "runId": run_id}


def finished(run_id: str = "r1", **fields: Any) -> Fields:
    return {"type": "RUN_FINISHED", "threadId": "t1", "runId": run_id, **fields}


def run_of(*events: Fields | Sequence[Fields], run_id: str = "r1") -> list[Fields]:
    """A run that finishes."""
    inner = [each for event in events for each in ([event] if isinstance(event, Mapping) else event)]
    return [started(run_id), *inner, finished(run_id)]


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until something is so."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)
