"""Look-ups by uuid on a service with lookup keys: nothing that is stored is ever lost; on both engines."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.chat_history.counting import Counted
from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    ChatRepository,
    ChatSessionRegistry,
    EntityLocator,
    Message,
    MessageCreate,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageRepository,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
    ToolCall,
)
from threadkeep.chat_history import lookups as module
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace, DRMemoryUnavailableError


@pytest.fixture
async def store(client: DRMemoryServiceClient) -> Store:
    return Store(await DRMemorySpace.post(client, deduplication_key="chats"))


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """While this holds, no locator is written."""

    async def fail(*args: Any, **fields: Any) -> None:
        raise ConnectionError("lost")

    monkeypatch.setattr(EntityLocator, "post", fail)
    return monkeypatch


@pytest.fixture
async def chat(store: Store, user_uuid: UUID) -> Chat:
    return await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))


def by(chat: Chat, **fields: Any) -> MessageCreate:
    return MessageCreate(
        **{"chat_uuid": chat.chat_uuid, "role": "assistant", "content": "Hi", "in_progress": False, **fields}
    )


async def keys_in(chat: Chat) -> list[tuple[str, ...]]:
    return [message.event_lookup_keys for message in await Message.list(chat)]


async def test_a_message_is_stored_with_the_keys_of_itself_and_of_what_is_in_it(store: Store, chat: Chat) -> None:
    first = await store.messages.create_message(by(chat))
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=first.message_uuid))
    async with store.messages.transaction():
        second = await store.messages.create_message(by(chat))
        step = await store.messages.create_message_reasoning(MessageReasoningCreate(message_uuid=second.message_uuid))

    assert await keys_in(chat) == [
        (f"message:{first.message_uuid}", f"chat:{chat.chat_uuid}", f"tool_call:{call.uuid}"),
        (f"message:{second.message_uuid}", f"reasoning:{step.uuid}"),
    ]
    assert [each.locator_key for each in await EntityLocator.list(store.space)] == [f"chat:{chat.chat_uuid}"]


async def test_what_is_stored_is_found_though_no_locator_ever_was(
    store: Store, user_uuid: UUID, lost: pytest.MonkeyPatch
) -> None:
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    message = await store.messages.create_message(by(chat))
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid))
    step = await store.messages.create_message_reasoning(MessageReasoningCreate(message_uuid=message.message_uuid))

    assert (await store.elsewhere().messages.get_message(message.message_uuid)).content == "Hi"
    assert (await store.elsewhere().messages.update_message(message.message_uuid, MessageUpdate(step="s"))).step == "s"
    changed = await store.elsewhere().messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r"))
    assert changed.content == "r"
    thought = await store.elsewhere().messages.update_message_reasoning(step.uuid, MessageReasoningUpdate(content="h"))
    assert thought.content == "h"
    assert len(await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)) == 1
    assert (await store.elsewhere().chats.update_chat_name(chat.chat_uuid, "Found")).name == "Found"
    assert await EntityLocator.list(store.space) == []


async def test_a_chat_without_messages_is_found_by_its_locator(store: Store, chat: Chat) -> None:
    elsewhere = store.elsewhere()
    assert (await elsewhere.messages.create_message(by(chat))).content == "Hi"
    assert await store.elsewhere().registry.resolve(chat.chat_uuid) == chat.id
    assert await store.elsewhere().registry.resolve(uuid4()) is None


async def test_what_was_written_without_keys_is_found_by_locators_and_gets_keys_when_it_is_read(
    store: Store, user_uuid: UUID
) -> None:
    client = store.space.client
    client._features = frozenset()
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    old = await store.messages.create_message(by(chat, content="old"))
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=old.message_uuid))
    growing = await store.messages.create_message(by(chat, content="growing", in_progress=True))
    assert await keys_in(chat) == [(), ()]
    client._features = None

    elsewhere = store.elsewhere()
    assert (await elsewhere.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(name="f"))).name == "f"
    assert (await elsewhere.messages.get_message(growing.message_uuid)).content == "growing"
    read = await elsewhere.messages.get_chat_messages(chat.chat_uuid)

    wanted = {f"message:{old.message_uuid}", f"tool_call:{call.uuid}", f"chat:{chat.chat_uuid}"}
    assert [set(keys) for keys in await keys_in(chat)] == [wanted, set()]
    assert [set(message.event_lookup_keys) for message in read] == [wanted, set()]
    # Whoever writes the other message finds it as it was.
    await store.messages.update_message(growing.message_uuid, MessageUpdate(in_progress=False))
    counted = Counted(client)
    await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert "PATCH events" not in counted.taken()


async def test_a_long_chat_gets_its_keys_behind_the_read(store: Store, user_uuid: UUID) -> None:
    client = store.space.client
    client._features = frozenset()
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    async with store.messages.transaction():
        for number in range(201):
            await store.messages.create_message(by(chat, content=str(number)))
    client._features = None

    elsewhere = store.elsewhere()
    read = await elsewhere.messages.get_chat_messages(chat.chat_uuid)
    await elsewhere.registry.lookups.settle()

    assert len(read) == 201
    found = await Message.find(store.space, f"message:{read[0].message_uuid}", f"message:{read[200].message_uuid}")
    assert [message.content for message in found] == ["0", "200"]
    # Its copies in the cache are older now, and no write is lost for that.
    await elsewhere.messages.update_message(read[200].message_uuid, MessageUpdate(step="s"))


async def test_a_read_does_not_fail_with_the_healing(
    store: Store, chat: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await Message.post(chat, content="theirs", chat_uuid=chat.chat_uuid, in_progress=False)

    async def fail(*args: Any, **fields: Any) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(Message, "patch_batch", fail)
    assert [each.content for each in await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)] == ["theirs"]
    assert "lookup keys" in caplog.text


async def test_what_cannot_have_its_key_gets_a_locator(store: Store, chat: Chat) -> None:
    twice = ToolCall(name="f")
    one = await store.messages.create_message(by(chat, content="one"))
    two = await store.messages.create_message(by(chat, content="two"))
    call = MessageToolCallCreate(uuid=twice.uuid, name="f")
    for message in (one, two):
        await store.messages.create_message_tool_call(call.model_copy(update={"message_uuid": message.message_uuid}))
    async with store.messages.transaction():
        three = await store.messages.create_message(by(chat, content="three"))
        await store.messages.create_message_tool_call(call.model_copy(update={"message_uuid": three.message_uuid}))

    read = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert [[each.uuid for each in message.tool_calls] for message in read] == [[twice.uuid]] * 3
    assert (
        await EntityLocator.get(store.space, locator_key=f"tool_call:{twice.uuid}")
    ).message_uuid == two.message_uuid
    for message in (two, three):
        assert (await store.elsewhere().messages.get_message(message.message_uuid)).content == message.content


async def test_a_create_that_is_repeated_by_another_process_changes_what_the_first_one_stored(
    store: Store, chat: Chat
) -> None:
    create = by(chat, content="once")
    await store.messages.create_message(create)
    elsewhere = store.elsewhere()

    again = await elsewhere.messages.create_message(create.model_copy(update={"content": "once, and for all"}))
    third = store.elsewhere()
    async with third.messages.transaction():
        await third.messages.create_message(create.model_copy(update={"content": "changed"}))
        await third.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=create.message_uuid, name="f"))
        await third.messages.create_message(by(chat, content="new"))

    assert again.content == "once, and for all"
    read = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert [(each.content, [call.name for call in each.tool_calls]) for each in read] == [
        ("changed", ["f"]),
        ("new", []),
    ]


async def test_an_event_takes_so_many_keys_and_the_rest_gets_locators(
    store: Store, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEYS_OF_AN_EVENT", 4)
    async with store.messages.transaction():
        message = await store.messages.create_message(by(chat))
        made = [
            await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid))
            for _ in range(5)
        ]

    assert [len(keys) for keys in await keys_in(chat)] == [4]
    for call in made:
        found = await store.elsewhere().messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(name="f"))
        assert found.name == "f"
    located = {each.locator_key for each in await EntityLocator.list(store.space)}
    assert located == {f"chat:{chat.chat_uuid}", *(f"tool_call:{call.uuid}" for call in made[2:])}


def _by_argument(space: DRMemorySpace, monkeypatch: pytest.MonkeyPatch) -> ChatSessionRegistry:
    return ChatSessionRegistry(space, always_locators=True)


def _by_variable(space: DRMemorySpace, monkeypatch: pytest.MonkeyPatch) -> ChatSessionRegistry:
    monkeypatch.setenv("THREADKEEP_LOCATORS", "always")
    return ChatSessionRegistry(space)


@pytest.mark.parametrize("shared", [_by_argument, _by_variable])
async def test_a_space_that_is_shared_has_locators_beside_the_keys(
    store: Store,
    user_uuid: UUID,
    monkeypatch: pytest.MonkeyPatch,
    shared: Callable[[DRMemorySpace, pytest.MonkeyPatch], ChatSessionRegistry],
) -> None:
    registry = shared(store.space, monkeypatch)
    messages = MessageRepository(store.space, registry)
    chat = await ChatRepository(store.space, registry).create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    message = await messages.create_message(by(chat))
    call = await messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid))

    keys = {f"chat:{chat.chat_uuid}", f"message:{message.message_uuid}", f"tool_call:{call.uuid}"}
    assert {each.locator_key for each in await EntityLocator.list(store.space)} == keys
    assert [set(each) for each in await keys_in(chat)] == [keys]


async def test_a_deleted_chat_leads_nowhere(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat))
    elsewhere = store.elsewhere()
    await elsewhere.messages.get_message(message.message_uuid)
    await store.chats.delete_chat(chat.chat_uuid)

    assert await store.messages.update_message(message.message_uuid, MessageUpdate(step="s")) is None
    assert await store.elsewhere().messages.get_message(message.message_uuid) is None
    assert await store.elsewhere().messages.get_chat_messages(chat.chat_uuid) == []
    assert await store.elsewhere().messages.get_last_messages([chat.chat_uuid]) == {}


async def test_a_message_of_a_version_that_is_not_known_is_not_found(store: Store, chat: Chat) -> None:
    uuid = uuid4()
    await Message.post(chat, content="later", v=99, message_uuid=uuid, lookup_keys=[f"message:{uuid}"])
    assert await store.messages.get_message(uuid) is None


async def test_without_an_answer_about_features_nothing_is_written_in_either_way(
    store: Store, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> frozenset[str]:
        raise DRMemoryUnavailableError("no answer")

    monkeypatch.setattr(store.space.client, "features", fail)
    with pytest.raises(DRMemoryUnavailableError):
        await store.messages.create_message(by(chat))
    assert await Message.list(chat) == []
