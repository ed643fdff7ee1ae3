"""A chat store in memory: the smallest that passes the conformance suite. Nothing survives the process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel

from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    Message,
    MessageCreate,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
    Reasoning,
    ToolCall,
)
from threadkeep.errors import NotFound

R = TypeVar("R", bound=BaseModel)
N = TypeVar("N", ToolCall, Reasoning)


class MemoryChats:
    """A ChatRepositoryLike."""

    def __init__(self) -> None:
        self.chats: dict[UUID, Chat] = {}

    async def create_chat(self, chat_data: ChatCreate) -> Chat:
        if chat_data.user_uuid is None or not chat_data.thread_id:
            raise ValueError("A chat needs a user_uuid and a thread_id")
        found = await self.get_chat_by_thread_id(chat_data.user_uuid, chat_data.thread_id)
        if found is None:
            found = self.chats[chat_data.chat_uuid] = Chat(**filled(Chat, chat_data))
        return found

    async def get_chat_by_thread_id(self, user_uuid: UUID, thread_id: str) -> Chat | None:
        chats = self.chats.values()
        return next((each for each in chats if (each.user_uuid, each.thread_id) == (user_uuid, thread_id)), None)

    async def get_all_chats(self, user_uuid: UUID | None) -> Sequence[Chat]:
        return [chat for chat in self.chats.values() if user_uuid in (None, chat.user_uuid)]

    async def update_chat_name(self, chat_uuid: UUID, name: str) -> Chat | None:
        chat = self.chats.get(chat_uuid)
        if chat is not None:
            chat.name = name
        return chat

    async def delete_chat(self, chat_uuid: UUID) -> Chat | None:
        return self.chats.pop(chat_uuid, None)


class MemoryMessages:
    """A MessageRepositoryLike on the same chats."""

    def __init__(self, chats: MemoryChats) -> None:
        self._chats = chats.chats
        self._messages: dict[UUID, Message] = {}

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        # Between two awaits nobody else runs, and there is no disk to wait for.
        yield

    async def create_message(self, message_data: MessageCreate) -> Message:
        if message_data.chat_uuid is None:
            raise ValueError("A message needs a chat_uuid")
        if message_data.chat_uuid not in self._chats:
            raise NotFound(f"There is no chat {message_data.chat_uuid}")
        # A write whose answer was lost comes again with the same uuid.
        return self._messages.setdefault(message_data.message_uuid, Message(**filled(Message, message_data)))

    async def update_message(self, message_uuid: UUID, update: MessageUpdate) -> Message | None:
        return changed(await self.get_message(message_uuid), update)

    async def create_message_tool_call(self, data: MessageToolCallCreate) -> ToolCall:
        calls = (await self._parent(data.message_uuid)).tool_calls
        return appended(calls, ToolCall(**filled(ToolCall, data)))

    async def update_message_tool_call(self, uuid: UUID, update: MessageToolCallUpdate) -> ToolCall | None:
        calls = (call for message in self._messages.values() for call in message.tool_calls)
        return changed(next((call for call in calls if call.uuid == uuid), None), update)

    async def create_message_reasoning(self, data: MessageReasoningCreate) -> Reasoning:
        steps = (await self._parent(data.message_uuid)).reasonings
        return appended(steps, Reasoning(**filled(Reasoning, data)))

    async def update_message_reasoning(self, uuid: UUID, update: MessageReasoningUpdate) -> Reasoning | None:
        steps = (step for message in self._messages.values() for step in message.reasonings)
        return changed(next((step for step in steps if step.uuid == uuid), None), update)

    async def get_message(self, message_uuid: UUID) -> Message | None:
        message = self._messages.get(message_uuid)
        return message if message is not None and message.chat_uuid in self._chats else None

    async def get_message_by_agui_id(self, chat_uuid: UUID, agui_id: str) -> Message | None:
        messages = reversed(await self.get_chat_messages(chat_uuid))
        return next((message for message in messages if message.agui_id == agui_id), None)

    async def get_tool_call_by_agui_id(self, message_uuid: UUID, agui_id: str) -> ToolCall | None:
        message = await self.get_message(message_uuid)
        return next((call for call in message.tool_calls if call.agui_id == agui_id), None) if message else None

    async def get_chat_messages(self, chat_uuid: UUID) -> Sequence[Message]:
        messages = self._messages.values() if chat_uuid in self._chats else ()
        return [message for message in messages if message.chat_uuid == chat_uuid]

    async def get_last_messages(self, chat_uuids: list[UUID]) -> dict[UUID, Message]:
        found = {chat_uuid: await self.get_chat_messages(chat_uuid) for chat_uuid in chat_uuids}
        return {chat_uuid: messages[-1] for chat_uuid, messages in found.items() if messages}

    async def _parent(self, message_uuid: UUID | None) -> Message:
        message = await self.get_message(message_uuid) if message_uuid else None
        if message is None:
            raise ValueError(f"There is no message {message_uuid}")
        return message


def filled(cls: type[BaseModel], data: BaseModel) -> dict[str, Any]:
    """The values of a create DTO that a record has a place for. What is None takes the record's default."""
    return {name: value for name, value in dict(data).items() if name in cls.model_fields and value is not None}


def appended(records: list[N], record: N) -> N:
    """Append a record, unless it is there already; the one that is there."""
    present = next((each for each in records if each.uuid == record.uuid), None)
    if present is None:
        records.append(record)
    return present or record


def changed(record: R | None, update: BaseModel) -> R | None:
    """Apply what an update sets and the record has; what it does not set, sets to None or the record lacks stays."""
    if record is not None:
        for name in update.model_fields_set & set(type(record).model_fields):
            if getattr(update, name) is not None:
                setattr(record, name, getattr(update, name))
    return record
