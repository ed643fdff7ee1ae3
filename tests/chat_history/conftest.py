"""Chats on the real service, on both engines."""

from uuid import UUID, uuid4

import pytest
from hypothesis import settings

from threadkeep.chat_history import ChatRepository, ChatSessionRegistry, MessageRepository
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace

# A busy machine is no failure.
settings.register_profile("threadkeep", deadline=None)
settings.load_profile("threadkeep")


class Store:
    """The repositories of one process on a space."""

    def __init__(self, space: DRMemorySpace) -> None:
        self.space = space
        self.registry = ChatSessionRegistry(space)
        self.chats = ChatRepository(space, self.registry)
        self.messages = MessageRepository(space, self.registry)

    def elsewhere(self) -> "Store":
        """The same store as another process sees it: nothing is remembered."""
        return Store(self.space)


@pytest.fixture
async def store(client: DRMemoryServiceClient) -> Store:
    return Store(await DRMemorySpace.post(client, deduplication_key="chats"))


@pytest.fixture
def user_uuid() -> UUID:
    return uuid4()
