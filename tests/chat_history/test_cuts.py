"""A run that is cut short after any event of any field case, in any way, leaves nothing active."""

import asyncio
import copy
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat_history.cuts import WAYS, Event, assert_ended, distinct_cuts, terminal_in
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.odd_events import ENDINGS, EVENTS
from tests.chat_history.scripts import Crash, ScriptedAgent, until, wire_input
from threadkeep.chat_history import AGUIStorageAgent, Message, StorageState, StreamPersistenceManager
from threadkeep.chat_history.ag_ui.opening import live_runs
from threadkeep.chat_history.ag_ui.wire import event_fields, event_type

CUTS = distinct_cuts()
TERMINALS = ("RUN_FINISHED", "RUN_ERROR")


async def play(run_input: dict[str, Any], events: Sequence[Event], count: int, way: str) -> list[Message]:
    """Cut a run after `count` of its events; what is stored of it."""
    chats, messages = MemoryChats(), MemoryMessages()
    script: list[Any] = list(events if way == "disconnect" else events[:count])
    if way == "crash":
        script.append(Crash("it broke"))
    if way == "cancel":
        script.append(asyncio.Event())
    agent = ScriptedAgent(script)
    manager = StreamPersistenceManager(lambda: AGUIStorageAgent("a", user, chats, messages, agent))
    user = uuid4()
    handle = await manager.run(wire_input(**run_input))
    seen: list[Any] = []
    ended = terminal_in(events[:count]) is not None
    if count:
        async for event in handle.events():
            seen.append(event)
            if len(seen) == count:
                break
    if way == "cancel":
        if not count:
            # Wherever the opening of the run is.
            await asyncio.sleep(0)
        assert handle.cancel() is not ended
        if ended:
            # The agent that goes on after its end has nothing more to say, and is not waited for.
            handle._task.cancel()
    await handle.wait()
    got = [event async for event in handle.events()]
    through = script[: len(script) if way == "disconnect" else count]
    until = next((place for place, event in enumerate(through, 1) if event["type"] in TERMINALS), len(through))
    assert [event_fields(event) for event in got[:until]] == through[:until]
    assert [event_type(event) for event in got if event_type(event) in TERMINALS] == [event_type(got[-1])]
    for chat in chats.chats.values():
        assert live_runs.of(chat.chat_uuid) == frozenset()
    return [message for message in messages.messages.values() if message.role != "user" or message.run_id is None]


def records_of(messages: Sequence[Message]) -> list[tuple[str, str, bool, bool]]:
    found = []
    for message in messages:
        found.append(("message", message.status.value, message.in_progress, False))
        found += [("call", each.status.value, each.in_progress, each.awaiting) for each in message.tool_calls]
        found += [("reasoning", each.status.value, each.in_progress, False) for each in message.reasonings]
        found += [("subagent", each.status.value, each.in_progress, False) for each in message.subagents or []]
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CUTS)
async def test_a_run_that_is_cut_short_leaves_nothing_active(name: str, way: str) -> None:
    run_input, cuts = CUTS[name]
    stored = await asyncio.gather(*(play(run_input, events, count, way) for count, events in cuts))
    for (count, events), messages in zip(cuts, stored, strict=True):
        seen = events if way == "disconnect" else events[:count]
        assert_ended(records_of(messages), seen, way)
        speaking = [message for message in messages if message.role == "assistant"]
        if WAYS[way] and terminal_in(seen) is None and (speaking or way != "cancel"):
            # The history shows how the run ended.
            assert speaking[-1].status.value == WAYS[way], (count, events[:count])


class Eager(AGUIStorageAgent):
    """Stores after each event, and counts them."""

    folded = 0

    async def _dispatch(self, state: StorageState, event: object) -> None:
        await super()._dispatch(state, event)
        await self.flush_message_buffer(state)
        self.folded += 1


async def kill(run_input: dict[str, Any], events: Sequence[Event], count: int) -> list[Message]:
    """The process dies after `count` events, and another one goes on with the thread; what is stored then."""
    chats, messages, user = MemoryChats(), MemoryMessages(), uuid4()
    agent = Eager("a", user, chats, messages, ScriptedAgent([*events[:count], asyncio.Event()]))
    manager = StreamPersistenceManager(lambda: agent)
    handle = await manager.run(wire_input(**run_input))
    await until(lambda: agent.folded == count and bool(messages.messages or not run_input["messages"]))
    left = copy.deepcopy(messages.messages)
    handle._task.cancel()
    await handle.wait()
    messages.messages = left
    after = AGUIStorageAgent("a", user, chats, messages, ScriptedAgent([]))
    async for _ in after.run(wire_input(**{**run_input, "runId": "after", "messages": []})):
        pass
    return [message for message in messages.messages.values() if message.run_id != "after"]


@pytest.mark.parametrize("name", CUTS)
async def test_what_a_killed_process_left_active_is_ended_by_the_next_run(name: str) -> None:
    run_input, cuts = CUTS[name]
    stored = await asyncio.gather(*(kill(run_input, events, count) for count, events in cuts))
    for (count, events), messages in zip(cuts, stored, strict=True):
        assert_ended(records_of(messages), events[:count], "cancel")


async def end(events: Sequence[Event], way: str) -> list[Message]:
    """Let a run end in some way after these events; what is stored of it."""
    chats, messages, user = MemoryChats(), MemoryMessages(), uuid4()
    last: dict[str, list[Any]] = {"crash": [Crash("it broke")], "cancel": [asyncio.Event()], "eof": []}
    agent = ScriptedAgent([*events, *last[way]])
    manager = StreamPersistenceManager(lambda: AGUIStorageAgent("a", user, chats, messages, agent))
    handle = await manager.run(wire_input())
    if way == "cancel":
        await until(lambda: bool(agent.inputs))
        handle.cancel()
        handle._task.cancel()
    await handle.wait()
    return [*messages.messages.values()]


@settings(max_examples=40)
@given(events=st.lists(EVENTS, max_size=10), ending=st.none() | ENDINGS)
def test_no_stream_whatever_leaves_anything_active_however_it_ends(events: list[Event], ending: Event | None) -> None:
    events = [*events, *([] if ending is None else [ending])]

    async def all_ways() -> None:
        ways = ("cancel", "crash", "eof")
        *stored, left = await asyncio.gather(
            *(end(events, way) for way in ways), kill(plain_input(), events, len(events))
        )
        for way, messages in zip(ways, stored, strict=True):
            assert_ended(records_of(messages), events, way)
        assert_ended(records_of(left), events, "cancel")

    asyncio.run(all_ways())


SUBAGENTS: list[Event] = [
    {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "I ask somebody."},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "somebody", "parentMessageId": "m1"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m2", "role": "assistant", "subagentRunId": "s1"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "Hm", "subagentRunId": "s1"},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s2", "name": "another", "parentSubagentRunId": "s1"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s2"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "result": "Hm"},
]


async def test_subagents_end_with_the_run_that_they_worked_for() -> None:
    for count in range(len(SUBAGENTS) + 1):
        events = SUBAGENTS[:count]
        for way in ("cancel", "crash", "eof"):
            assert_ended(records_of(await end(events, way)), events, way)
        left = records_of(await kill(plain_input(), events, count))
        assert_ended(left, events, "cancel")
        assert ("subagent" in {what for what, *_ in left}) == (count > 3)


def plain_input() -> dict[str, Any]:
    return {"threadId": "t1", "runId": "r1", "messages": []}
