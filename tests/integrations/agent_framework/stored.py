"""What tests read from the store: rows in the shape that the field cases speak of."""

from typing import Any
from uuid import UUID

from threadkeep.chat_history import ChatRepository, ChatSessionRegistry, Message, MessageRepository
from threadkeep.integrations.agent_framework import ThreadkeepHistoryProvider
from threadkeep.integrations.agent_framework.rows import FrameworkMessage
from threadkeep.persistence import DRMemorySpace


class Place:
    """A memory space and a user. Every provider of it knows nothing of the others, like one of another process."""

    def __init__(self, space: DRMemorySpace, user_id: UUID) -> None:
        self.space = space
        self.user_id = user_id

    def provider(self, **options: Any) -> ThreadkeepHistoryProvider:
        return ThreadkeepHistoryProvider(self.space, self.user_id, **options)

    async def rows(self, thread_id: str = "t") -> list[Message]:
        """The rows of a thread, read afresh."""
        registry = ChatSessionRegistry(self.space)
        chat = await ChatRepository(self.space, registry).get_chat_by_thread_id(self.user_id, thread_id)
        if chat is None:
            return []
        messages = MessageRepository(self.space, registry, message_cls=FrameworkMessage)
        rows = list(await messages.get_chat_messages(chat.chat_uuid))
        assert [row.timestamp for row in rows] == sorted(row.timestamp for row in rows)
        return rows

    async def stored(self, thread_id: str = "t") -> list[dict[str, Any]]:
        return shown(await self.rows(thread_id))


def shown(rows: list[Message]) -> list[dict[str, Any]]:
    """Rows with the fields that tell one history from another; calls as `(id, result, status)`."""
    shape: list[dict[str, Any]] = []
    for row in rows:
        fields: dict[str, Any] = {"role": row.role.value}
        if row.content:
            fields["content"] = row.content
        if row.status != "complete":
            fields["status"] = row.status.value
        if row.tool_calls:
            fields["calls"] = [(call.agui_id, call.content, call.status.value) for call in row.tool_calls]
        shape.append(fields)
    return shape
