"""Look-ups by uuid where a locator was lost or is stale, on both engines."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    ChatRepository,
    ChatSessionRegistry,
    EntityLocator,
    LocatorIndex,
    MessageCreate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
)
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace


@pytest.fixture
async def store(client: DRMemoryServiceClient) -> Store:
    """A store on a service that says nothing of lookup keys."""
    client._features = frozenset()
    return Store(await DRMemorySpace.post(client, deduplication_key="chats"))


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """While this holds, no locator is written."""

    async def fail(*args: Any, **fields: Any) -> None:
        raise ConnectionError("lost")

    monkeypatch.setattr(EntityLocator, "post", fail)
    return monkeypatch


async def test_a_locator_is_a_session_beside_the_chats(store: Store, user_uuid: UUID) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    message = await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, content="Hi"))
    locators = await EntityLocator.list(store.space)
    assert [(each.kind, each.locator_key) for each in locators] == [
        ("chat", f"chat:{chat.chat_uuid}"),
        ("message", f"message:{message.message_uuid}"),
    ]
    assert all(each.session_id == chat.id and each.chat_uuid == chat.chat_uuid for each in locators)
    assert len(await Chat.list(store.space)) == 1


async def test_a_locator_is_put_and_got_by_kind_and_uuid(store: Store) -> None:
    index, entity, chat_uuid = LocatorIndex(store.space), uuid4(), uuid4()
    assert await index.get("tool_call", entity) is None
    await index.put("tool_call", entity, session_id="s-1", chat_uuid=chat_uuid, message_uuid=entity)
    locator = await index.get("tool_call", entity)
    assert locator is not None
    assert (locator.kind, locator.session_id, locator.chat_uuid, locator.message_uuid) == (
        "tool_call",
        "s-1",
        chat_uuid,
        entity,
    )
    assert await index.get("message", entity) is None


async def test_a_registry_reads_chats_and_locators_of_its_own_classes(store: Store, user_uuid: UUID) -> None:
    class NotedLocator(EntityLocator):
        note: str = "by us"

    class TeamChat(Chat):
        team: str = "blue"

    registry = ChatSessionRegistry(store.space, TeamChat, NotedLocator)
    chat = await ChatRepository(store.space, registry, TeamChat).create_chat(
        ChatCreate(user_uuid=user_uuid, thread_id="t")
    )
    elsewhere = ChatSessionRegistry(store.space, TeamChat, NotedLocator)
    assert isinstance(await elsewhere.chat(chat.chat_uuid), TeamChat)
    assert isinstance(await elsewhere.locators.get("chat", chat.chat_uuid), NotedLocator)


async def test_a_write_does_not_fail_with_its_locator(
    store: Store, user_uuid: UUID, lost: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    message = await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, content="Hi"))
    assert "was not written" in caplog.text
    assert (await store.messages.get_message(message.message_uuid)).content == "Hi"
    assert await store.elsewhere().messages.get_message(message.message_uuid) is None
    assert await store.elsewhere().messages.get_chat_messages(chat.chat_uuid) == []


async def test_a_lost_locator_is_healed_when_the_chat_is_read(
    store: Store, user_uuid: UUID, lost: pytest.MonkeyPatch
) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    message = await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, content="Hi"))
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid))
    lost.undo()
    other = store.elsewhere()
    assert await other.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r")) is None

    found = await other.chats.get_chat_by_thread_id(user_uuid, "t")
    assert [each.content for each in await other.messages.get_chat_messages(found.chat_uuid)] == ["Hi"]
    third = store.elsewhere().messages
    assert (await third.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r"))).content == "r"
    assert [each.content for each in await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)] == ["Hi"]


async def test_only_what_is_missing_is_written_and_only_once(
    store: Store, user_uuid: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, content="Hi"))
    written: list[str] = []
    post = EntityLocator.post

    async def count(space: Any, **fields: Any) -> Any:
        written.append(fields["locator_key"])
        return await post(space, **fields)

    monkeypatch.setattr(EntityLocator, "post", count)
    other = store.elsewhere()
    await other.messages.get_chat_messages(chat.chat_uuid)
    await other.messages.get_chat_messages(chat.chat_uuid)
    assert written == []


async def test_a_read_does_not_fail_with_the_healing(
    store: Store, user_uuid: UUID, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, content="Hi"))

    async def fail(*args: Any, **filters: Any) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(EntityLocator, "list", fail)
    assert len(await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)) == 1
    assert "could not be read" in caplog.text


async def test_a_locator_that_points_at_a_deleted_chat_leads_nowhere(store: Store, user_uuid: UUID) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    message = await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, content="Hi"))
    await store.chats.delete_chat(chat.chat_uuid)
    other = store.elsewhere()
    assert await other.registry.resolve(chat.chat_uuid) == chat.id
    assert await other.registry.chat(chat.chat_uuid) is None
    assert await other.messages.get_message(message.message_uuid) is None


async def test_a_registry_remembers_and_forgets(store: Store) -> None:
    chat_uuid = uuid4()
    assert store.registry.get_session_id(chat_uuid) is None
    assert await store.registry.resolve(chat_uuid) is None
    store.registry.register(chat_uuid, "s1")
    assert store.registry.get_session_id(chat_uuid) == await store.registry.resolve(chat_uuid) == "s1"
    store.registry.unregister(chat_uuid)
    assert store.registry.get_session_id(chat_uuid) is None
