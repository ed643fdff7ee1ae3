"""What a user sees, kept by whole runs on the service: on both engines, read by another process."""

import logging
from typing import Any
from uuid import UUID

import pytest

from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import ScriptedAgent, called, finished, result, said, started, thought, wire_input
from tests.chat_history.stores import Store
from tests.test_docs import execute, snippet
from threadkeep.chat_history import AGUIStorageAgent, Message, StreamPersistenceManager

HELLO = [{"id": "u1", "role": "user", "content": "Hello!", "metadata": {"client": "web"}}]
IMAGE = {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}}
USAGE = [{"model": "m", "inputTokens": 3}]
ODD = "x\x00y \ud83d"


async def play(store: Any, user: UUID, events: list[Any], run_id: str = "r1", **options: Any) -> None:
    inner = ScriptedAgent(events)
    run_input = wire_input(runId=run_id, messages=HELLO, state=options.pop("state", {}))
    manager = StreamPersistenceManager(
        lambda: AGUIStorageAgent("assistant", user, store.chats, store.messages, inner, **options)
    )
    handle = await manager.run(run_input)
    await handle.wait()


async def messages(store: Store, user: UUID) -> list[Message]:
    elsewhere = store.elsewhere()
    chat = await elsewhere.chats.get_chat_by_thread_id(user, "t1")
    return [*await elsewhere.messages.get_chat_messages(chat.chat_uuid)]


async def chat_uuid(store: Store, user: UUID) -> UUID:
    chat = await store.chats.get_chat_by_thread_id(user, "t1")
    return chat.chat_uuid


async def test_what_stands_beside_the_words_comes_back(store: Store, user_uuid: UUID) -> None:
    sealed = {"type": "REASONING_ENCRYPTED_VALUE", "entityId": "z1", "encryptedValue": "gAAA==", "subtype": "message"}
    events = [
        started(),
        *thought("z1", "hm"),
        sealed,
        *said("m1", "Let me look", metadata={"lang": ODD}),
        *called("c1", "look"),
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "scout", "parentToolCallId": "c1"},
        *({**event, "subagentRunId": "s1"} for event in said("m2", "found")),
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "result": {"n": ODD}},
        {**result("c1", [{"type": "text", "text": "4C"}, IMAGE]), "error": "late", "metadata": {"ms": 12}},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"steps": [ODD]}},
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "a1",
            "activityType": "PLAN",
            "patch": [{"op": "add", "path": "/n", "value": 1}],
        },
        *said("m3", "4C"),
        finished(outcome={"type": "interrupt", "interrupts": [{"id": "i1"}]}, result=[1, None], usage=USAGE),
    ]
    await play(store, user_uuid, events)
    user, first, scout, plan, last = await messages(store, user_uuid)
    assert user.metadata == {"client": "web"}
    assert (first.metadata, first.reasonings[0].encrypted_value) == ({"lang": ODD}, "gAAA==")
    (call,) = first.tool_calls
    assert (call.content, call.parts, call.error, call.status, call.metadata) == (
        "4C",
        [{"type": "text", "text": "4C"}, IMAGE],
        "late",
        "errored",
        {"ms": 12},
    )
    (agent,) = first.subagents
    assert (agent.name, agent.result, agent.status, agent.parent_tool_call_id) == (
        "scout",
        {"n": ODD},
        "complete",
        "c1",
    )
    assert (scout.name, scout.content, scout.subagent_run_id) == ("scout", "found", "s1")
    assert (plan.role, plan.activity_type, plan.activity) == ("activity", "PLAN", {"steps": [ODD], "n": 1})
    assert (last.interrupts, last.result, last.usage) == ([{"id": "i1"}], [1, None], USAGE)
    assert last.outcome == {"type": "interrupt", "interrupts": [{"id": "i1"}]}


