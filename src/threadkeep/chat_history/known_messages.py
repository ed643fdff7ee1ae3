"""The messages that a repository has seen last, with their version tokens, and how it comes to those that it has not.

So a write is one request, whatever the length of the chat: only a conflict, or a message that this process has never
seen, costs a read, which is one request where the service has lookup keys.
"""

from uuid import UUID

from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import LOCATOR_KIND_MESSAGE
from threadkeep.chat_history.message_pages import find_message, read_again
from threadkeep.chat_history.models import Chat, Message, Reasoning, ToolCall
from threadkeep.chat_history.registry import ChatSessionRegistry

_CACHED_MESSAGES = 2_048
_CACHED_PARENTS = 16_384
_CACHED_CHAT_UUIDS = 65_536


class KnownMessages:
    """Messages of one space, by their own ids and by those of what is in them."""

    def __init__(self, registry: ChatSessionRegistry, chat_class: type[Chat], message_class: type[Message]) -> None:
        self._registry = registry
        self._chat_class = chat_class
        self._message_class = message_class
        self._messages: BoundedCache[UUID, Message] = BoundedCache(_CACHED_MESSAGES)
        self._parents: BoundedCache[UUID, UUID] = BoundedCache(_CACHED_PARENTS)
        self._chat_uuids: BoundedCache[UUID, UUID] = BoundedCache(_CACHED_CHAT_UUIDS)
        # Messages whose create was not answered: they may or may not be stored.
        self._uncertain: BoundedCache[UUID, bool] = BoundedCache(_CACHED_MESSAGES)

    def get(self, message_uuid: UUID) -> Message | None:
        """A message as it was seen last; asks nobody."""
        return self._messages.get(message_uuid)

    def remember(self, message: Message | None) -> Message | None:
        """Keep a message for later writes, unless a later state of it is kept already."""
        if message is None:
            return None
        kept = self._messages.get(message.message_uuid)
        if kept is None or kept.created_at <= message.created_at:
            self._messages.put(message.message_uuid, message)
        self._uncertain.drop(message.message_uuid)
        if message.chat_uuid is not None:
            self._chat_uuids.put(message.message_uuid, message.chat_uuid)
        children: list[ToolCall | Reasoning] = [*message.tool_calls, *message.reasonings]
        for child in children:
            self._parents.put(child.uuid, message.message_uuid)
        return message

    def holds(self, message_uuid: UUID, child_uuid: UUID) -> None:
        """A tool call or reasoning is in a message."""
        self._parents.put(child_uuid, message_uuid)

    def doubt(self, message_uuid: UUID) -> None:
        """Whether a new message is stored is not known."""
        self._uncertain.put(message_uuid, True)

    async def if_stored(self, chat: Chat, message_uuid: UUID) -> Message | None:
        """A message that is stored already as far as is known; asks only where that is in doubt."""
        stored = self._messages.get(message_uuid)
        if stored is None and message_uuid in self._uncertain:
            stored = await self.reload(chat, message_uuid)
        return stored

    async def latest(self, message_uuid: UUID) -> Message | None:
        """A message as it was seen last, else as it is stored; None where it is unknown."""
        message = self._messages.get(message_uuid)
        chat_uuid = None if message is None else message.chat_uuid
        if message is not None and chat_uuid is not None:
            session_id = self._registry.get_session_id(chat_uuid)
            # A chat that was deleted is registered no more.
            message = message if session_id == message.event_session.id else None
        return message or await self.load(message_uuid)

    async def load(self, message_uuid: UUID) -> Message | None:
        """A message as it is stored now; None where it is unknown, or nothing leads to it."""
        message = await self._find(LOCATOR_KIND_MESSAGE, message_uuid)
        if message is not None:
            return message
        chat = await self._chat_of(message_uuid)
        return None if chat is None else await self._read(chat, message_uuid)

    async def reload(self, chat: Chat, message_uuid: UUID) -> Message | None:
        """A message as it is stored now, in a chat that is known."""
        return await self._find(LOCATOR_KIND_MESSAGE, message_uuid) or await self._read(chat, message_uuid)

    async def holder_of(self, kind: str, child_uuid: UUID) -> UUID | None:
        """The message that holds a tool call or reasoning; None where that is unknown."""
        message_uuid = self._parents.get(child_uuid)
        if message_uuid is not None:
            return message_uuid
        message = await self._find(kind, child_uuid)
        if message is not None:
            return message.message_uuid
        locator = await self._registry.locators.get(kind, child_uuid)
        if locator is None or locator.message_uuid is None:
            return None
        if locator.chat_uuid is not None:
            self._registry.register(locator.chat_uuid, locator.session_id)
            self._chat_uuids.put(locator.message_uuid, locator.chat_uuid)
        self._parents.put(child_uuid, locator.message_uuid)
        return locator.message_uuid

    def chat_of(self, message: Message) -> Chat:
        """The chat of a stored message; asks nobody."""
        session = message.event_session
        if message.chat_uuid is not None:
            return self._registry.known(message.chat_uuid, session.id, self._chat_class)
        assert isinstance(session, Chat)
        return session

    async def _find(self, kind: str, uuid: UUID) -> Message | None:
        message = await self._registry.lookups.find(self._message_class, kind, uuid)
        if message is None:
            return None
        if message.chat_uuid is not None:
            self._registry.register(message.chat_uuid, message.event_session.id)
        self._messages.drop(message.message_uuid)
        return self.remember(message)

    async def _read(self, chat: Chat, message_uuid: UUID) -> Message | None:
        seen = self._messages.get(message_uuid)
        self._messages.drop(message_uuid)
        if seen is not None and seen.event_session.id == chat.id:
            return self.remember(await read_again(self._message_class, chat, message_uuid, seen.sequence_id))
        found = await find_message(self._message_class, chat, lambda message: message.message_uuid == message_uuid)
        return self.remember(found)

    async def _chat_of(self, message_uuid: UUID) -> Chat | None:
        chat_uuid = self._chat_uuids.get(message_uuid)
        if chat_uuid is None:
            locator = await self._registry.locators.get(LOCATOR_KIND_MESSAGE, message_uuid)
            if locator is None or locator.chat_uuid is None:
                return None
            chat_uuid = locator.chat_uuid
            self._registry.register(chat_uuid, locator.session_id)
            self._chat_uuids.put(message_uuid, chat_uuid)
        return await self._registry.chat(chat_uuid, self._chat_class)
