"""What was deleted long ago, removed for good, a few rows at a time. Nothing here commits.

Each step begins anew at what is there, and what leads to the rest goes last: the events before their session, the
sessions before their space. So a step can stop anywhere, and the next one goes on.
Numbers of events come from the counters, which stay: a number is never given out again.
"""

from typing import Any

from sqlalchemy import Column, bindparam, delete, select
from sqlalchemy.types import BigInteger

from threadkeep.storage import memory_removal, search
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import (
    event_lookup_keys,
    events,
    extractions,
    idempotency_keys,
    interrupts,
    jobs,
    participants,
    run_events,
    runs,
    session_counters,
    sessions,
    spaces,
)

ROWS = 500
"""Rows that one step removes, roughly."""

_BEFORE = bindparam("before", type_=BigInteger)
_LIMIT = bindparam("limit", type_=BigInteger)
_SPACES = Statement(
    select(spaces.c.space_id).where(spaces.c.deleted_at <= _BEFORE).order_by(spaces.c.deleted_at).limit(_LIMIT)
)
_SESSIONS = Statement(
    select(sessions.c.space_id, sessions.c.session_id)
    .where(sessions.c.deleted_at <= _BEFORE)
    .order_by(sessions.c.deleted_at)
    .limit(_LIMIT)
)
_EVENTS = Statement(
    select(events.c.space_id, events.c.session_id, events.c.seq)
    .where(events.c.deleted_at <= _BEFORE)
    .order_by(events.c.deleted_at)
    .limit(_LIMIT)
)
_IN_SPACE = Statement(
    select(sessions.c.session_id)
    .where(sessions.c.space_id == bindparam("space_id"))
    .order_by(sessions.c.session_id)
    .limit(_LIMIT)
)
_ANSWERS = Statement(
    select(idempotency_keys.c.space_id, idempotency_keys.c.user_id, idempotency_keys.c.idempotency_key)
    .where(idempotency_keys.c.created_at <= _BEFORE)
    .order_by(idempotency_keys.c.created_at)
    .limit(_LIMIT)
)
_REMOVE_SPACE = Statement(delete(spaces).where(spaces.c.space_id == bindparam("space_id")))
_REMOVE_ANSWER = Statement(
    delete(idempotency_keys).where(
        idempotency_keys.c.space_id == bindparam("space_id"),
        idempotency_keys.c.user_id == bindparam("user_id"),
        idempotency_keys.c.idempotency_key == bindparam("idempotency_key"),
    )
)


def _of_session(table: Any) -> tuple[Any, Any]:
    return table.c.space_id == bindparam("space_id"), table.c.session_id == bindparam("session_id")


def _batch(column: Column[Any], *beside: Column[Any]) -> tuple[Statement, list[Statement], list[Statement]]:
    """Of a table with many rows for a session: the first row beyond a batch, those before a row, all of them.

    `beside` are columns of other tables with the same values: their rows go first.
    """
    columns = [*beside, column]
    rows = [delete(each.table).where(*_of_session(each.table)) for each in columns]
    edge = bindparam("edge", type_=column.type)
    return (
        Statement(select(column).where(*_of_session(column.table)).order_by(column).limit(1).offset(_LIMIT)),
        [Statement(some.where(each < edge)) for some, each in zip(rows, columns, strict=True)],
        [Statement(rest.returning(each)) for rest, each in zip(rows, columns, strict=True)],
    )


_REMOVE_EVENT = Statement(delete(events).where(*_of_session(events), events.c.seq == bindparam("seq")))
_MANY = [_batch(events.c.seq, event_lookup_keys.c.seq), _batch(runs.c.run_id, run_events.c.run_id, interrupts.c.run_id)]
# The session itself last: while it is there, it is found again.
_FEW = [
    Statement(delete(table).where(*_of_session(table)))
    for table in (participants, session_counters, jobs, extractions, sessions)
]


def step(deleted_before: int | None, answered_before: int) -> Steps[bool]:
    """Remove some rows that were deleted, and answers that were kept, by these times. Returns whether to go on at once.

    Without `deleted_before`, what was deleted stays.
    """
    left = yield from _remove_answers(answered_before, ROWS)
    if deleted_before is not None:
        left = yield from _remove_spaces(deleted_before, left)
        left = yield from _remove_sessions(deleted_before, left)
        left = yield from _remove_events(deleted_before, left)
        left = yield from memory_removal.remove_deleted(deleted_before, left)
    return left <= 0


def remove_session(space_id: str, session_id: str, left: int) -> Steps[int]:
    """Remove a session for good, and everything of it. Returns how many more rows may go.

    0 or less says that it may not be done yet: call again.
    """
    at = {"space_id": space_id, "session_id": session_id}
    for beyond, some, rest in _MANY:
        edge = yield beyond, {**at, "limit": max(left, 0)}
        if edge:
            for statement in some:
                yield statement, {**at, "edge": edge[0][0]}
            return 0
        for statement in rest:
            left -= len((yield statement, at))
    for statement in _FEW:
        yield statement, at
    yield from search.remove(session_id)
    return left - 1


def remove_space(space_id: str, left: int) -> Steps[int]:
    """Remove a space that is deleted, and everything in it. Returns as `remove_session` does."""
    inside = yield _IN_SPACE, {"space_id": space_id, "limit": left}
    for (session_id,) in inside:
        left = yield from remove_session(space_id, session_id, left)
        if left <= 0:
            return left
    if inside:
        return 0
    left = yield from memory_removal.remove_of_space(space_id, left)
    if left <= 0:
        return left
    yield _REMOVE_SPACE, {"space_id": space_id}
    return left - 1


def _remove_spaces(before: int, left: int) -> Steps[int]:
    while left > 0:
        found = yield _SPACES, {"before": before, "limit": 1}
        if not found:
            break
        left = yield from remove_space(found[0][0], left)
    return left


def _remove_sessions(before: int, left: int) -> Steps[int]:
    for space_id, session_id in (yield _SESSIONS, {"before": before, "limit": max(left, 0)}):
        left = yield from remove_session(space_id, session_id, left)
        if left <= 0:
            break
    return left


def _remove_events(before: int, left: int) -> Steps[int]:
    found = yield _EVENTS, {"before": before, "limit": max(left, 0)}
    for space_id, session_id, seq in found:
        yield _REMOVE_EVENT, {"space_id": space_id, "session_id": session_id, "seq": seq}
    return left - len(found)


def _remove_answers(before: int, left: int) -> Steps[int]:
    found = yield _ANSWERS, {"before": before, "limit": left}
    for space_id, user_id, key in found:
        yield _REMOVE_ANSWER, {"space_id": space_id, "user_id": user_id, "idempotency_key": key}
    return left - len(found)
