"""Runs in the database: statements and operations. Nothing here commits."""

from typing import Any

from sqlalchemy import and_, bindparam, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import run as states
from threadkeep.domain.run import Run
from threadkeep.storage import text
from threadkeep.storage.statement import Row, Statement, Steps, insert_unless_taken
from threadkeep.storage.tables import runs

_NAMES = (
    "space_id",
    "session_id",
    "run_id",
    "parent_run_id",
    "user_id",
    "tenant_id",
    "owner",
    "status",
    "outcome",
    "usage",
    "error",
    "started_at",
    "finished_at",
    "lease_until",
)
_COLUMNS = tuple(runs.c[name] for name in _NAMES)
_ODD_TEXT = ("run_id", "parent_run_id", "owner", "error")


_INSERT = insert_unless_taken(runs, runs.c.run_id)
_OF_SESSION = and_(runs.c.space_id == bindparam("space_id"), runs.c.session_id == bindparam("session_id"))
_ACTIVE = Statement(
    select(*_COLUMNS).where(runs.c.space_id == bindparam("space_id"), runs.c.active_session == bindparam("session_id"))
)
_GET = Statement(select(*_COLUMNS).where(_OF_SESSION, runs.c.run_id == bindparam("run_id")))
_HELD = and_(
    runs.c.space_id == bindparam("at_space"),
    runs.c.session_id == bindparam("at_session"),
    runs.c.run_id == bindparam("at_run"),
    runs.c.owner == bindparam("by_owner"),
    runs.c.status == states.ACTIVE,
)
_END = Statement(
    update(runs)
    .where(_HELD)
    .values(
        status=bindparam("new_status"),
        outcome=bindparam("new_outcome", type_=Text),
        usage=bindparam("new_usage", type_=Text),
        error=bindparam("new_error", type_=Text),
        finished_at=bindparam("now", type_=BigInteger),
        active_session=None,
    )
    .returning(runs.c.run_id)
)
_RENEW = Statement(
    update(runs)
    .where(runs.c.status == states.ACTIVE, runs.c.owner == bindparam("by_owner"))
    .values(lease_until=bindparam("until", type_=BigInteger))
)
_EXPIRED = Statement(
    select(*_COLUMNS)
    .where(runs.c.status == states.ACTIVE, runs.c.lease_until < bindparam("now", type_=BigInteger))
    .order_by(runs.c.lease_until)
    .limit(bindparam("limit"))
)
_TAKE_OVER = Statement(
    update(runs)
    .where(
        _HELD,
        runs.c.lease_until == bindparam("seen", type_=BigInteger),
    )
    .values(owner=bindparam("new_owner"), lease_until=bindparam("until", type_=BigInteger))
    .returning(runs.c.run_id)
)
_LIST = Statement(
    select(*_COLUMNS)
    .where(_OF_SESSION)
    .order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)


def begin(run: Run) -> Steps[Run | None]:
    """Insert the run as the active one of its session.

    Returns None, or the run in the way: an active one of that session, or an ended one of the same id.
    """
    place = {"space_id": run.space_id, "session_id": run.session_id}
    while True:
        values = {name: getattr(run, name) for name in _NAMES}
        values |= {name: text.encode_optional(values[name]) for name in _ODD_TEXT}
        inserted = yield _INSERT, {**values, "active_session": run.session_id}
        if inserted:
            return None
        rows = yield _GET, {**place, "run_id": text.encode(run.run_id)}
        if not rows:
            rows = yield _ACTIVE, place
        if rows:
            return _run(rows[0])
        # The run in the way ended between the two statements.


def end(run: Run, status: str, outcome: str | None, usage: str | None, error: str | None, now: int) -> Steps[bool]:
    """End the run, if its owner still holds it. Returns whether it did."""
    rows = yield (
        _END,
        {
            **_key(run),
            "new_status": status,
            "new_outcome": outcome,
            "new_usage": usage,
            "new_error": text.encode_optional(error),
            "now": now,
        },
    )
    return bool(rows)


def renew(owner: str, until: int) -> Steps[None]:
    """Prolong the leases of all runs that the owner carries out."""
    yield _RENEW, {"by_owner": text.encode(owner), "until": until}


def expired(now: int, limit: int) -> Steps[list[Run]]:
    """Active runs whose lease has run out, of all users."""
    rows = yield _EXPIRED, {"now": now, "limit": limit}
    return [_run(row) for row in rows]


def take_over(run: Run, owner: str, until: int) -> Steps[bool]:
    """Make `owner` the owner, if nothing has changed since `run` was read. Returns whether it did."""
    rows = yield (
        _TAKE_OVER,
        {**_key(run), "seen": run.lease_until, "new_owner": text.encode(owner), "until": until},
    )
    return bool(rows)


def page(space_id: str, session_id: str, offset: int, limit: int) -> Steps[list[Run]]:
    """The runs of a session, newest first."""
    rows = yield _LIST, {"space_id": space_id, "session_id": session_id, "offset": offset, "limit": limit}
    return [_run(row) for row in rows]


def _key(run: Run) -> dict[str, Any]:
    return {
        "at_space": run.space_id,
        "at_session": run.session_id,
        "at_run": text.encode(run.run_id),
        "by_owner": text.encode(run.owner),
    }


def _run(row: Row) -> Run:
    values = dict(zip(_NAMES, row, strict=True))
    return Run(**{**values, **{name: text.decode_optional(values[name]) for name in _ODD_TEXT}})
