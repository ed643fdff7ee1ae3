"""What the agent says in these tests: whole answers, as events, with everything in them that a client shows."""

import threading
from typing import Any

Json = dict[str, Any]
Steps = list[Json | threading.Event]


def started() -> Json:
    return {"type": "RUN_STARTED"}


def finished(**fields: Any) -> Json:
    return {"type": "RUN_FINISHED", **fields}


def text(id: str, *deltas: str) -> Steps:
    """A message in so many pieces."""
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": id},
    ]


def reasoning(id: str, *deltas: str) -> Steps:
    return [
        {"type": "REASONING_START", "messageId": id},
        {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"},
        *({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta} for delta in deltas),
        {"type": "REASONING_MESSAGE_END", "messageId": id},
        {"type": "REASONING_END", "messageId": id},
    ]


def call(id: str, parent: str, *arguments: str, result: str) -> Steps:
    """A tool call of a message, and what it gave."""
    return [
        {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "look_up", "parentMessageId": parent},
        *({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta} for delta in arguments),
        {"type": "TOOL_CALL_END", "toolCallId": id},
        {"type": "TOOL_CALL_RESULT", "messageId": f"{id}-result", "toolCallId": id, "content": result},
    ]


def answer(name: str, *gates: threading.Event) -> Steps:
    """A long answer with reasoning, text and a tool call. Each gate is in the middle of one of them, in this order."""
    steps: Steps = [
        started(),
        *reasoning(f"{name}-thought", "Let me ", "see"),
        *text(f"{name}-first", "I look ", "it up"),
        *call(f"{name}-call", f"{name}-first", '{"city": ', '"Paris"}', result="18 degrees"),
        *text(f"{name}-second", "It is ", "18 ", "degrees"),
        {"type": "STATE_SNAPSHOT", "snapshot": {"city": "Paris"}},
        finished(),
    ]
    firsts = [
        next(at for at, step in enumerate(steps) if step["type"] == kind)  # type: ignore[index]
        for kind in ("REASONING_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS")
    ]
    for at, gate in reversed([*zip(firsts, gates, strict=False)]):
        steps.insert(at + 1, gate)
    return steps
