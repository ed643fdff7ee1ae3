"""Messages that were handed in for memories to be found in them, and what became of each. Nothing here commits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, null, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.job import ADDITION, Job
from threadkeep.domain.memory import MemoryChange, MemoryScope
from threadkeep.storage import jobs, memories, text
from threadkeep.storage.statement import InsertMany, Row, Statement, Steps
from threadkeep.storage.tables import memory_additions, spaces

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


_THIS = (_IN_SPACE, memory_additions.c.event_id == bindparam("at_event", type_=Text))
_NOW = bindparam("now", type_=BigInteger)
_PLAN = Statement(
    select(
        spaces.c.llm_model_name,
        spaces.c.llm_base_url,
        spaces.c.custom_instructions,
        memory_additions.c.request,
        memory_additions.c.attempts,
    )
    .join(spaces, spaces.c.space_id == memory_additions.c.space_id)
    .where(*_THIS, spaces.c.deleted_at.is_(None), memory_additions.c.request.is_not(None))
)
_BEGIN = Statement(update(memory_additions).where(*_THIS).values(state=RUNNING, updated_at=_NOW))
_END = Statement(
    update(memory_additions)
    .where(*_THIS)
    .values(
        state=bindparam("new_state", type_=Text),
        results=bindparam("new_results", type_=Text),
        error=bindparam("new_error", type_=Text),
        # What was said is not kept: what was found in it is.
        request=null(),
        updated_at=_NOW,
    )
)
_WAIT = Statement(
    update(memory_additions)
    .where(*_THIS)
    .values(
        state=PENDING,
        attempts=memory_additions.c.attempts + bindparam("more", type_=BigInteger),
        error=bindparam("new_error", type_=Text),
        updated_at=_NOW,
    )
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a request is to do, and what its space says of it."""

    llm_model_name: str | None
    llm_base_url: str | None
    custom_instructions: str | None
    request: str
    attempts: int


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


def plan(space_id: str, event_id: str) -> Steps[Plan | None]:
    """What is to be done; None where it was done, or the space is gone."""
    rows = yield _PLAN, {"at_space": space_id, "at_event": event_id}
    if not rows:
        return None
    name, url, instructions, request, attempts = rows[0]
    known = (text.decode_optional(name), text.decode_optional(url), text.decode_optional(instructions))
    return Plan(*known, request, attempts)


def begin(job: Job, now: int) -> Steps[None]:
    """Say that the job runs. Raises LeaseLost."""
    yield from jobs.check(job, now)
    yield _BEGIN, {**_at(job), "now": now}


def settle(job: Job, scope: MemoryScope, changes: Sequence[MemoryChange], now: int) -> Steps[None]:
    """Write what was found, and that the request was carried out.

    Raises LeaseLost; NotFound where the space is gone.
    """
    done = yield from memories.apply(job.space_id, scope, changes, now)
    results = [
        {"id": memory.id, "memory": memory.text, "event": change.event, "data": {"memory": memory.text}}
        for change, memory in zip(changes, done, strict=True)
        if memory is not None
    ]
    values = {"new_state": SUCCEEDED, "new_results": json.dumps(results), "new_error": None}
    yield _END, {**_at(job), **values, "now": now}
    yield from jobs.remove(job, now)


def fail(job: Job, error: str, retry_at: int | None, now: int, *, counts: bool = True) -> Steps[None]:
    """Note why an attempt failed, and when to try again; without a time it has failed for good. Raises LeaseLost.

    `counts` is False where it was no attempt but a wait.
    """
    if retry_at is None:
        values = {"new_state": FAILED, "new_results": "[]", "new_error": error}
        yield _END, {**_at(job), **values, "now": now}
        yield from jobs.remove(job, now)
    else:
        yield _WAIT, {**_at(job), "new_error": error, "more": int(counts), "now": now}
        yield from jobs.check(job, now)
        yield from jobs.give_back(job, retry_at, None, now)


def _at(job: Job) -> dict[str, Any]:
    # The id of the request is in the session's place.
    return {"at_space": job.space_id, "at_event": job.session_id}


def _addition(row: Row) -> Addition:
    values: list[Any] = list(row)
    return Addition(*values)
