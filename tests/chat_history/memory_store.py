"""A chat store in memory, written against the protocols alone, as an application's own would be."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

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
    emitter_for_role,
)


class MemoryChats:
    def __init__(self) -> None:
        self.chats: dict[UUID, Chat] = {}

    async def create_chat(self, chat_data: ChatCreate) -> Chat:
        found = await self.get_chat_by_thread_id(chat_data.user_uuid, chat_data.thread_id)
        if found is None:
            found = Chat(thread_id=chat_data.thread_id, user_uuid=chat_data.user_uuid, name=chat_data.name)
            self.chats[found.chat_uuid] = found
        return found

    async def get_chat_by_thread_id(self, user_uuid: UUID, thread_id: str) -> Chat | None:
        wanted = (user_uuid, thread_id)
        return next((chat for chat in self.chats.values() if (chat.user_uuid, chat.thread_id) == wanted), None)

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
    """`before_write` is called before each transaction; what it raises, the transaction raises."""

    def __init__(self) -> None:
        self.messages: dict[UUID, Message] = {}
        self.writes: list[str] = []
        self.transactions = 0
        self.before_write: Callable[[], Any] | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        if self.before_write is not None:
            await self.before_write()
        self.transactions += 1
        yield

    async def create_message(self, message_data: MessageCreate) -> Message:
        self.writes.append("create_message")
        if message_data.message_uuid in self.messages:
            return self.messages[message_data.message_uuid]
        fields = dict(message_data)
        fields["emitter_type"] = message_data.emitter_type or emitter_for_role(message_data.role, None)[0]
        message = Message(**{name: value for name, value in fields.items() if name in Message.model_fields})
        self.messages[message.message_uuid] = message
        return message

    async def update_message(self, message_uuid: UUID, update: MessageUpdate) -> Message | None:
        self.writes.append("update_message")
        return _update(self.messages.get(message_uuid), update)

    async def create_message_tool_call(self, data: MessageToolCallCreate) -> ToolCall:
        self.writes.append("create_message_tool_call")
        call = ToolCall(**{name: value for name, value in dict(data).items() if name != "message_uuid"})
        present = self.messages[data.message_uuid or uuid4()].tool_calls
        earlier = next((each for each in present if each.uuid == call.uuid), None)
        if earlier is None:
            present.append(call)
        return earlier or call

    async def update_message_tool_call(self, uuid: UUID, update: MessageToolCallUpdate) -> ToolCall | None:
        self.writes.append("update_message_tool_call")
        calls = [call for message in self.messages.values() for call in message.tool_calls if call.uuid == uuid]
        return _update(next(iter(calls), None), update)

    async def create_message_reasoning(self, data: MessageReasoningCreate) -> Reasoning:
        self.writes.append("create_message_reasoning")
        step = Reasoning(**{name: value for name, value in dict(data).items() if name != "message_uuid"})
        present = self.messages[data.message_uuid or uuid4()].reasonings
        earlier = next((each for each in present if each.uuid == step.uuid), None)
        if earlier is None:
            present.append(step)
        return earlier or step

    async def update_message_reasoning(self, uuid: UUID, update: MessageReasoningUpdate) -> Reasoning | None:
        self.writes.append("update_message_reasoning")
        steps = [step for message in self.messages.values() for step in message.reasonings if step.uuid == uuid]
        return _update(next(iter(steps), None), update)

    async def get_message(self, message_uuid: UUID) -> Message | None:
        return self.messages.get(message_uuid)

    async def get_message_by_agui_id(self, chat_uuid: UUID, agui_id: str) -> Message | None:
        return next((each for each in await self.get_chat_messages(chat_uuid) if each.agui_id == agui_id), None)

    async def get_tool_call_by_agui_id(self, message_uuid: UUID, agui_id: str) -> ToolCall | None:
        calls = self.messages[message_uuid].tool_calls
        return next((call for call in calls if call.agui_id == agui_id), None)

    async def get_chat_messages(self, chat_uuid: UUID) -> Sequence[Message]:
        return [message for message in self.messages.values() if message.chat_uuid == chat_uuid]

    async def get_last_messages(self, chat_uuids: list[UUID]) -> dict[UUID, Message]:
        return {message.chat_uuid: message for message in self.messages.values() if message.chat_uuid in chat_uuids}


def _update(record: Any, update: Any) -> Any:
    if record is not None:
        for name in update.model_fields_set:
            value = getattr(update, name)
            if value is not None and name in type(record).model_fields:
                setattr(record, name, value)
    return record
