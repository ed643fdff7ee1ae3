"""Runs in the database: statements and operations. Nothing here commits."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, bindparam, exists, func, literal_column, or_, select, tuple_, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import run as states
from threadkeep.domain.run import Run, RunKey
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
    "cancel_wanted_at",
)
_WHOLE = (*_NAMES, "input")
_COLUMNS = tuple(runs.c[name] for name in _NAMES)
_ODD_TEXT = ("run_id", "parent_run_id", "owner", "error", "input")

# As text, since the same names are bound to something else where a run is changed.
_IS_ACTIVE = runs.c.status == literal_column(f"'{states.ACTIVE}'")
_IS_QUEUED = runs.c.status == literal_column(f"'{states.QUEUED}'")
_OPEN = or_(_IS_ACTIVE, _IS_QUEUED)
_INSERT = insert_unless_taken(runs, runs.c.run_id, "compacted_at")
_OF_SESSION = and_(runs.c.space_id == bindparam("space_id"), runs.c.session_id == bindparam("session_id"))
_ACTIVE = Statement(
    select(*_COLUMNS).where(runs.c.space_id == bindparam("space_id"), runs.c.active_session == bindparam("session_id"))
)
_GET = Statement(select(*(runs.c[name] for name in _WHOLE)).where(_OF_SESSION, runs.c.run_id == bindparam("run_id")))
_IN_LINE = Statement(
    select(*_COLUMNS)
    .where(_OF_SESSION, _IS_QUEUED)
    .order_by(runs.c.started_at, runs.c.run_id)
    .limit(bindparam("limit"))
)
_PARENTS = Statement(
    select(runs.c.run_id, runs.c.parent_run_id).where(_OF_SESSION).order_by(runs.c.started_at, runs.c.run_id)
)
_HELD = and_(
    runs.c.space_id == bindparam("at_space"),
    runs.c.session_id == bindparam("at_session"),
    runs.c.run_id == bindparam("at_run"),
    runs.c.owner == bindparam("by_owner"),
    _OPEN,
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
    .where(_OPEN, runs.c.owner == bindparam("by_owner"))
    .values(lease_until=bindparam("until", type_=BigInteger))
    .returning(runs.c.space_id, runs.c.session_id, runs.c.run_id)
)
_LET_GO = Statement(update(runs).where(_HELD).values(lease_until=literal_column("0")))
_EXPIRED = Statement(
    select(*_COLUMNS)
    .where(_OPEN, runs.c.lease_until < bindparam("now", type_=BigInteger))
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
_others = runs.alias("others")
_PROMOTE = Statement(
    update(runs)
    .where(
        _HELD,
        _IS_QUEUED,
        ~exists().where(
            _others.c.space_id == bindparam("at_space"),
            _others.c.active_session == bindparam("at_session"),
        ),
        ~exists().where(
            _others.c.space_id == bindparam("at_space"),
            _others.c.session_id == bindparam("at_session"),
            _others.c.status == literal_column(f"'{states.QUEUED}'"),
            tuple_(_others.c.started_at, _others.c.run_id) < tuple_(runs.c.started_at, runs.c.run_id),
        ),
    )
    .values(status=literal_column(f"'{states.ACTIVE}'"), active_session=bindparam("new_active", type_=Text))
    .returning(runs.c.run_id)
)
_WANT_CANCEL = Statement(
    update(runs)
    .where(
        runs.c.space_id == bindparam("at_space"),
        runs.c.session_id == bindparam("at_session"),
        runs.c.run_id == bindparam("at_run"),
        _OPEN,
    )
    .values(cancel_wanted_at=func.coalesce(runs.c.cancel_wanted_at, bindparam("now", type_=BigInteger)))
    .returning(runs.c.owner)
)
_CANCELS_WANTED = Statement(
    select(runs.c.space_id, runs.c.session_id, runs.c.run_id).where(
        runs.c.owner == bindparam("by_owner"), runs.c.cancel_wanted_at.is_not(None), _OPEN
    )
)
_LIST = Statement(
    select(*_COLUMNS)
    .where(_OF_SESSION)
    .order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)


def begin(run: Run, *, queue: bool = False) -> Steps[tuple[Run, bool]]:
    """Insert the run as the active one of its session. Returns it and True, or the run in the way and False.

    That is the one of the same id, or an active one of the session. With `queue` an active one is not in the way: the
    run waits in line behind it, and behind those that wait already.
    """
    place = {"space_id": run.space_id, "session_id": run.session_id}
    queued = replace(run, status=states.QUEUED)
    while True:
        wanted = queued if queue and (yield _IN_LINE, {**place, "limit": 1}) else run
        if (yield from _insert(wanted)):
            return wanted, True
        rows = yield _GET, {**place, "run_id": text.encode(run.run_id)}
        if not rows:
            rows = yield _ACTIVE, place
            if rows and queue and (yield from _insert(queued)):
                return queued, True
        if rows:
            return _run(rows[0]), False
        # The run in the way ended between the two statements.


def _insert(run: Run) -> Steps[bool]:
    values = {name: getattr(run, name) for name in _WHOLE}
    values |= {name: text.encode_optional(values[name]) for name in _ODD_TEXT}
    active = run.session_id if run.status == states.ACTIVE else None
    return bool((yield _INSERT, {**values, "active_session": active}))


def get(key: RunKey) -> Steps[Run | None]:
    """The run, with its input."""
    at = {"space_id": key.space_id, "session_id": key.session_id, "run_id": text.encode(key.run_id)}
    rows = yield _GET, at
    return _run(rows[0]) if rows else None


def parents(space_id: str, session_id: str) -> Steps[list[tuple[str, str | None]]]:
    """The session's runs and what each names as its parent, in the order in which they began."""
    rows = yield _PARENTS, {"space_id": space_id, "session_id": session_id}
    return [(text.decode(run_id), text.decode_optional(parent)) for run_id, parent in rows]


