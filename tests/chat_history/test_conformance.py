"""Streams that end early leave in good order, wherever they are cut: an independent judge agrees."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.chat_history.conformance import errors_of
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import (
    Crash,
    ScriptedAgent,
    called,
    finished,
    result,
    said,
    started,
    thought,
    wire_input,
)
from threadkeep.chat_history import AGUIStorageAgent, StreamPersistenceManager
from threadkeep.chat_history.ag_ui.wire import event_fields, event_type


def of(run_id: str, events: list[Any]) -> list[Any]:
    return [{**event, "subagentRunId": run_id} for event in events]


STEP = {"stepName": "plan"}
SUBAGENT = {"subagentRunId": "s1"}
# A stream in good order, in which everything that can be open is open at some time.
STREAM: list[dict[str, Any]] = [
    started(),
    {"type": "STEP_STARTED", **STEP},
    *thought("z1", "hm"),
    *said("m1", "Let me ", "look"),
    *called("c1", parent="m1"),
    called("c2", "ask", parent="m1")[0],
    {"type": "SUBAGENT_STARTED", "name": "scout", **SUBAGENT},
    *of("s1", said("m2", "seen")),
    *of("s1", [{"type": "STEP_STARTED", **STEP}, {"type": "STEP_FINISHED", **STEP}]),
    {"type": "SUBAGENT_FINISHED", **SUBAGENT},
    *called("c2", "ask", parent="m1")[1:],
    result("c1"),
    result("c2"),
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m3", "role": "assistant", "delta": "It "},
    {"type": "TEXT_MESSAGE_CHUNK", "delta": "is 4C"},
    {"type": "STEP_FINISHED", **STEP},
    finished(),
]


def test_the_stream_itself_is_in_order() -> None:
    assert errors_of(STREAM) == set()


@pytest.mark.parametrize("protocol", [{}, {"protocolVersion": "1.0"}], ids=["0.1", "1.0"])
@pytest.mark.parametrize("how", ["cancel", "crash", "eof"])
@pytest.mark.parametrize("count", range(len(STREAM)))
async def test_a_stream_that_is_cut_ends_in_order(count: int, how: str, protocol: dict[str, Any]) -> None:
    gate: Any = {"cancel": asyncio.Event(), "crash": Crash("boom"), "eof": None}[how]
    inner = ScriptedAgent([*STREAM[:count], *([gate] if gate is not None else [])])
    chats, messages = MemoryChats(), MemoryMessages()
    manager = StreamPersistenceManager(lambda: AGUIStorageAgent("a", UUID(int=1), chats, messages, inner))
    handle = await manager.run(wire_input(**protocol))
    events: list[Any] = []
    stream = handle.events()
    if how == "cancel":
        events += [await anext(stream) for _ in range(count)]
        assert handle.cancel()
    events += [event async for event in stream]
    await handle.wait()
    seen = [{**event_fields(event), "type": event_type(event)} for event in events]
    assert seen[:count] == STREAM[:count]
    assert seen[-1]["type"] == ("RUN_FINISHED" if how == "cancel" else "RUN_ERROR")
    # The judge is older than 1.0: a run may be refused before it has begun, and an outcome may be `cancelled`.
    assert {rule for rule, _ in errors_of(seen)} <= ({"AGUI001"} if count == 0 and how != "cancel" else set())
