"""Tests with the framework's own AG-UI package, which wants the 0.1 line of the protocol: `make test` has it there."""

import importlib.util

import pytest

from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace

if importlib.util.find_spec("agent_framework_ag_ui") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
async def space(client: DRMemoryServiceClient) -> DRMemorySpace:
    return await DRMemorySpace.post(client, deduplication_key="snapshots")
