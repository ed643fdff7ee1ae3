"""Chats on the service, on both engines."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    ChatRepository,
    ChatRepositoryLike,
    MessageCreate,
    chat_deduplication_key,
    participant_id,
)


def new(user_uuid: UUID, thread_id: str = "thread-1", **fields: Any) -> ChatCreate:
    return ChatCreate(user_uuid=user_uuid, thread_id=thread_id, **fields)


async def test_a_chat_is_stored_as_one_session(store: Store, user_uuid: UUID) -> None:
    chat = await store.chats.create_chat(new(user_uuid, name="Plans"))
    response = await store.space.client.request("GET", f"{store.space.id}/sessions/{chat.id}/")
    session = response.json()
    assert (session["description"], session["participants"]) == ("//thread/thread-1/", [participant_id(user_uuid)])
    assert session["deduplicationKey"] == chat_deduplication_key(user_uuid, "thread-1")
    assert session["metadata"] == {
        "name": "Plans",
        "chat_uuid": str(chat.chat_uuid),
        "user_uuid": str(user_uuid),
    }
    assert isinstance(store.chats, ChatRepositoryLike)


async def test_creating_a_chat_again_returns_the_one_that_is_there(store: Store, user_uuid: UUID) -> None:
    first = await store.chats.create_chat(new(user_uuid))
    again = await store.chats.create_chat(new(user_uuid, name="Other"))
    elsewhere = await store.elsewhere().chats.create_chat(new(user_uuid))
    assert [(chat.chat_uuid, chat.name) for chat in (again, elsewhere)] == [(first.chat_uuid, "New Chat")] * 2


async def test_chats_created_at_the_same_time_are_one(store: Store, user_uuid: UUID) -> None:
    stores = [store, store, store.elsewhere(), store.elsewhere()]
    chats = await asyncio.gather(*(each.chats.create_chat(new(user_uuid)) for each in stores))
    assert len({chat.chat_uuid for chat in chats}) == len({chat.id for chat in chats}) == 1


async def test_a_message_waits_for_the_chat_that_is_being_created(store: Store, user_uuid: UUID) -> None:
    wanted = new(user_uuid)
    creating = asyncio.create_task(store.chats.create_chat(wanted))
    await asyncio.sleep(0)
    message = await store.messages.create_message(MessageCreate(chat_uuid=wanted.chat_uuid, role="user", content="hi"))
    chat = await creating
    assert [each.content for each in await store.messages.get_chat_messages(chat.chat_uuid)] == ["hi"]
    assert message.chat_uuid == chat.chat_uuid


async def test_two_users_may_have_the_same_thread_id(store: Store, user_uuid: UUID) -> None:
    other = uuid4()
    mine, theirs = await store.chats.create_chat(new(user_uuid)), await store.chats.create_chat(new(other))
    assert mine.chat_uuid != theirs.chat_uuid
    cold = store.elsewhere().chats
    assert (await cold.get_chat_by_thread_id(other, "thread-1")).chat_uuid == theirs.chat_uuid
    assert [chat.chat_uuid for chat in await cold.get_all_chats(user_uuid)] == [mine.chat_uuid]
    assert [chat.chat_uuid for chat in await cold.get_all_chats(None)] == [mine.chat_uuid, theirs.chat_uuid]


@pytest.mark.parametrize("thread_id", ["a/b", "a|b:c%20", "ü\0☃", "x" * 900, " ", "\ud83d"])
async def test_a_thread_id_may_be_any_text(store: Store, user_uuid: UUID, thread_id: str) -> None:
    chat = await store.chats.create_chat(new(user_uuid, thread_id))
    found = await store.elsewhere().chats.get_chat_by_thread_id(user_uuid, thread_id)
    assert (found.thread_id, found.chat_uuid) == (thread_id, chat.chat_uuid)


async def test_a_chat_needs_a_user_and_a_thread(store: Store, user_uuid: UUID) -> None:
    without = (ChatCreate(user_uuid=user_uuid), ChatCreate(thread_id="t"))
    for incomplete in (*without, new(user_uuid, ""), new(user_uuid, "x" * 1_000)):
        with pytest.raises(ValueError):
            await store.chats.create_chat(incomplete)
    assert await store.chats.get_chat_by_thread_id(user_uuid, "") is None
    assert await store.chats.get_chat_by_thread_id(user_uuid, "x" * 1_000) is None


async def test_a_chat_without_its_key_is_found_by_its_thread(store: Store, user_uuid: UUID) -> None:
    plain = await Chat.post(
        store.space, thread_id="thread-1", user_uuid=user_uuid, participants=[participant_id(user_uuid)]
    )
    found = await store.chats.get_chat_by_thread_id(user_uuid, "thread-1")
    assert found.chat_uuid == plain.chat_uuid
    assert await store.chats.get_chat_by_thread_id(uuid4(), "thread-1") is None


async def test_a_chat_is_renamed_even_where_somebody_else_was_faster(store: Store, user_uuid: UUID) -> None:
    chat = await store.chats.create_chat(new(user_uuid))
    await store.elsewhere().chats.update_chat_name(chat.chat_uuid, "Theirs")
    renamed = await store.chats.update_chat_name(chat.chat_uuid, "Ours")
    assert renamed.name == "Ours"
    assert (await store.elsewhere().chats.get_chat_by_thread_id(user_uuid, "thread-1")).name == "Ours"
    assert await store.chats.update_chat_name(uuid4(), "Nobody's") is None


async def test_a_deleted_chat_is_gone_and_its_thread_is_free(store: Store, user_uuid: UUID) -> None:
    chat = await store.chats.create_chat(new(user_uuid))
    await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, role="user", content="hi"))
    cold = store.elsewhere()
    assert (await store.chats.delete_chat(chat.chat_uuid)).chat_uuid == chat.chat_uuid
    for each in (store, cold, store.elsewhere()):
        assert await each.chats.get_chat_by_thread_id(user_uuid, "thread-1") is None
        assert await each.messages.get_chat_messages(chat.chat_uuid) == []
        assert await each.chats.delete_chat(chat.chat_uuid) is None
        assert await each.chats.update_chat_name(chat.chat_uuid, "Ghost") is None
    again = await store.chats.create_chat(new(user_uuid))
    assert again.chat_uuid != chat.chat_uuid
    assert await store.messages.get_chat_messages(again.chat_uuid) == []


async def test_a_chat_of_ones_own_has_its_fields(store: Store, user_uuid: UUID) -> None:
    class TeamChat(Chat):
        team: str = ""

    class TeamCreate(ChatCreate):
        team: str = ""

    chats = ChatRepository(store.space, store.registry, chat_cls=TeamChat)
    await chats.create_chat(TeamCreate(user_uuid=user_uuid, thread_id="thread-1", team="research"))
    assert (await chats.get_chat_by_thread_id(user_uuid, "thread-1")).team == "research"