def in_line(space_id: str, session_id: str, limit: int) -> Steps[list[Run]]:
    """The queued runs of a session, the first in line first."""
    rows = yield _IN_LINE, {"space_id": space_id, "session_id": session_id, "limit": limit}
    return [_run(row) for row in rows]


def promote(run: Run) -> Steps[bool]:
    """Make a queued run the active one, if it is the first in line and none is active. Returns whether it did."""
    return bool((yield _PROMOTE, {**_key(run.key, run.owner), "new_active": run.session_id}))


def want_cancel(key: RunKey, now: int) -> Steps[str | None]:
    """Note that somebody wants the run to end. Returns its owner, or None where it is not there or has ended."""
    at = {"at_space": key.space_id, "at_session": key.session_id, "at_run": text.encode(key.run_id), "now": now}
    rows = yield _WANT_CANCEL, at
    return text.decode(rows[0][0]) if rows else None


def cancels_wanted(owner: str) -> Steps[list[RunKey]]:
    """The runs of the owner that somebody wants to end."""
    rows = yield _CANCELS_WANTED, {"by_owner": text.encode(owner)}
    return [RunKey(space_id, session_id, text.decode(run_id)) for space_id, session_id, run_id in rows]


def end(run: Run, status: str, outcome: str | None, usage: str | None, error: str | None, now: int) -> Steps[bool]:
    """End the run, if its owner still holds it. Returns whether it did."""
    rows = yield (
        _END,
        {
            **_key(run.key, run.owner),
            "new_status": status,
            "new_outcome": outcome,
            "new_usage": usage,
            "new_error": text.encode_optional(error),
            "now": now,
        },
    )
    return bool(rows)


def renew(owner: str, until: int) -> Steps[set[RunKey]]:
    """Prolong the leases of all runs that the owner has. Returns which they are."""
    rows = yield _RENEW, {"by_owner": text.encode(owner), "until": until}
    return {RunKey(space_id, session_id, text.decode(run_id)) for space_id, session_id, run_id in rows}


def let_go(owner: str, keys: Collection[RunKey]) -> Steps[None]:
    """Let the leases of these runs have run out long ago, where they are the owner's and have not ended."""
    for key in keys:
        yield _LET_GO, _key(key, owner)


def expired(now: int, limit: int) -> Steps[list[Run]]:
    """Runs that have not ended and whose lease has run out, of all users."""
    rows = yield _EXPIRED, {"now": now, "limit": limit}
    return [_run(row) for row in rows]


def take_over(run: Run, owner: str, until: int) -> Steps[bool]:
    """Make `owner` the owner, if nothing has changed since `run` was read. Returns whether it did."""
    rows = yield (
        _TAKE_OVER,
        {**_key(run.key, run.owner), "seen": run.lease_until, "new_owner": text.encode(owner), "until": until},
    )
    return bool(rows)


def page(space_id: str, session_id: str, offset: int, limit: int) -> Steps[list[Run]]:
    """The runs of a session, newest first."""
    rows = yield _LIST, {"space_id": space_id, "session_id": session_id, "offset": offset, "limit": limit}
    return [_run(row) for row in rows]


def _key(key: RunKey, owner: str) -> dict[str, Any]:
    return {
        "at_space": key.space_id,
        "at_session": key.session_id,
        "at_run": text.encode(key.run_id),
        "by_owner": text.encode(owner),
    }


def _run(row: Row) -> Run:
    values = dict(zip(_WHOLE, row, strict=False))
    return Run(**{**values, **{name: text.decode_optional(values.get(name)) for name in _ODD_TEXT}})
