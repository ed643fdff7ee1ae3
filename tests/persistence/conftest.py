"""Fixtures of the ORM's tests: a space on each engine."""

import pytest

from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace


@pytest.fixture
async def space(client: DRMemoryServiceClient) -> DRMemorySpace:
    """A fresh memory space of alice."""
    return await DRMemorySpace.post(client, description="Tests")
