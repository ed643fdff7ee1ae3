"""From a chat's uuid to its session: a bounded cache, then a look-up. Shared by the repositories of a space."""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from uuid import UUID

from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.locator import LocatorIndex
from threadkeep.chat_history.lookups import Lookups
from threadkeep.chat_history.models import Chat, EntityLocator
from threadkeep.persistence import DRMemoryNotFoundError, DRMemorySpace

_CACHED_CHATS = 10_000


class ChatSessionRegistry:
    """Knows which session a chat is.

    ```python
    registry = ChatSessionRegistry(space)
    chats = ChatRepository(space, registry)
    messages = MessageRepository(space, registry)
    ```

    Args:
        space: where the chats live.
        chat_cls: the class of the chats, where it is a subclass of Chat.
        locator_cls: the class of the locators, where it is a subclass of EntityLocator.
        always_locators: write a locator for every entity even where the service has lookup keys. The published package
            finds by locators only, so a space that it shares wants this. None: as the variable `THREADKEEP_LOCATORS`
            says (`always`), else no.
    """

    def __init__(
        self,
        space: DRMemorySpace,
        chat_cls: type[Chat] = Chat,
        locator_cls: type[EntityLocator] = EntityLocator,
        *,
        always_locators: bool | None = None,
    ) -> None:
        self._space = space
        self._chat_cls = chat_cls
        self._locators = LocatorIndex(space, locator_cls)
        self._lookups = Lookups(space, self._locators, always_locators)
        self._session_ids: BoundedCache[UUID, str] = BoundedCache(_CACHED_CHATS)
        self._chats: BoundedCache[UUID, Chat] = BoundedCache(_CACHED_CHATS)
        self._creating: dict[UUID, asyncio.Event] = {}

    @property
    def locators(self) -> LocatorIndex:
        """The locators of the space."""
        return self._locators

    @property
    def lookups(self) -> Lookups:
        """How the repositories find entities by uuid."""
        return self._lookups

    def register(self, chat_uuid: UUID, session_id: str) -> None:
        """Remember which session a chat is."""
        self._session_ids.put(chat_uuid, session_id)

    def unregister(self, chat_uuid: UUID) -> None:
        """Forget a chat, e.g. one that was deleted."""
        self._session_ids.drop(chat_uuid)
        self._chats.drop(chat_uuid)

    def get_session_id(self, chat_uuid: UUID) -> str | None:
        """The remembered session id of a chat; asks nobody."""
        return self._session_ids.get(chat_uuid)

    async def resolve(self, chat_uuid: UUID) -> str | None:
        """The session id of a chat.

        A chat that is just being created in this process is waited for.

        Args:
            chat_uuid: the application's own id of the chat.

        Returns:
            The session id, or None where the chat is unknown or nothing leads to it.
        """
        return (await self.resolve_all([chat_uuid])).get(chat_uuid)

    async def resolve_all(self, chat_uuids: Collection[UUID]) -> dict[UUID, str]:
        """The session ids of those chats that are found, looked up together."""
        for creating in [self._creating[uuid] for uuid in chat_uuids if uuid in self._creating]:
            await creating.wait()
        known = {uuid: session_id for uuid in chat_uuids if (session_id := self._session_ids.get(uuid)) is not None}
        unknown = [uuid for uuid in chat_uuids if uuid not in known]
        found = await self._lookups.sessions_of(unknown) if unknown else {}
        for chat_uuid, session_id in found.items():
            self.register(chat_uuid, session_id)
        return known | found

    def remember(self, chat: Chat) -> None:
        """Remember a chat that was read or made."""
        self.register(chat.chat_uuid, chat.id)
        self._chats.put(chat.chat_uuid, chat)

    async def chat(self, chat_uuid: UUID, chat_cls: type[Chat] | None = None) -> Chat | None:
        """The chat itself, or None where it is unknown or was deleted."""
        chat_cls = chat_cls or self._chat_cls
        session_id = await self.resolve(chat_uuid)
        if session_id is None:
            return None
        chat = self._chats.get(chat_uuid)
        if isinstance(chat, chat_cls):
            return chat
        try:
            chat = await chat_cls.get(self._space, session_id)
        except DRMemoryNotFoundError:
            # A locator may outlive the session that it points at.
            self.unregister(chat_uuid)
            return None
        self._chats.put(chat_uuid, chat)
        return chat

    def known(self, chat_uuid: UUID, session_id: str, chat_cls: type[Chat]) -> Chat:
        """The chat as it was read, else by its ids alone: enough to reach its messages, and no request."""
        chat = self._chats.get(chat_uuid)
        if isinstance(chat, chat_cls) and chat.id == session_id:
            return chat
        unread = chat_cls.at(self._space, session_id)
        unread.chat_uuid = chat_uuid
        return unread

    @contextmanager
    def creating(self, chat_uuid: UUID) -> Iterator[None]:
        """While a chat is being created, whoever needs it waits."""
        event = asyncio.Event()
        # One that is created twice at once is waited for until the first of them is done.
        owner = self._creating.setdefault(chat_uuid, event) is event
        try:
            yield
        finally:
            if owner:
                del self._creating[chat_uuid]
            event.set()
