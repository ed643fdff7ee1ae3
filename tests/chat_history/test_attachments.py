"""Long values of messages, taken out and put back."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.chat_history.counting import Counted
from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    Message,
    MessageCreate,
    MessageReasoningCreate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
    Reasoning,
    ToolCall,
)
from threadkeep.chat_history.attachment_events import ATTACHMENT_EVENT_TYPE, Attachment
from threadkeep.chat_history.attachments import attached, put_back, put_back_in, references_of, take_out
from threadkeep.chat_history.sizes import MAX_BODY_BYTES, fit, json_bytes
from threadkeep.persistence import DRMemoryServiceClient

CHAT = UUID(int=1)
DONE: dict[str, Any] = {"status": "complete", "in_progress": False}


def image(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "data", "value": data, "mimeType": "image/png"}}


def stored_and_found(message: Message) -> tuple[Message, dict[UUID, str]]:
    """A message as it is stored, and the attachments."""
    light = take_out(message, CHAT)
    assert light is not None
    return message.model_copy(update=light.fields), {each.uuid: "".join(each.pieces()) for each in light.values}


@pytest.mark.parametrize(
    "message",
    [
        Message(content="x" * 1_000_000, **DONE),
        Message(content="see", parts=[{"type": "text", "text": "x" * 60_000}, image("A" * 60_000)], **DONE),
        Message(content="", tool_calls=[ToolCall(content="é" * 600_000, **DONE)], **DONE),
    ],
)
def test_what_is_not_too_large_stays_as_it_is(message: Message) -> None:
    assert take_out(message, CHAT) is None


def test_long_data_in_parts_is_taken_out_and_put_back() -> None:
    parts = [{"type": "text", "text": "see"}, image("A" * 5_000_000), image("small")]
    call = ToolCall(parts=[image("B" * 100_000)], **DONE)
    message = Message(content="see", parts=parts, tool_calls=[call], **DONE)
    stored, found = stored_and_found(message)
    assert stored.parts[1]["source"] == {
        "type": "data",
        "value": {"$attachment": str(attached(CHAT, "A" * 5_000_000).uuid)},
        "mimeType": "image/png",
    }
    assert (stored.parts[0], stored.parts[2]) == (parts[0], parts[2])
    assert json_bytes(stored.model_dump(mode="json")) < 2_000
    assert set(references_of(stored)) == set(found)
    assert put_back(stored, found.get) == message
    body = json.loads(json.dumps(stored.model_dump(mode="json")))
    whole = put_back_in(body, found.get)
    assert (whole["parts"], whole["tool_calls"][0]["parts"]) == (parts, call.parts)


def test_the_end_of_a_text_is_taken_out_when_the_text_has_ended() -> None:
    text = "x" * 1_000_000 + "end"
    growing = Message(content=text, status="active")
    assert take_out(growing, CHAT) is None
    cut = growing.model_copy(update=fit(growing))
    assert cut.error == "content cut: the first 1,000,000 of 1,000,003 characters are stored"

    stored, found = stored_and_found(Message(content=text, error=cut.error, **DONE))
    assert (stored.content, stored.error, [*found.values()]) == ("x" * 1_000_000, None, ["end"])
    assert put_back(stored, found.get).content == text
    assert stored_and_found(Message(content=text, error="boom", **DONE))[0].error == "boom"


def test_long_texts_of_calls_and_reasonings_go_out_of_a_message_that_is_too_large() -> None:
    call = ToolCall(arguments="é" * 200_000, content="\ud83d" * 900_000, **DONE)
    small, open_one = ToolCall(content="r", **DONE), ToolCall(arguments="x" * 200_000)
    thought = Reasoning(content="h" * 300_000, **DONE)
    message = Message(content="text", tool_calls=[call, small, open_one], reasonings=[thought], **DONE)
    stored, found = stored_and_found(message)
    assert json_bytes(stored.model_dump(mode="json")) < MAX_BODY_BYTES // 2
    assert stored.tool_calls[1:] == [small, open_one]
    assert put_back(stored, found.get) == message


def test_a_text_whose_characters_are_long_in_json_leaves_room_for_the_rest() -> None:
    stored, found = stored_and_found(Message(content="\x00" * 1_000_000, **DONE))
    assert json_bytes(stored.model_dump(mode="json")) < MAX_BODY_BYTES
    assert put_back(stored, found.get).content == "\x00" * 1_000_000


def test_what_is_missing_is_said() -> None:
    stored, _ = stored_and_found(Message(content="x" * 1_000_003, parts=[image("A" * 100_000)], **DONE))
    read = put_back(stored, {}.get)
    assert (len(read.content), read.error) == (1_000_000, "content cut: the first 1,000,000 characters are stored")
    assert read.parts == [image("")]


@pytest.mark.parametrize(
    "body",
    [
        {"rests": {"content": {"$attachment": "no uuid"}}, "content": "x"},
        {"rests": {"content": 7}, "tool_calls": [3, {"rests": "x"}]},
        {"parts": {"$attachment": 7}, "reasonings": "x"},
        {},
    ],
    ids=str,
)
def test_a_body_of_any_shape_is_read(body: dict[str, Any]) -> None:
    assert put_back_in(body, {}.get).keys() >= body.keys()


@pytest.fixture
async def chat(store: Store, user_uuid: UUID) -> Chat:
    return await store.chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="t1"))


async def attachments(store: Store, chat: Chat) -> list[Attachment]:
    return await Attachment.list(chat, type=ATTACHMENT_EVENT_TYPE)


async def test_a_large_image_is_stored_once_however_often_its_message_changes(store: Store, chat: Chat) -> None:
    parts = [{"type": "text", "text": "see"}, image("A" * 5_000_000)]
    created = await store.messages.create_message(
        MessageCreate(chat_uuid=chat.chat_uuid, role="user", content="see", parts=parts)
    )
    assert created.parts == parts
    for name in ("a", "b"):
        changed = await store.messages.update_message(created.message_uuid, MessageUpdate(name=name))
        assert (changed.parts, changed.name) == (parts, name)
    again = MessageCreate(chat_uuid=chat.chat_uuid, role="user", content="see", parts=parts)
    await store.messages.create_message(again)
    pieces = await attachments(store, chat)
    assert [(each.piece, each.pieces, len(each.data)) for each in pieces] == [
        (0, 3, 2_063_384),
        (1, 3, 2_063_384),
        (2, 3, 873_232),
    ]
    first, second = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert first.parts == second.parts == parts
    assert (await store.elsewhere().messages.get_message(first.message_uuid)).parts == parts
    last = await store.elsewhere().messages.get_last_messages([chat.chat_uuid])
    assert last[chat.chat_uuid].parts == parts


async def test_long_texts_and_results_come_back_whole(store: Store, chat: Chat) -> None:
    odd = "é\x00" * 450_000 + "\ud83d"
    message = await store.messages.create_message(
        MessageCreate(chat_uuid=chat.chat_uuid, role="assistant", agui_id="m1", content="x" * 1_048_576, **DONE)
    )
    assert len(message.content) == 1_048_576
    call = await store.messages.create_message_tool_call(
        MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1", arguments="{}")
    )
    await store.messages.update_message_tool_call(call.uuid, MessageToolCallUpdate(content=odd, **DONE))
    await store.messages.create_message_reasoning(
        MessageReasoningCreate(message_uuid=message.message_uuid, content="h" * 900_000, **DONE)
    )
    read = await store.elsewhere().messages.get_message_by_agui_id(chat.chat_uuid, "m1")
    assert (read.content, read.error) == ("x" * 1_048_576, None)
    assert (read.tool_calls[0].content, read.tool_calls[0].error) == (odd, None)
    assert read.reasonings[0].content == "h" * 900_000


async def test_a_text_of_long_characters_is_stored_whole(store: Store, chat: Chat) -> None:
    odd = "é" * 999_999 + "\ud83d"
    message = await store.messages.create_message(
        MessageCreate(chat_uuid=chat.chat_uuid, role="assistant", content=odd, **DONE)
    )
    assert (await store.elsewhere().messages.get_message(message.message_uuid)).content == odd


async def test_a_text_that_is_replaced_has_its_rest_replaced(store: Store, chat: Chat) -> None:
    message = await store.messages.create_message(
        MessageCreate(chat_uuid=chat.chat_uuid, role="assistant", content="x" * 1_048_576, **DONE)
    )
    elsewhere = store.elsewhere().messages
    await elsewhere.update_message(message.message_uuid, MessageUpdate(content="short"))
    assert (await store.elsewhere().messages.get_message(message.message_uuid)).content == "short"


async def test_an_unknown_message_has_no_attachments(store: Store) -> None:
    assert await store.messages.get_message(uuid4()) is None


async def test_a_long_value_is_found_by_its_keys_however_many_the_chat_has(
    store: Store, chat: Chat, client: DRMemoryServiceClient
) -> None:
    first = MessageCreate(chat_uuid=chat.chat_uuid, role="user", agui_id="m1", parts=[image("A" * 5_000_000)])
    await store.messages.create_message(first)
    for number in range(20):
        parts = [image(f"{number:02}" * 40_000)]
        await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, role="user", parts=parts))
    (uuid,) = [
        each.message_uuid for each in await store.messages.get_chat_messages(chat.chat_uuid) if each.agui_id == "m1"
    ]
    elsewhere = store.elsewhere()
    has_keys = await elsewhere.registry.lookups.by_keys()
    counted = Counted(client)

    read = await elsewhere.messages.get_message(uuid)

    assert read is not None
    assert read.parts == first.parts
    if has_keys:
        # The message; the beginning of its data, which says that there are two more pieces; and these.
        assert counted.taken() == ["GET look-up"] * 3


async def test_what_two_processes_store_at_a_time_is_stored_once_where_it_has_keys(store: Store, chat: Chat) -> None:
    value = attached(chat.chat_uuid, "A" * 5_000_000)
    for process in (store, store.elsewhere()):
        await process.messages._attachments.store(chat, [value])

    pieces = [each.piece for each in await attachments(store, chat)]

    assert pieces == [0, 1, 2] * (1 if await store.registry.lookups.by_keys() else 2)


async def test_what_was_stored_without_keys_is_found_where_there_are_keys_now(
    store: Store, chat: Chat, client: DRMemoryServiceClient
) -> None:
    features, client._features = client._features, frozenset()
    parts = [image("A" * 100_000)]
    made = await store.messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, role="user", parts=parts))
    client._features = features

    assert (await store.elsewhere().messages.get_chat_messages(chat.chat_uuid))[0].parts == parts == made.parts


async def test_a_message_that_names_what_belongs_to_another_chat_does_not_get_it(store: Store, chat: Chat) -> None:
    mine = await store.chats.create_chat(ChatCreate(user_uuid=uuid4(), thread_id="t2"))
    secret = attached(chat.chat_uuid, "A" * 100_000)
    await store.messages._attachments.store(chat, [secret])
    parts = [image("x")]
    parts[0]["source"]["value"] = {"$attachment": str(secret.uuid)}

    await store.messages.create_message(MessageCreate(chat_uuid=mine.chat_uuid, role="user", parts=parts))

    (read,) = await store.elsewhere().messages.get_chat_messages(mine.chat_uuid)
    assert read.parts == [image("")]