async def test_the_last_state_of_a_thread_is_stored_once_and_run_after_run(store: Store, user_uuid: UUID) -> None:
    more = {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/m", "value": None}]}
    await play(store, user_uuid, [started(), {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}, more, finished()])
    uuid = await chat_uuid(store, user_uuid)
    assert await store.elsewhere().messages.get_state(uuid) == {"n": 1, "m": None}

    change = {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": ODD}]}
    await play(store.elsewhere(), user_uuid, [started("r2"), change, finished("r2")], "r2", state={"n": 0})
    assert await store.elsewhere().messages.get_state(uuid) == {"n": ODD}


async def test_a_run_that_leaves_the_state_alone_stores_none(store: Store, user_uuid: UUID) -> None:
    await play(store, user_uuid, [started(), *said("m1", "ok"), finished()], state={"n": 1})
    assert await store.messages.get_state(await chat_uuid(store, user_uuid)) is None


class Eager(AGUIStorageAgent):
    """Stores each text event at once."""

    async def handle_text_message(self, state: Any, chat: Any, event: Any) -> None:
        await super().handle_text_message(state, chat, event)
        await self.flush_message_buffer(state)


async def test_a_text_that_was_cut_while_it_grew_is_whole_when_it_has_ended(store: Store, user_uuid: UUID) -> None:
    inner = ScriptedAgent([started(), *said("m1", "x" * 1_000_000, "the end"), finished()])
    handle = await StreamPersistenceManager(
        lambda: Eager("assistant", user_uuid, store.chats, store.messages, inner)
    ).run(wire_input(messages=HELLO))
    await handle.wait()
    _, message = await messages(store, user_uuid)
    assert (message.content[-10:], len(message.content), message.error) == ("xxxthe end", 1_000_007, None)


async def test_events_are_kept_as_they_came_where_they_are_asked_for(store: Store, user_uuid: UUID) -> None:
    progress = {"type": "CUSTOM", "name": "progress", "value": {"p": 0.5, "odd": ODD}, "rawEvent": {"blob": 1}}
    events = [started(), *said("m1", "a"), progress, {"type": "RAW", "event": {"blob": "z"}}, finished()]
    await play(store, user_uuid, events, keep_events={"CUSTOM"})
    uuid = await chat_uuid(store, user_uuid)
    (kept,) = await store.elsewhere().messages.get_events(uuid)
    assert (kept.kind, kept.run_id) == ("CUSTOM", "r1")
    assert kept.fields == {"type": "CUSTOM", "name": "progress", "value": {"p": 0.5, "odd": ODD}}


async def test_a_function_may_choose_the_events_and_none_is_kept_by_default(store: Store, user_uuid: UUID) -> None:
    events = [started(), *({"type": "CUSTOM", "name": name, "value": 1} for name in ("a", "b")), finished()]
    await play(store, user_uuid, events)
    uuid = await chat_uuid(store, user_uuid)
    assert await store.messages.get_events(uuid) == []
    await play(store, user_uuid, events, "r2", keep_events=lambda kind, fields: fields.get("name") == "b")
    assert [each.fields["name"] for each in await store.messages.get_events(uuid)] == ["b"]


async def test_the_documented_way_to_keep_events_keeps_them(store: Store, user_uuid: UUID) -> None:
    module = execute(snippet("docs/chat-history.md", "kept events"))
    inner = ScriptedAgent([started(), {"type": "CUSTOM", "name": "progress", "value": 0.5}, finished()])
    agent = module["storage_agent"](user_uuid, store.chats, store.messages, inner)
    handle = await StreamPersistenceManager(lambda: agent).run(wire_input(messages=HELLO))
    await handle.wait()
    assert await module["progress_of"](store.messages, await chat_uuid(store, user_uuid)) == [0.5]


async def test_a_choice_that_fails_costs_nothing_but_the_keeping(
    store: Store, user_uuid: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(kind: str, fields: Any) -> bool:
        raise RuntimeError("no")

    with caplog.at_level(logging.CRITICAL):
        await play(store, user_uuid, [started(), *said("m1", "a"), finished()], keep_events=fail)
    assert [(each.content, each.status) for each in await messages(store, user_uuid)] == [
        ("Hello!", "complete"),
        ("a", "complete"),
    ]


async def test_a_repository_without_states_and_events_is_given_none() -> None:
    class Plain:
        chats, messages = MemoryChats(), MemoryMessages()

    events = [started(), {"type": "STATE_SNAPSHOT", "snapshot": {}}, {"type": "CUSTOM", "name": "n"}, *said("m1", "a")]
    await play(Plain, UUID(int=1), [*events, finished()], keep_events={"CUSTOM"})
    assert [each.content for each in Plain.messages.messages.values()] == ["Hello!", "a"]
