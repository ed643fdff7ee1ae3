"""Time that passes without waiting: workers are told what time it is, and look at what has come due by then."""

import json
from pathlib import Path
from typing import Any

from sqlalchemy import and_, func, literal, select

from threadkeep import clock
from threadkeep.domain.event import EventDraft
from threadkeep.domain.job import EXTRACTION
from threadkeep.domain.principal import Principal
from threadkeep.errors import NotFound
from threadkeep.services.container import Container
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import extractions, jobs
from threadkeep.workers.runner import runner_of

At = tuple[Principal, str]
"""Whose space, and which."""

_JOBS = Statement(
    select(jobs.c.session_id, jobs.c.kind, func.coalesce(jobs.c.payload, extractions.c.asked)).outerjoin(
        extractions,
        and_(
            extractions.c.space_id == jobs.c.space_id,
            extractions.c.session_id == jobs.c.session_id,
            jobs.c.kind == literal(EXTRACTION),
        ),
    )
)


def load_case(name: str) -> dict[str, Any]:
    """A field case by its id."""
    case: dict[str, Any] = json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text())
    return case


def seconds_from_now(seconds: float) -> int:
    return clock.now() + int(seconds * 1_000_000)


async def work_at(container: Container, now: int) -> None:
    """Let a worker do all that is due at that time."""
    runner = runner_of(container)
    while await runner.run_due(now):
        pass


async def is_there(container: Container, at: At, session_id: str) -> bool:
    try:
        await container.sessions.get(*at, session_id)
    except NotFound:
        return False
    return True


async def queued(container: Container, kind: str) -> dict[str, Any]:
    """The jobs of a kind: what each carries, or why its extraction was asked for, by session."""
    rows = await container.database.read(lambda: (yield _JOBS, {}))
    return {row[0]: None if row[2] is None else json.loads(row[2]) for row in rows if row[1] == kind}


def message(text: str = "x", **fields: Any) -> EventDraft:
    return EventDraft(json.dumps({"content": text, **fields}), text, "message", "agent", None)
