"""Reading and writing the chats behind a history provider, through the repositories of chat history."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from threadkeep.chat_history import (
    Chat,
    ChatCreate,
    ChatRepositoryLike,
    Message,
    MessageRepositoryLike,
    Role,
    session_deduplication_key,
)
from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.chat_names import name_of_chat
from threadkeep.integrations.agent_framework.rows import FrameworkMessageUpdate, NewRow, Write
from threadkeep.persistence import DRMemoryNotFoundError

_KNOWN_CHATS = 10_000
_TICK = timedelta(microseconds=1)


class Chats:
    """The chats of one store. Which chat a thread is, is asked once; each write is one transaction.

    Args:
        chats: where chats are kept.
        messages: where messages are kept.
        place: tells stores apart, in marks.
    """

    def __init__(self, chats: ChatRepositoryLike, messages: MessageRepositoryLike, place: str) -> None:
        self._chats = chats
        self._messages = messages
        self._place = place
        self._known: BoundedCache[str, Chat] = BoundedCache(_KNOWN_CHATS)
        self._stamps: BoundedCache[str, datetime] = BoundedCache(_KNOWN_CHATS)

    def key(self, user_id: UUID, thread_id: str) -> str:
        """What a thread is called in marks."""
        return session_deduplication_key("marks", self._place, str(user_id), thread_id)

    def stamp(self, key: str) -> datetime:
        """The time of a new row: now, but always later than the row before."""
        before = self._stamps.get(key)
        now = datetime.now(UTC)
        stamp = now if before is None else max(now, before + _TICK)
        self._stamps.put(key, stamp)
        return stamp

    async def read(self, user_id: UUID, thread_id: str) -> list[Message]:
        """The rows of a thread, in the order in which they were said; none where there is no such chat."""
        key = self.key(user_id, thread_id)
        chat = await self._find(key, user_id, thread_id)
        if chat is None:
            return []
        rows = sorted(await self._messages.get_chat_messages(chat.chat_uuid), key=lambda row: row.timestamp)
        if rows:
            self._stamps.put(key, max(rows[-1].timestamp, self._stamps.get(key) or rows[-1].timestamp))
        return rows

    async def write(self, user_id: UUID, thread_id: str, writes: Sequence[Write]) -> None:
        """Store rows and changes, together; the chat is made where there is none.

        Raises:
            DRMemoryNotFoundError: the chat was deleted meanwhile.
            DRMemoryServiceError: as for every call.
        """
        key = self.key(user_id, thread_id)
        chat = await self._find(key, user_id, thread_id)
        if chat is None:
            users = (
                {"role": "user", "content": write.message.parts or write.message.content}
                for write in writes
                if isinstance(write, NewRow) and write.message.role == Role.USER
            )
            chat = await self._chats.create_chat(
                ChatCreate(user_uuid=user_id, thread_id=thread_id, name=name_of_chat(users))
            )
            self._known.put(key, chat)
        try:
            async with self._messages.transaction():
                for write in writes:
                    await self._write(chat, write)
        except DRMemoryNotFoundError:
            self._known.drop(key)
            raise

    async def _find(self, key: str, user_id: UUID, thread_id: str) -> Chat | None:
        chat = self._known.get(key)
        if chat is None:
            chat = await self._chats.get_chat_by_thread_id(user_id, thread_id)
            if chat is not None:
                self._known.put(key, chat)
        return chat

    async def _write(self, chat: Chat, write: Write) -> None:
        if not isinstance(write, NewRow):
            if isinstance(write.update, FrameworkMessageUpdate):
                await self._messages.update_message(write.uuid, write.update)
            else:
                await self._messages.update_message_tool_call(write.uuid, write.update)
            return
        await self._messages.create_message(write.message.model_copy(update={"chat_uuid": chat.chat_uuid}))
        for call in write.calls:
            await self._messages.create_message_tool_call(call)
        for step in write.reasonings:
            await self._messages.create_message_reasoning(step)
