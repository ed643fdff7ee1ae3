"""Messages that were handed in for memories to be found in them, and what became of each. Nothing here commits."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.job import ADDITION
from threadkeep.storage import jobs, text
from threadkeep.storage.statement import InsertMany, Row, Statement, Steps
from threadkeep.storage.tables import memory_additions

PENDING = "PENDING"
RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"

_COLUMNS = (
    memory_additions.c.event_id,
    memory_additions.c.state,
    memory_additions.c.request,
    memory_additions.c.results,
    memory_additions.c.error,
    memory_additions.c.attempts,
    memory_additions.c.created_at,
    memory_additions.c.updated_at,
)
_IN_SPACE = memory_additions.c.space_id == bindparam("at_space", type_=Text)
_INSERT = InsertMany(
    memory_additions,
    [
        memory_additions.c[name]
        for name in ("space_id", "event_id", "user_id", "state", "request", "created_at", "updated_at")
    ],
)
_GET = Statement(select(*_COLUMNS).where(_IN_SPACE, memory_additions.c.event_id == bindparam("at_event", type_=Text)))
_COUNT = Statement(select(func.count()).select_from(memory_additions).where(_IN_SPACE))
_PAGE = Statement(
    select(*_COLUMNS)
    .where(_IN_SPACE)
    .order_by(memory_additions.c.event_id.desc())
    .limit(bindparam("limit", type_=BigInteger))
    .offset(bindparam("offset", type_=BigInteger))
)


@dataclass(frozen=True, slots=True)
class Addition:
    """One request, and how it stands; times in microseconds since 1970."""

    event_id: str
    state: str
    request: str | None
    """As JSON; None when it was carried out."""
    results: str | None
    """As JSON; None until it was carried out."""
    error: str | None
    attempts: int
    created_at: int
    updated_at: int


def queue(space_id: str, event_id: str, user_id: str | None, request: str, now: int) -> Steps[None]:
    """Keep a request, and let a worker carry it out soon. `user_id` is whom it is about."""
    yield _INSERT, [(space_id, event_id, text.encode_optional(user_id), PENDING, request, now, now)]
    yield from jobs.put(space_id, event_id, ADDITION, now, now)


def get(space_id: str, event_id: str) -> Steps[Addition | None]:
    rows = yield _GET, {"at_space": space_id, "at_event": event_id}
    return _addition(rows[0]) if rows else None


def page(space_id: str, offset: int, limit: int) -> Steps[tuple[list[Addition], int]]:
    """Requests, newest first, and the number of all of them."""
    ((total,),) = yield _COUNT, {"at_space": space_id}
    rows = yield _PAGE, {"at_space": space_id, "offset": offset, "limit": limit}
    return list(map(_addition, rows)), total


def _addition(row: Row) -> Addition:
    values: list[Any] = list(row)
    return Addition(*values)
