"""What the storage agent needs of a store. Any object with these methods will do: ours, a SQL store, one in memory."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from threadkeep.chat_history.chat_records import ChatEvent, ChatEventCreate
from threadkeep.chat_history.dto import (
    ChatCreate,
    MessageCreate,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
)
from threadkeep.chat_history.models import Chat, Message, Reasoning, ToolCall


@runtime_checkable
class ChatRepositoryLike(Protocol):
    """Where chats are kept."""

    async def create_chat(self, chat_data: ChatCreate) -> Chat:
        """Create the chat of a (user, thread), or return the one that is there."""

    async def get_chat_by_thread_id(self, user_uuid: UUID, thread_id: str) -> Chat | None:
        """The chat of a (user, thread), or None."""

    async def get_all_chats(self, user_uuid: UUID | None) -> Sequence[Chat]:
        """All chats, or those of one user."""

    async def update_chat_name(self, chat_uuid: UUID, name: str) -> Chat | None:
        """Rename a chat; None where it is unknown."""

    async def delete_chat(self, chat_uuid: UUID) -> Chat | None:
        """Delete a chat and return it; None where it is unknown."""


@runtime_checkable
class MessageRepositoryLike(Protocol):
    """Where messages are kept, with the tool calls and reasonings in them.

    The storage agent repeats a write whose outcome it does not know, with the same `message_uuid` or `uuid`. A store
    that keeps those ids and answers a repeated create with what is there never has anything twice. A write to a chat
    that was deleted raises `threadkeep.errors.NotFound`; every other error is one that the agent tries again, or tells
    in the record. `threadkeep.testing.conformance` tries all of it.
    """

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A scope for writes that belong together."""

    async def create_message(self, message_data: MessageCreate) -> Message:
        """Store a new message."""

    async def update_message(self, message_uuid: UUID, update: MessageUpdate) -> Message | None:
        """Change a message; None where it is unknown."""

    async def create_message_tool_call(self, data: MessageToolCallCreate) -> ToolCall:
        """Append a tool call to its message."""

    async def update_message_tool_call(self, uuid: UUID, update: MessageToolCallUpdate) -> ToolCall | None:
        """Change a tool call; None where it is unknown."""

    async def create_message_reasoning(self, data: MessageReasoningCreate) -> Reasoning:
        """Append a reasoning step to its message."""

    async def update_message_reasoning(self, uuid: UUID, update: MessageReasoningUpdate) -> Reasoning | None:
        """Change a reasoning step; None where it is unknown."""

    async def get_message(self, message_uuid: UUID) -> Message | None:
        """A message, or None."""

    async def get_message_by_agui_id(self, chat_uuid: UUID, agui_id: str) -> Message | None:
        """A message by its AG-UI id in a chat, or None."""

    async def get_tool_call_by_agui_id(self, message_uuid: UUID, agui_id: str) -> ToolCall | None:
        """A tool call by its AG-UI id in a message, or None."""

    async def get_chat_messages(self, chat_uuid: UUID) -> Sequence[Message]:
        """All messages of a chat, oldest first."""

    async def get_last_messages(self, chat_uuids: list[UUID]) -> dict[UUID, Message]:
        """The newest message of each of these chats."""


@runtime_checkable
class StateRepositoryLike(Protocol):
    """Where the last state of each thread is kept. A message repository that has these methods is given the states."""

    async def save_state(self, chat_uuid: UUID, state: Any, run_id: str | None = None) -> None:
        """Store the state of a thread in place of the one before."""

    async def get_state(self, chat_uuid: UUID) -> Any:
        """The last state of a thread, or None."""


@runtime_checkable
class EventRepositoryLike(Protocol):
    """Where events are kept as they came. A message repository that has these methods is given those asked for."""

    async def add_events(self, chat_uuid: UUID, events: Sequence[ChatEventCreate]) -> None:
        """Keep events, in order. One that is repeated has the same `uuid`."""

    async def get_events(self, chat_uuid: UUID) -> Sequence[ChatEvent]:
        """The events of a chat that were kept, in order."""
