"""What chat history costs in requests: the same in a long chat as in a short one, on both engines and in both ways."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.chat_history.counting import Counted
from tests.chat_history.scripts import ScriptedAgent, called, result, run_of, said, thought, wire_input
from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    AGUIStorageAgent,
    Chat,
    ChatCreate,
    MessageCreate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
)
from threadkeep.contract.version import LOOKUP_KEYS

LONG = 320
"""Messages of a long chat: several pages."""


@pytest.fixture
async def chat(store: Store, user_uuid: UUID) -> Chat:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    async with store.messages.transaction():
        for number in range(LONG):
            await store.messages.create_message(by(chat, content=str(number)))
    await store.registry.lookups.settle()
    return chat


def by(chat: Chat, **fields: Any) -> MessageCreate:
    return MessageCreate(**{"chat_uuid": chat.chat_uuid, "role": "assistant", "in_progress": False, **fields})


async def has_keys(store: Store) -> bool:
    return LOOKUP_KEYS in await store.space.client.features()


async def test_a_write_is_one_request_to_the_events_in_a_long_chat(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat))
    counted = Counted(store.space.client)
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid))
    await store.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r"))
    await store.messages.update_message(message.message_uuid, MessageUpdate(content="x"))
    await store.messages.create_message(by(chat))
    sent = counted.taken()
    assert [each for each in sent if "events" in each] == [
        "PATCH events",
        "PATCH events",
        "PATCH events",
        "POST events",
    ]
    assert len(sent) == 4 + (0 if await has_keys(store) else 2), "only locators come beside them"


async def test_a_long_chat_is_read_in_two_requests_where_the_service_gives_it_whole(store: Store, chat: Chat) -> None:
    elsewhere = store.elsewhere()
    counted = Counted(store.space.client)

    messages = await elsewhere.messages.get_chat_messages(chat.chat_uuid)

    assert [message.content for message in messages] == [str(number) for number in range(LONG)]
    read = [each for each in counted.taken() if each in ("GET events", "GET history")]
    assert read == (["GET events", "GET history"] if await has_keys(store) else ["GET events"] * 5)


async def test_a_conflict_costs_one_read_of_that_message(store: Store, chat: Chat) -> None:
    old = (await store.messages.get_chat_messages(chat.chat_uuid))[-100]
    elsewhere = store.elsewhere()
    await elsewhere.messages.update_message(old.message_uuid, MessageUpdate(step="theirs"))
    # It is not among the newest hundred any more.
    await elsewhere.messages.create_message(by(chat))
    counted = Counted(store.space.client)

    changed = await store.messages.update_message(old.message_uuid, MessageUpdate(content="ours"))

    look = "GET look-up" if await has_keys(store) else "GET events"
    assert counted.taken() == ["PATCH events", look, "PATCH events"]
    assert (changed.step, changed.content) == ("theirs", "ours")


async def test_a_message_that_was_read_is_written_at_once(store: Store, chat: Chat) -> None:
    elsewhere = store.elsewhere()
    messages = await elsewhere.messages.get_chat_messages(chat.chat_uuid)
    await elsewhere.registry.lookups.settle()
    counted = Counted(store.space.client)

    for message in messages[-100:]:
        await elsewhere.messages.update_message(message.message_uuid, MessageUpdate(step="s"))

    assert counted.taken() == ["PATCH events"] * 100


async def test_a_message_that_nobody_here_has_seen_costs_one_look_up(store: Store, chat: Chat) -> None:
    first, *_ = await store.messages.get_chat_messages(chat.chat_uuid)
    elsewhere = store.elsewhere()
    counted = Counted(store.space.client)

    await elsewhere.messages.update_message(first.message_uuid, MessageUpdate(step="s"))

    if await has_keys(store):
        assert counted.taken() == ["GET look-up", "PATCH events"]
    else:
        # Its locator, its chat, and the chat's pages: the hosted service has no other way to one event.
        assert counted.taken()[:2] == ["GET locator", "GET sessions"]


async def test_the_last_messages_of_150_chats_are_a_few_requests(store: Store, user_uuid: UUID) -> None:
    async def one(number: int) -> UUID:
        made = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id=f"t{number}"))
        await store.messages.create_message(by(made, content="earlier"))
        await store.messages.create_message(by(made, content=str(number)))
        return made.chat_uuid

    uuids: list[UUID] = []
    for start in range(0, 150, 25):
        uuids += await asyncio.gather(*map(one, range(start, start + 25)))
    elsewhere = store.elsewhere()
    counted = Counted(store.space.client)

    last = await elsewhere.messages.get_last_messages(uuids)
    cold = counted.taken()
    await elsewhere.messages.get_last_messages(uuids)
    warm = counted.taken()
    chats = await elsewhere.chats.get_all_chats(user_uuid)
    listed = counted.taken()

    assert [last[uuid].content for uuid in uuids] == [str(number) for number in range(150)]
    assert (len(chats), listed) == (150, ["GET sessions"] * 2)
    if await has_keys(store):
        assert (cold, warm) == (["GET look-up", "GET look-up", "GET newest", "GET newest"], ["GET newest"] * 2)
    else:
        assert warm == ["GET events"] * 150


async def test_a_run_of_2000_deltas_with_two_calls_and_reasoning_is_at_most_12_requests(
    store: Store, user_uuid: UUID
) -> None:
    script = run_of(
        thought("z1", *["hm, "] * 50),
        called("c1", parent="m1"),
        result("c1", "seen"),
        called("c2", parent="m1"),
        result("c2", "seen"),
        said("m2", *["word "] * 2_000),
    )
    if await has_keys(store):
        # As a client that has just been made: it has not asked yet.
        store.space.client._features = None
    counted = Counted(store.space.client)

    for run_id in ("r1", "r2"):
        messages = [{"id": f"u-{run_id}", "role": "user", "content": "Go on"}]
        agent = AGUIStorageAgent("assistant", user_uuid, store.chats, store.messages, ScriptedAgent(script))
        run_input = wire_input(runId=run_id, messages=messages)
        assert len([event async for event in agent.run(run_input)]) == len(script)
        sent = counted.taken()
        assert len(sent) <= 12, sent
        assert sum(each.endswith(" events") for each in sent) <= 6, sent
    chat = await store.chats.get_chat_by_thread_id(user_uuid, "t1")
    stored = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert [len(message.content) for message in stored if message.role == "assistant"] == [0, 10_000] * 2
