"""Chats: created once for a user and a thread, found, renamed, deleted."""

from collections.abc import Sequence
from uuid import UUID

from threadkeep.chat_history.constants import LOCATOR_KIND_CHAT, chat_deduplication_key, participant_id
from threadkeep.chat_history.dto import ChatCreate
from threadkeep.chat_history.locator import Location
from threadkeep.chat_history.models import Chat
from threadkeep.chat_history.registry import ChatSessionRegistry
from threadkeep.persistence import DRMemoryNotFoundError, DRMemorySpace, DRMemoryVersionConflictError

_RENAME_ATTEMPTS = 5


class ChatRepository:
    """Chats as sessions of a memory space.

    ```python
    chats = ChatRepository(space, ChatSessionRegistry(space))
    chat = await chats.create_chat(ChatCreate(user_uuid=user_uuid, thread_id="thread-1"))
    ```

    Args:
        space: where the chats live.
        registry: shared with the MessageRepository of the same space.
        chat_cls: a subclass of Chat with fields of your own; a ChatCreate subclass may carry them.
    """

    def __init__(
        self, space: DRMemorySpace, registry: ChatSessionRegistry | None = None, chat_cls: type[Chat] = Chat
    ) -> None:
        self._space = space
        self._registry = registry or ChatSessionRegistry(space)
        self._chat_class = chat_cls

    @property
    def space(self) -> DRMemorySpace:
        """Where the chats live."""
        return self._space

    async def create_chat(self, chat_data: ChatCreate) -> Chat:
        """Create the chat of a user on a thread, or return the one that is there. Safe to call at the same time.

        Raises:
            ValueError: `user_uuid` or `thread_id` is missing, or the thread id is too long to be indexed.
            DRMemoryServiceError: as for every call.
        """
        user_uuid, thread_id = chat_data.user_uuid, chat_data.thread_id
        if user_uuid is None or not thread_id:
            raise ValueError("A chat needs a user_uuid and a thread_id")
        fields = {name: value for name, value in dict(chat_data).items() if name in self._chat_class.model_fields}
        with self._registry.creating(chat_data.chat_uuid):
            chat = await self._chat_class.post(
                self._space,
                participants=[participant_id(user_uuid)],
                dedup_key=chat_deduplication_key(user_uuid, thread_id),
                **fields,
            )
            self._registry.remember(chat)
            # Where another was first, messages that were meant for this one go there.
            self._registry.register(chat_data.chat_uuid, chat.id)
            if chat.chat_uuid == chat_data.chat_uuid:
                self._registry.lookups.began(chat)
        await self._registry.locators.write([Location(LOCATOR_KIND_CHAT, chat.chat_uuid, chat.id, chat.chat_uuid)])
        return chat

    async def get_chat_by_thread_id(self, user_uuid: UUID, thread_id: str) -> Chat | None:
        """The chat of a user on a thread, or None.

        The deduplication key finds it in one look-up; a chat that was stored without one is found by its thread id.

        Args:
            user_uuid: whose chat it is.
            thread_id: AG-UI's thread id.
        """
        try:
            chat = await self._chat_class.get(self._space, dedup_key=chat_deduplication_key(user_uuid, thread_id))
        except DRMemoryNotFoundError:
            found = await self._find_by_description(user_uuid, thread_id)
            if found is None:
                return None
            chat = found
        self._registry.remember(chat)
        return chat

    async def get_all_chats(self, user_uuid: UUID | None) -> Sequence[Chat]:
        """All chats, oldest first, or those of one user."""
        participant = None if user_uuid is None else participant_id(user_uuid)
        chats = await self._chat_class.list(self._space, participant=participant)
        for chat in chats:
            self._registry.remember(chat)
        return [chat for chat in chats if user_uuid is None or chat.user_uuid in (None, user_uuid)]

    async def update_chat_name(self, chat_uuid: UUID, name: str) -> Chat | None:
        """Rename a chat, again where somebody else changed it meanwhile; None where it is unknown.

        Raises:
            DRMemoryVersionConflictError: others were faster time and again.
        """
        for attempt in range(1, _RENAME_ATTEMPTS + 1):
            chat = await self._registry.chat(chat_uuid, self._chat_class)
            if chat is None:
                return None
            try:
                await chat.patch(name=name)
            except DRMemoryNotFoundError:
                self._registry.unregister(chat_uuid)
                return None
            except DRMemoryVersionConflictError:
                if attempt == _RENAME_ATTEMPTS:
                    raise
                self._registry.remember(await self._chat_class.get(self._space, chat.id))
            else:
                return chat
        return None

    async def delete_chat(self, chat_uuid: UUID) -> Chat | None:
        """Delete a chat with its messages and return it; None where it is unknown. Its locators go with their time."""
        chat = await self._registry.chat(chat_uuid, self._chat_class)
        self._registry.unregister(chat_uuid)
        if chat is None:
            return None
        try:
            await chat.delete()
        except DRMemoryNotFoundError:
            return None
        return chat

    async def _find_by_description(self, user_uuid: UUID, thread_id: str) -> Chat | None:
        try:
            chats = await self._chat_class.list(self._space, participant=participant_id(user_uuid), thread_id=thread_id)
        except ValueError:
            # A thread id that cannot be a range key cannot have a chat.
            return None
        return next((chat for chat in chats if chat.user_uuid in (None, user_uuid)), None)
