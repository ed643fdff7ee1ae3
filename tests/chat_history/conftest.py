"""Chats on the real service, on both engines."""

from uuid import UUID, uuid4

import pytest

from tests.chat_history.stores import Store
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace


@pytest.fixture(params=["lookup keys", "locators"])
async def store(client: DRMemoryServiceClient, request: pytest.FixtureRequest) -> Store:
    """A store on a service with lookup keys, and on one that says nothing of them, as the hosted one."""
    if request.param == "locators":
        client._features = frozenset()
    return Store(await DRMemorySpace.post(client, deduplication_key="chats"))


@pytest.fixture
def user_uuid() -> UUID:
    return uuid4()
