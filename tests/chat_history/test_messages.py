"""Messages on the service, on both engines."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from pydantic import Field

from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    EntityLocator,
    Message,
    MessageCreate,
    MessagePublic,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageRepository,
    MessageRepositoryLike,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
    Reasoning,
    ToolCall,
    participant_id,
)
from threadkeep.persistence import (
    DREvent,
    DRMemoryNotFoundError,
    DRMemoryServiceClient,
    DRMemorySpace,
    DRMemoryUnavailableError,
)


@pytest.fixture
async def chat(store: Store, user_uuid: UUID) -> Chat:
    return await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="thread-1"))


class Wire:
    """Counts the requests of a client, and fails those that it is told to fail."""

    def __init__(self, client: DRMemoryServiceClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.lose: list[str] = []
        self._http = client._http
        self._send = client._http.send
        monkeypatch.setattr(client._http, "send", self.send)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """`lose` names methods whose next answer gets lost on its way back."""
        kind = "events" if "/events/" in request.url.path else "sessions"
        self.sent.append(f"{request.method} {kind}")
        response = await self._send(request, **options)
        if request.method in self.lose and kind == "events":
            self.lose.remove(request.method)
            raise httpx.ReadTimeout("lost", request=request)
        return response

    def events(self) -> list[str]:
        sent, self.sent = self.sent, []
        return [each.split()[0] for each in sent if each.endswith("events")]


@pytest.fixture
def wire(client: DRMemoryServiceClient, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(client, monkeypatch)


def by(chat: Chat, **fields: Any) -> MessageCreate:
    return MessageCreate(**{"chat_uuid": chat.chat_uuid, "role": "assistant", "content": "Hi", **fields})


async def test_a_message_is_stored_as_one_event(store: Store, chat: Chat, user_uuid: UUID) -> None:
    message = await store.messages.create_message(by(chat, role="user", agui_id="u1", content="Hello", run_id="r1"))
    response = await store.space.client.request("GET", f"{store.space.id}/sessions/{chat.id}/events/")
    (event,) = response.json()["items"]
    assert (event["eventType"], event["emitterType"], event["emitterId"]) == (
        "message",
        "user",
        participant_id(user_uuid),
    )
    body = event["body"]
    assert (body["content"], body["v"], body["role"], body["status"]) == ("Hello", 1, "user", "active")
    assert (body["message_uuid"], body["chat_uuid"]) == (str(message.message_uuid), str(chat.chat_uuid))
    assert (body["agui_id"], body["run_id"], body["tool_calls"], body["reasonings"]) == ("u1", "r1", [], [])
    assert isinstance(store.messages, MessageRepositoryLike)


async def test_an_empty_text_is_stored_as_a_placeholder_and_read_as_empty(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat, content=""))
    await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid, name="f"))
    response = await store.space.client.request("GET", f"{store.space.id}/sessions/{chat.id}/events/")
    (event,) = response.json()["items"]
    assert event["body"]["content"] == event["body"]["tool_calls"][0]["arguments"] == "\u200b"
    (raw,) = await Message.list(chat)
    assert (raw.content, raw.tool_calls[0].arguments, raw.tool_calls[0].content) == ("", "", "")


@pytest.mark.parametrize("text", ["a\0b", "\ud83d", "שלום 👨‍👩‍👧 é", " \n", "\u2028", '{"x":"\\u0000"}'])
async def test_odd_text_comes_back_as_it_went(store: Store, chat: Chat, text: str) -> None:
    message = await store.messages.create_message(by(chat, content=text))
    await store.messages.create_message_tool_call(
        MessageToolCallCreate(message_uuid=message.message_uuid, name=text, arguments=text, content=text)
    )
    (read,) = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    call = read.tool_calls[0]
    assert (read.content, call.name, call.arguments, call.content) == (text, text, text, text)


async def test_calls_and_reasonings_live_in_their_message(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat, agui_id="m1"))
    parent = {"message_uuid": message.message_uuid}
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(**parent, agui_id="c1", name="f"))
    step = await store.messages.create_message_reasoning(MessageReasoningCreate(**parent, agui_id="z1", content="h"))
    await store.messages.update_message_tool_call(
        call.uuid, MessageToolCallUpdate(content="4C", status="complete", in_progress=False)
    )
    await store.messages.update_message_reasoning(step.uuid, MessageReasoningUpdate(content="hm"))
    await store.messages.update_message(message.message_uuid, MessageUpdate(content="It is 4C", name=None))
    (read,) = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert read.content == "It is 4C"
    assert [(each.uuid, each.agui_id, each.content, each.status.value) for each in read.tool_calls] == [
        (call.uuid, "c1", "4C", "complete")
    ]
    assert [(each.uuid, each.agui_id, each.content) for each in read.reasonings] == [(step.uuid, "z1", "hm")]


async def test_everything_is_found_by_uuid_from_another_process(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat, agui_id="m1"))
    call = await store.messages.create_message_tool_call(
        MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1", name="f")
    )
    step = await store.messages.create_message_reasoning(MessageReasoningCreate(message_uuid=message.message_uuid))
    other = store.elsewhere().messages
    assert (await other.get_message(message.message_uuid)).content == "Hi"
    renamed = await store.elsewhere().messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(name="g"))
    titled = await store.elsewhere().messages.update_message_reasoning(step.uuid, MessageReasoningUpdate(name="n"))
    assert (renamed.name, titled.name) == ("g", "n")
    updated = await store.elsewhere().messages.update_message(message.message_uuid, MessageUpdate(step="s"))
    assert (updated.step, updated.tool_calls[0].name, updated.reasonings[0].name) == ("s", "g", "n")
    assert (await other.get_message_by_agui_id(chat.chat_uuid, "m1")).message_uuid == message.message_uuid
    assert (await other.get_tool_call_by_agui_id(message.message_uuid, "c1")).name == "g"


async def test_what_is_unknown_is_none_and_has_no_children(store: Store, chat: Chat) -> None:
    nowhere = uuid4()
    assert await store.messages.get_message(nowhere) is None
    assert await store.messages.update_message(nowhere, MessageUpdate(content="x")) is None
    assert await store.messages.update_message_tool_call(nowhere, MessageToolCallUpdate(content="x")) is None
    assert await store.messages.update_message_reasoning(nowhere, MessageReasoningUpdate(content="x")) is None
    assert await store.messages.get_message_by_agui_id(chat.chat_uuid, "m9") is None
    assert await store.messages.get_message_by_agui_id(nowhere, "m9") is None
    assert await store.messages.get_tool_call_by_agui_id(nowhere, "c9") is None
    assert await store.messages.get_chat_messages(nowhere) == []
    for create in (
        store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=nowhere)),
        store.messages.create_message_tool_call(MessageToolCallCreate()),
        store.messages.create_message_reasoning(MessageReasoningCreate(message_uuid=nowhere)),
        store.messages.create_message(MessageCreate(content="x")),
    ):
        with pytest.raises(ValueError):
            await create
    with pytest.raises(DRMemoryNotFoundError):
        await store.messages.create_message(MessageCreate(chat_uuid=nowhere, content="x"))


async def test_a_write_is_one_request_however_long_the_chat(store: Store, chat: Chat, wire: Wire) -> None:
    for number in range(3):
        await store.messages.create_message(by(chat, content=str(number)))
    message = await store.messages.create_message(by(chat))
    wire.events()
    call = await store.messages.create_message_tool_call(MessageToolCallCreate(message_uuid=message.message_uuid))
    await store.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r"))
    await store.messages.update_message(message.message_uuid, MessageUpdate(content="x"))
    await store.messages.create_message(by(chat))
    assert wire.events() == ["PATCH", "PATCH", "PATCH", "POST"]


async def test_what_is_done_in_a_transaction_goes_out_once_at_its_end(store: Store, chat: Chat, wire: Wire) -> None:
    async with store.messages.transaction():
        message = await store.messages.create_message(by(chat, content="He"))
        call = await store.messages.create_message_tool_call(
            MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1")
        )
        await store.messages.create_message_reasoning(MessageReasoningCreate(message_uuid=message.message_uuid))
        await store.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r"))
        updated = await store.messages.update_message(message.message_uuid, MessageUpdate(content="Hello"))
        assert updated.content == "Hello"
        assert wire.events() == []
    assert wire.events() == ["POST"]
    (read,) = await store.messages.get_chat_messages(chat.chat_uuid)
    assert (read.content, read.tool_calls[0].content, len(read.reasonings)) == ("Hello", "r", 1)


async def test_several_messages_of_a_transaction_go_out_together_and_in_order(
    store: Store, chat: Chat, wire: Wire
) -> None:
    async with store.messages.transaction():
        messages = [await store.messages.create_message(by(chat, content=str(number))) for number in range(5)]
    async with store.messages.transaction(), store.messages.transaction():
        for message in messages:
            await store.messages.update_message(message.message_uuid, MessageUpdate(step="s"))
    assert wire.events() == ["POST", "PATCH"]
    read = await store.messages.get_chat_messages(chat.chat_uuid)
    assert [(each.content, each.step) for each in read] == [(str(number), "s") for number in range(5)]


async def test_what_a_failed_transaction_did_is_gone(store: Store, chat: Chat, wire: Wire) -> None:
    async def fail() -> None:
        async with store.messages.transaction():
            await store.messages.create_message(by(chat))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert wire.events() == []
    assert await store.messages.get_chat_messages(chat.chat_uuid) == []


async def test_transactions_of_two_tasks_do_not_mix(store: Store, chat: Chat) -> None:
    async def write(text: str) -> None:
        async with store.messages.transaction():
            message = await store.messages.create_message(by(chat, content=text))
            await asyncio.sleep(0)
            await store.messages.create_message_tool_call(
                MessageToolCallCreate(message_uuid=message.message_uuid, name=text)
            )

    await asyncio.gather(*(write(str(number)) for number in range(10)))
    read = await store.messages.get_chat_messages(chat.chat_uuid)
    assert sorted(each.content for each in read) == [str(number) for number in range(10)]
    assert all(each.tool_calls[0].name == each.content for each in read)


async def test_no_update_is_lost_between_processes(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat))
    stores = [store, *(store.elsewhere() for _ in range(3))]
    for each in stores:
        await each.messages.get_chat_messages(chat.chat_uuid)
    await asyncio.gather(
        *(
            each.messages.create_message_tool_call(
                MessageToolCallCreate(message_uuid=message.message_uuid, agui_id=f"c{number}")
            )
            for number, each in enumerate(stores)
        )
    )
    (read,) = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert sorted(call.agui_id for call in read.tool_calls) == ["c0", "c1", "c2", "c3"]


async def test_a_batch_with_a_stale_message_changes_all_the_same(store: Store, chat: Chat) -> None:
    messages = [await store.messages.create_message(by(chat, content=str(number))) for number in range(3)]
    await store.elsewhere().messages.update_message(messages[1].message_uuid, MessageUpdate(name="theirs"))
    async with store.messages.transaction():
        for message in messages:
            await store.messages.update_message(message.message_uuid, MessageUpdate(step="ours"))
    read = await store.messages.get_chat_messages(chat.chat_uuid)
    assert [(each.name, each.step) for each in read] == [("", "ours"), ("theirs", "ours"), ("", "ours")]


async def test_a_message_whose_answer_was_lost_is_not_stored_twice(store: Store, chat: Chat, wire: Wire) -> None:
    create = by(chat, content="once")
    wire.lose = ["POST"]
    with pytest.raises(DRMemoryUnavailableError):
        await store.messages.create_message(create)
    again = await store.messages.create_message(create.model_copy(update={"content": "once, and for all"}))
    assert again.content == "once, and for all"
    read = await store.messages.get_chat_messages(chat.chat_uuid)
    assert [each.content for each in read] == ["once, and for all"]


async def test_a_change_whose_answer_was_lost_is_not_made_twice(store: Store, chat: Chat, wire: Wire) -> None:
    message = await store.messages.create_message(by(chat))
    call = MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1")
    wire.lose = ["PATCH"]
    with pytest.raises(DRMemoryUnavailableError):
        await store.messages.create_message_tool_call(call)
    await store.messages.create_message_tool_call(call)
    (read,) = await store.messages.get_chat_messages(chat.chat_uuid)
    assert [each.agui_id for each in read.tool_calls] == ["c1"]


async def test_a_long_chat_is_read_whole_and_in_order(store: Store, chat: Chat) -> None:
    async with store.messages.transaction():
        for number in range(730):
            await store.messages.create_message(by(chat, content=str(number)))
    read = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert [each.content for each in read] == [str(number) for number in range(730)]
    await store.registry.locators.settle()
    old = await store.elsewhere().messages.update_message(read[3].message_uuid, MessageUpdate(step="s"))
    assert (old.content, old.step) == ("3", "s")


async def test_of_messages_with_one_ag_ui_id_the_newest_is_found(store: Store, chat: Chat) -> None:
    for text in ("First", "Second"):
        await store.messages.create_message(by(chat, agui_id="same", content=text))
    assert (await store.messages.get_message_by_agui_id(chat.chat_uuid, "same")).content == "Second"


async def test_the_last_messages_of_many_chats_come_at_once(store: Store, user_uuid: UUID) -> None:
    chats = [
        await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id=f"t{number}")) for number in range(4)
    ]
    for number, chat in enumerate(chats[:3]):
        await store.messages.create_message(by(chat, content="earlier"))
        await store.messages.create_message(by(chat, content=str(number)))
    wanted = [chat.chat_uuid for chat in chats] + [uuid4()]
    last = await store.elsewhere().messages.get_last_messages(wanted)
    assert {uuid: message.content for uuid, message in last.items()} == {
        chat.chat_uuid: str(number) for number, chat in enumerate(chats[:3])
    }


async def test_a_message_of_a_newer_version_is_not_read(store: Store, chat: Chat) -> None:
    class Plain(DREvent, session=Chat):
        v: int = 1

    await Plain.post(chat, content="from the future", v=2)
    await store.messages.create_message(by(chat))
    assert [each.content for each in await store.messages.get_chat_messages(chat.chat_uuid)] == ["Hi"]


async def test_a_message_that_is_too_long_is_cut_and_says_so(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat, content="x" * 1_048_576))
    await store.messages.create_message_tool_call(
        MessageToolCallCreate(message_uuid=message.message_uuid, name="read", content="é" * 1_048_576)
    )
    await store.messages.create_message_tool_call(
        MessageToolCallCreate(message_uuid=message.message_uuid, name="more", content="\0" * 400_000)
    )
    (read,) = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert (len(read.content), read.status.value) == (1_000_000, "active")
    assert read.error == "content cut: the first 1,000,000 of 1,048,576 characters are stored"
    assert [call.name for call in read.tool_calls] == ["read", "more"]
    assert "content cut" in (read.tool_calls[0].error or "")


class Note(ToolCall):
    cost: float = 0.0


class Thought(Reasoning):
    mood: str = ""


class TeamMessage(Message):
    team: str = ""
    tool_calls: list[Note] = Field(default_factory=list)
    reasonings: list[Thought] = Field(default_factory=list)


class TeamCreate(MessageCreate):
    team: str = ""


class NoteCreate(MessageToolCallCreate):
    cost: float = 0.0


class ThoughtCreate(MessageReasoningCreate):
    mood: str = ""


async def test_subclasses_with_further_fields_are_stored_without_further_wiring(store: Store, chat: Chat) -> None:
    def repository() -> MessageRepository:
        return MessageRepository(store.space, message_cls=TeamMessage)

    messages = repository()
    message = await messages.create_message(TeamCreate(chat_uuid=chat.chat_uuid, content="Hi", team="research"))
    call = await messages.create_message_tool_call(NoteCreate(message_uuid=message.message_uuid, cost=1.5))
    step = await messages.create_message_reasoning(ThoughtCreate(message_uuid=message.message_uuid, mood="calm"))
    await messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content="r"))
    await messages.update_message(message.message_uuid, MessageUpdate(team="ops", unknown=1))
    (read,) = await repository().get_chat_messages(chat.chat_uuid)
    assert (read.team, read.tool_calls[0].cost, read.tool_calls[0].content) == ("ops", 1.5, "r")
    assert (read.reasonings[0].mood, step.mood) == ("calm", "calm")

    # A process that knows nothing of these fields leaves them alone.
    await store.messages.update_message(message.message_uuid, MessageUpdate(content="Hello"))
    await store.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(name="f"))
    (read,) = await repository().get_chat_messages(chat.chat_uuid)
    assert (read.content, read.team, read.tool_calls[0].cost, read.tool_calls[0].name) == ("Hello", "ops", 1.5, "f")


async def test_a_message_is_shown_without_what_belongs_to_the_store(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(by(chat, content="", agui_id="m1"))
    shown = MessagePublic.from_message(message).model_dump(mode="json")
    assert (shown["content"], shown["agui_id"], shown["status"]) == ("", "m1", "active")
    assert not {"v", "emitter_type", "emitter_id"} & set(shown)


async def test_a_store_that_does_not_answer_is_not_an_empty_history(store: Store, chat: Chat, wire: Wire) -> None:
    await store.messages.create_message(by(chat))
    wire.lose = ["GET"]
    with pytest.raises(DRMemoryUnavailableError):
        await store.messages.get_chat_messages(chat.chat_uuid)


async def test_the_repositories_need_no_registry_of_ones_own(store: Store, user_uuid: UUID) -> None:
    space: DRMemorySpace = store.space
    chat = await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t"))
    await MessageRepository(space).create_message(by(chat))
    assert len(await MessageRepository(space).get_chat_messages(chat.chat_uuid)) == 1


async def test_a_task_that_outlives_the_transaction_it_began_in_writes_for_itself(store: Store, chat: Chat) -> None:
    ended = asyncio.Event()

    async def write_later() -> None:
        await ended.wait()
        await store.messages.create_message(by(chat, content="later"))

    async with store.messages.transaction():
        task = asyncio.create_task(write_later())
        await asyncio.sleep(0)
        await store.messages.create_message(by(chat, content="first"))
    ended.set()
    await task
    read = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert [each.content for each in read] == ["first", "later"]


async def test_a_message_that_is_no_longer_remembered_is_still_written(
    store: Store, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.chat_history.known_messages._CACHED_MESSAGES", 2)
    messages = MessageRepository(store.space, store.registry)
    made = [await messages.create_message(by(chat, content=str(number))) for number in range(5)]
    for locator in await EntityLocator.list(store.space):
        await locator.delete()
    assert (await messages.update_message(made[0].message_uuid, MessageUpdate(step="s"))).content == "0"
