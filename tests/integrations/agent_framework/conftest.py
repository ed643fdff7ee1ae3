"""Fixtures: a history provider on the real service, on both engines."""

from uuid import UUID, uuid4

import pytest

from tests.integrations.agent_framework.stored import Place
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace


@pytest.fixture
async def space(client: DRMemoryServiceClient) -> DRMemorySpace:
    return await DRMemorySpace.post(client, deduplication_key="chats")


@pytest.fixture
def user_id() -> UUID:
    return uuid4()


@pytest.fixture
def place(space: DRMemorySpace, user_id: UUID) -> Place:
    """A space, a user, and what is stored there."""
    return Place(space, user_id)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["per_call", "per_run"])
def at_end(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
