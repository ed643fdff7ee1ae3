"""States and kept events of a chat, on both engines."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.chat_history.stores import Store
from threadkeep.chat_history import Chat, ChatCreate, ChatEventCreate, EventRepositoryLike, StateRepositoryLike
from threadkeep.persistence import DRMemoryNotFoundError


@pytest.fixture
async def chat(store: Store, user_uuid: UUID) -> Chat:
    return await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t1"))


async def test_our_repository_is_one_for_states_and_for_events(store: Store) -> None:
    assert isinstance(store.messages, StateRepositoryLike)
    assert isinstance(store.messages, EventRepositoryLike)


@pytest.mark.parametrize(
    "state",
    [{"n": 1, "deep": [{"a": None}]}, [], 0, "a\x00\ud83d", {"big": 12345678901234567890123}, {"": {"/": "~"}}],
    ids=str,
)
async def test_a_state_comes_back_as_it_was(store: Store, chat: Chat, state: Any) -> None:
    await store.messages.save_state(chat.chat_uuid, state, "r1")
    assert await store.elsewhere().messages.get_state(chat.chat_uuid) == state


async def test_the_last_state_takes_the_place_of_the_one_before_from_any_process(store: Store, chat: Chat) -> None:
    await store.messages.save_state(chat.chat_uuid, {"n": 1}, "r1")
    await store.elsewhere().messages.save_state(chat.chat_uuid, {"n": 2}, "r2")
    await store.messages.save_state(chat.chat_uuid, {"n": 3}, "r3")
    assert await store.elsewhere().messages.get_state(chat.chat_uuid) == {"n": 3}
    assert await store.messages.get_chat_messages(chat.chat_uuid) == []


async def test_a_state_may_become_null(store: Store, chat: Chat) -> None:
    await store.messages.save_state(chat.chat_uuid, {"n": 1})
    await store.messages.save_state(chat.chat_uuid, None)
    assert await store.elsewhere().messages.get_state(chat.chat_uuid) is None


async def test_a_state_that_is_too_large_does_not_leave_an_old_one_in_its_place(store: Store, chat: Chat) -> None:
    await store.messages.save_state(chat.chat_uuid, {"n": 1})
    await store.messages.save_state(chat.chat_uuid, "x" * 5_000_000)
    assert await store.elsewhere().messages.get_state(chat.chat_uuid) is None


async def test_a_chat_that_is_not_there_has_no_state_and_takes_none(store: Store) -> None:
    assert await store.messages.get_state(uuid4()) is None
    assert await store.messages.get_events(uuid4()) == []
    with pytest.raises(DRMemoryNotFoundError):
        await store.messages.save_state(uuid4(), {})
    with pytest.raises(DRMemoryNotFoundError):
        await store.messages.add_events(uuid4(), [ChatEventCreate(kind="CUSTOM", fields={})])


async def test_kept_events_come_back_in_order_and_once(store: Store, chat: Chat) -> None:
    events = [ChatEventCreate(kind="CUSTOM", fields={"name": "n", "value": n}, run_id="r1") for n in range(250)]
    await store.messages.add_events(chat.chat_uuid, events)
    await store.messages.add_events(chat.chat_uuid, events[-1:])
    found = await store.elsewhere().messages.get_events(chat.chat_uuid)
    assert [(each.uuid, each.kind, each.fields, each.run_id) for each in found] == [
        (each.uuid, "CUSTOM", each.fields, "r1") for each in events
    ]
    assert await store.messages.get_chat_messages(chat.chat_uuid) == []


async def test_an_event_that_is_too_large_is_kept_without_its_fields_and_says_so(store: Store, chat: Chat) -> None:
    large = ChatEventCreate(kind="RAW", fields={"event": "x" * 5_000_000})
    small = ChatEventCreate(kind="RAW", fields={"event": 1})
    await store.messages.add_events(chat.chat_uuid, [large, small])
    found = await store.messages.get_events(chat.chat_uuid)
    assert [(each.fields, each.error) for each in found] == [
        (None, "An event of 5,000,013 bytes is too large to be stored"),
        ({"event": 1}, None),
    ]
