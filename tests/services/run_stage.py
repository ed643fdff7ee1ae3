"""A session and runs on it, for tests of the logs of runs."""

from collections.abc import Sequence
from typing import Any

import pytest

from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run, RunKey
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import Unavailable
from threadkeep.services.container import Container
from threadkeep.services.runs import Runs

At = tuple[Principal, str, str]


async def a_session(container: Container, user: str = "alice") -> At:
    principal = await container.tokens.local_principal(user)
    space = await container.spaces.create(principal, SpaceDraft())
    return principal, space.id, (await container.sessions.create(principal, space.id, SessionDraft(("p",)))).id


async def begun(container: Container, at: At, run_id: str = "r", owner: str = "o", lease: float = 60) -> Run:
    return await container.runs.begin(*at, run_id=run_id, parent_run_id=None, owner=owner, lease_seconds=lease)


async def taken_over(container: Container, run: Run, owner: str) -> Run:
    """The run as its new owner has it; the one before believes that it is still theirs."""
    principal = Principal(run.user_id, run.tenant_id)
    assert await container.runs.take_over(run, owner, 60)
    return await container.runs.get(principal, run.space_id, run.session_id, run.run_id)


async def whole(container: Container, key: RunKey, after: int = -1) -> list[tuple[int, bytes]]:
    """What the log has, read page by page."""
    found: list[tuple[int, bytes]] = []
    while page := await container.run_log.read(key, after):
        found += [(event.index, event.data) for event in page]
        after = page[-1].index
    return found


def numbered(events: Sequence[bytes], first: int = 0) -> list[tuple[int, bytes]]:
    return [*enumerate(events, first)]


def lose_answer(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """A call is carried out, and its caller hears that the database is gone: the first that does anything.

    Returns what was not heard.
    """
    real = getattr(Runs, name)
    lost: list[object] = []

    async def call(*given: Any, **named: Any) -> Any:
        answer = await real(*given, **named)
        if answer and not lost:
            lost.append(answer)
            raise Unavailable("The database gives no answer")
        return answer

    monkeypatch.setattr(Runs, name, call)
    return lost
