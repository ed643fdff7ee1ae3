"""What the storage agent must be able to do with a store: record runs, whatever happens to them or to the store."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from threadkeep.chat_history import (
    AGUIStorageAgent,
    Message,
    MessageRepositoryLike,
    RunHandle,
    StreamPersistenceManager,
    WireInput,
)
from threadkeep.chat_history.ag_ui.patience import Patience
from threadkeep.testing.agents import ScriptedAgent
from threadkeep.testing.conformance.faults import FAULTS, FaultyMessages
from threadkeep.testing.conformance.store import Repositories, StoreUnderTest

Event = Mapping[str, Any]
_STARTED: Event = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
_FINISHED: Event = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}
_THOUGHT: list[Event] = [
    {"type": "REASONING_START", "messageId": "z1"},
    {"type": "REASONING_MESSAGE_START", "messageId": "z1", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z1", "delta": "Ask the tool."},
    {"type": "REASONING_MESSAGE_END", "messageId": "z1"},
    {"type": "REASONING_END", "messageId": "z1"},
]
_CALL: list[Event] = [
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "weather", "parentMessageId": "m1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"city": '},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '"Oslo"}'},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
]
_RESULT: Event = {"type": "TOOL_CALL_RESULT", "toolCallId": "c1", "messageId": "res-c1", "content": "7 °C"}


def _said(agui_id: str, *deltas: str) -> list[Event]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": agui_id, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": agui_id, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": agui_id},
    ]


_RUN = [
    _STARTED,
    *_THOUGHT,
    *_said("m1", "Let me ", "look."),
    *_CALL,
    _RESULT,
    *_said("m2", "It is ", "7 °C."),
    _FINISHED,
]
_HISTORY = [
    ("user", "Hello", "complete", [], []),
    (
        "assistant",
        "Let me look.",
        "complete",
        [('{"city": "Oslo"}', "7 °C", "complete")],
        [("Ask the tool.", "complete")],
    ),
    ("assistant", "It is 7 °C.", "complete", [], []),
]


class _Impatient(AGUIStorageAgent):
    """Does not pause between two attempts, and stores every few characters."""

    patience = Patience(first_delay=0.0, longest_delay=0.0, settle=60.0)


class RunConformance(StoreUnderTest):
    """Recorded runs: whole, replayed, ended however the run ends, and neither short nor doubled where writes fail."""

    async def test_a_run_is_recorded_and_replayed(self) -> None:
        async with self.open_store() as store:
            user, agent = uuid4(), ScriptedAgent(_RUN)
            await _play(store, user, agent)
            assert await _history(self.elsewhere(store), user) == _HISTORY
            agent.events = [_STARTED, *_said("m3", "Still 7 °C."), _FINISHED]
            await _play(self.elsewhere(store), user, agent, run="r2", text="And now?", message="u2")
            given = agent.inputs[1].messages
            assert [message.role for message in given if message.role != "reasoning"] == [
                "user",
                "assistant",
                "tool",
                "assistant",
                "user",
            ]
            assert await _history(store, user) == [
                *_HISTORY,
                ("user", "And now?", "complete", [], []),
                ("assistant", "Still 7 °C.", "complete", [], []),
            ]

    async def test_a_client_that_sends_a_message_again_adds_none(self) -> None:
        async with self.open_store() as store:
            user = uuid4()
            await _play(store, user, ScriptedAgent([_STARTED, *_said("m1", "Hi"), _FINISHED]))
            await _play(store, user, ScriptedAgent([_STARTED, *_said("m2", "Hi again"), _FINISHED]), run="r2")
            assert [row[1] for row in await _history(store, user)] == ["Hello", "Hi", "Hi again"]

    @pytest.mark.parametrize(
        ("then", "status"), [("cancel", "interrupted"), (RuntimeError("it broke"), "errored"), (None, "errored")]
    )
    async def test_a_run_that_breaks_off_leaves_nothing_active(self, then: Any, status: str) -> None:
        async with self.open_store() as store:
            user = uuid4()
            half = [_STARTED, *_THOUGHT[:3], *_said("m1", "Let me ")[:2], *_CALL[:2]]
            handle = await _begin(store, user, ScriptedAgent(half, then="hang" if then == "cancel" else then))
            async for event in handle.events():
                if _fields(event) == half[-1]:
                    break
            if then == "cancel":
                assert handle.cancel()
            await handle.wait()
            assert await _history(self.elsewhere(store), user) == [
                _HISTORY[0],
                (
                    "assistant",
                    "Let me ",
                    status,
                    [('{"city": ', "", status)],
                    [("Ask the tool.", status)],
                ),
            ]

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_writes_that_fail_leave_the_record_neither_short_nor_doubled(self, fault: str) -> None:
        async with self.open_store() as store:
            faulty, user, gate = FaultyMessages(store.messages, fault), uuid4(), asyncio.Event()
            split = _RUN.index(_RESULT) - 2
            agent = ScriptedAgent([*_RUN[:split], gate, *_RUN[split:]])
            handle = await _begin(Repositories(store.chats, cast(MessageRepositoryLike, faulty)), user, agent)
            async for event in handle.events():
                if _fields(event) == _RUN[split - 1]:
                    break
            faulty.begin()
            gate.set()
            await handle.wait()
            assert faulty.left == 0
            assert await _history(self.elsewhere(store), user) == _HISTORY

    async def test_a_frontend_s_tool_gets_its_result_in_the_next_run(self) -> None:
        async with self.open_store() as store:
            user = uuid4()
            tool = {"name": "weather", "description": "", "parameters": {}}
            await _play(
                store, user, ScriptedAgent([_STARTED, *_said("m1", "Let me look."), *_CALL, _FINISHED]), tools=[tool]
            )
            assert (await _history(store, user))[1][3] == [('{"city": "Oslo"}', "", "active")]
            answer = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "7 °C"}
            agent = ScriptedAgent([_STARTED, *_said("m2", "It is 7 °C."), _FINISHED])
            await _play(self.elsewhere(store), user, agent, run="r2", messages=[answer])
            rows = await _history(store, user)
            assert [row[1] for row in rows] == ["Hello", "Let me look.", "It is 7 °C."]
            assert rows[1][3] == [('{"city": "Oslo"}', "7 °C", "complete")]

    async def test_a_chat_that_is_deleted_in_the_middle_of_a_run_stays_deleted(self) -> None:
        async with self.open_store() as store:
            user, gate = uuid4(), asyncio.Event()
            agent = ScriptedAgent([*_RUN[:8], gate, *_RUN[8:]])
            handle = await _begin(store, user, agent)
            async for event in handle.events():
                if _fields(event) == _RUN[7]:
                    break
            chat = await store.chats.get_chat_by_thread_id(user, "t1")
            assert chat is not None
            await store.chats.delete_chat(chat.chat_uuid)
            gate.set()
            assert len([event async for event in handle.events()]) == len(_RUN)
            await handle.wait()
            assert await store.chats.get_chat_by_thread_id(user, "t1") is None
            assert list(await self.elsewhere(store).messages.get_chat_messages(chat.chat_uuid)) == []


async def _begin(store: Repositories, user: UUID, agent: ScriptedAgent, run: str = "r1", **given: Any) -> RunHandle:
    fields = {"threadId": "t1", "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {}, **given}
    fields.setdefault("messages", [{"id": "u1", "role": "user", "content": "Hello"}])
    manager = StreamPersistenceManager(
        lambda: _Impatient("assistant", user, store.chats, store.messages, agent, minimal_chunk_to_persist=8)
    )
    return await manager.run(cast(Any, WireInput(fields)))


async def _play(
    store: Repositories,
    user: UUID,
    agent: ScriptedAgent,
    run: str = "r1",
    *,
    text: str = "Hello",
    message: str = "u1",
    **given: Any,
) -> None:
    given.setdefault("messages", [{"id": message, "role": "user", "content": text}])
    handle = await _begin(store, user, agent, run, **given)
    await handle.wait()


async def _history(store: Repositories, user: UUID) -> list[tuple[Any, ...]]:
    chat = await store.chats.get_chat_by_thread_id(user, "t1")
    assert chat is not None, "the run made no chat"
    return [_row(message) for message in await store.messages.get_chat_messages(chat.chat_uuid)]


def _row(message: Message) -> tuple[Any, ...]:
    return (
        message.role.value,
        message.content,
        message.status.value,
        [(call.arguments, call.content, call.status.value) for call in message.tool_calls],
        [(step.content, step.status.value) for step in message.reasonings],
    )


def _fields(event: object) -> Any:
    return event if isinstance(event, Mapping) else getattr(event, "fields", None)
