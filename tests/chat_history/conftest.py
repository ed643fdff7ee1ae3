"""Chats on the real service, on both engines."""

from uuid import UUID, uuid4

import pytest
from hypothesis import settings

from tests.chat_history.stores import Store
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace

# A busy machine is no failure.
settings.register_profile("threadkeep", deadline=None)
settings.load_profile("threadkeep")


@pytest.fixture
async def store(client: DRMemoryServiceClient) -> Store:
    return Store(await DRMemorySpace.post(client, deduplication_key="chats"))


@pytest.fixture
def user_uuid() -> UUID:
    return uuid4()
