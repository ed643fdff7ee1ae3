"""Each scenario is played by the published package and by ours, and both must end in the same stored rows."""

import asyncio
import inspect
from collections.abc import Awaitable
from contextlib import closing

import pytest

from interop import names
from interop.differences import unexplained
from interop.names import Root
from interop.rows import Account, Row
from interop.scenarios import (
    Scenario,
    chat_reasonings,
    chat_repositories,
    chat_runs,
    orm,
    sdk_events,
    sdk_sessions,
    sdk_spaces,
)

SCENARIOS = (
    *sdk_spaces.SCENARIOS,
    *sdk_sessions.SCENARIOS,
    *sdk_events.SCENARIOS,
    *orm.SCENARIOS,
    *chat_repositories.SCENARIOS,
    *chat_runs.SCENARIOS,
    *chat_reasonings.SCENARIOS,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_both_packages_end_in_the_same_rows(scenario: Scenario, account: Account) -> None:
    published = played(scenario, names.published(), account)
    ours = played(scenario, names.ours(), account)
    assert unexplained(scenario.__module__.rpartition(".")[2], published, ours) == []


def played(scenario: Scenario, root: Root, account: Account) -> list[Row]:
    """The rows that a scenario leaves in an account that was empty."""
    account.empty()
    # The synchronous SDK keeps the first connection that it has made from the environment; this is a new one.
    with closing(root.package.Client()):
        result = scenario(root)
        if inspect.isawaitable(result):
            asyncio.run(_finished(result))
    return account.rows()


async def _finished(awaitable: Awaitable[None]) -> None:
    await awaitable
