"""The repositories of one process on the real service."""

from threadkeep.chat_history import ChatRepository, ChatSessionRegistry, MessageRepository
from threadkeep.persistence import DRMemorySpace


class Store:
    """Chats and messages of a space; `elsewhere` is how another process sees them."""

    def __init__(self, space: DRMemorySpace) -> None:
        self.space = space
        self.registry = ChatSessionRegistry(space)
        self.chats = ChatRepository(space, self.registry)
        self.messages = MessageRepository(space, self.registry)

    def elsewhere(self) -> "Store":
        """The same store with nothing remembered."""
        return Store(self.space)
