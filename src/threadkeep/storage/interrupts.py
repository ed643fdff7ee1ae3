"""Interrupts in the database: statements and operations. Nothing here commits."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Case, and_, bindparam, case, literal_column, or_, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.interrupt import CANCELLED, OPEN, Interrupt, InterruptDraft
from threadkeep.domain.run import Run, RunKey
from threadkeep.storage import text
from threadkeep.storage.statement import InsertMany, Row, Statement, Steps
from threadkeep.storage.tables import interrupts

_NAMES = (
    "run_id",
    "interrupt_id",
    "place",
    "payload",
    "status",
    "expires_at",
    "created_at",
    "ended_at",
    "ended_by",
)
_COLUMNS = tuple(interrupts.c[name] for name in _NAMES)
_ODD_TEXT = ("run_id", "interrupt_id", "payload", "ended_by")
_OLDEST_FIRST = (interrupts.c.created_at, interrupts.c.run_id, interrupts.c.place)

_INSERT = InsertMany(interrupts, [column for column in interrupts.c if column.name not in ("ended_at", "ended_by")])
_OF_SESSION = and_(
    interrupts.c.space_id == bindparam("at_space"),
    interrupts.c.session_id == bindparam("at_session"),
)
_NAMED = and_(_OF_SESSION, interrupts.c.interrupt_id == bindparam("at_id"))
# As text, since the same name is bound to something else where a row is changed.
_IS_OPEN = interrupts.c.status == literal_column(f"'{OPEN}'")
_IS_PENDING = or_(_IS_OPEN, interrupts.c.status == literal_column(f"'{CANCELLED}'"))
_PENDING = Statement(
    select(*_COLUMNS)
    .where(
        _OF_SESSION,
        or_(and_(_IS_PENDING, interrupts.c.ended_by.is_(None)), interrupts.c.ended_by == bindparam("by_run")),
    )
    .order_by(*_OLDEST_FIRST)
)
_NEWEST = Statement(
    select(*_COLUMNS).where(_NAMED).order_by(interrupts.c.created_at.desc(), interrupts.c.run_id.desc()).limit(1)
)
_SETTLE = Statement(
    update(interrupts)
    .where(
        _NAMED,
        interrupts.c.run_id == bindparam("at_run"),
        interrupts.c.status == bindparam("seen_status"),
        interrupts.c.ended_by.is_(None),
    )
    .values(
        status=bindparam("new_status"),
        ended_at=bindparam("at", type_=BigInteger),
        ended_by=bindparam("by_run", type_=Text),
    )
    .returning(interrupts.c.run_id)
)
_CANCEL = Statement(
    update(interrupts)
    .where(_NAMED, _IS_OPEN)
    .values(status=literal_column(f"'{CANCELLED}'"), ended_at=bindparam("at", type_=BigInteger))
    .returning(interrupts.c.run_id)
)


def _if_by_the_run(then: Any, otherwise: Any) -> Case[Any]:
    """Whether the run has ended the interrupt, or was only to tell the agent that it had been cancelled before.

    By the time that `settle` gives it: one that has waited in line began before it was asked.
    """
    begun_at = bindparam("begun_at", type_=BigInteger)
    by_the_run = or_(interrupts.c.ended_at == begun_at, interrupts.c.ended_at == interrupts.c.created_at)
    return case((by_the_run, then), else_=otherwise)


_REOPEN = Statement(
    update(interrupts)
    .where(_OF_SESSION, interrupts.c.ended_by == bindparam("by_run"))
    .values(
        status=_if_by_the_run(literal_column(f"'{OPEN}'"), interrupts.c.status),
        ended_at=_if_by_the_run(None, interrupts.c.ended_at),
        ended_by=None,
    )
)
_PAGE = Statement(
    select(*_COLUMNS)
    .where(_OF_SESSION)
    .order_by(
        case(
            (
                and_(
                    _IS_OPEN,
                    or_(
                        interrupts.c.expires_at.is_(None),
                        interrupts.c.expires_at > bindparam("now", type_=BigInteger),
                    ),
                ),
                0,
            ),
            else_=1,
        ),
        interrupts.c.created_at.desc(),
        interrupts.c.run_id.desc(),
        interrupts.c.place,
    )
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)


def put(key: RunKey, drafts: Sequence[InterruptDraft], now: int) -> Steps[None]:
    """Keep what a run has ended with, as open. Of two with one id the first counts."""
    place_of: dict[str, tuple[int, InterruptDraft]] = {}
    for place, draft in enumerate(drafts):
        place_of.setdefault(draft.interrupt_id, (place, draft))
    if place_of:
        at = (key.space_id, key.session_id, text.encode(key.run_id))
        yield (
            _INSERT,
            [
                (*at, text.encode(name), place, text.encode(draft.payload), OPEN, draft.expires_at, now)
                for name, (place, draft) in place_of.items()
            ],
        )


def pending(key: RunKey, named: Collection[str] = ()) -> Steps[list[Interrupt]]:
    """What concerns a run, the oldest first: those of its thread of whose end the agent has not heard, and those that
    the run itself has ended; and the newest of each name.
    """
    at = {"at_space": key.space_id, "at_session": key.session_id}
    found = [_interrupt(row) for row in (yield _PENDING, {**at, "by_run": text.encode(key.run_id)})]
    for name in sorted({*named} - {each.interrupt_id for each in found}):
        rows = yield _NEWEST, {**at, "at_id": text.encode(name)}
        found += [_interrupt(row) for row in rows]
    return found


def settle(run: Run, interrupt: Interrupt, status: str) -> Steps[bool]:
    """Give a pending interrupt the status with which the run has begun. Returns False where it has another one now."""
    rows = yield (
        _SETTLE,
        {
            **_place(run),
            "at_id": text.encode(interrupt.interrupt_id),
            "at_run": text.encode(interrupt.run_id),
            "seen_status": interrupt.status,
            "new_status": status,
            "at": interrupt.ended_at or max(run.started_at, interrupt.created_at),
            "by_run": text.encode(run.run_id),
        },
    )
    return bool(rows)


def reopen(run: Run) -> Steps[None]:
    """Undo what the run has settled when it began."""
    yield _REOPEN, {**_place(run), "by_run": text.encode(run.run_id), "begun_at": run.started_at}


def cancel(space_id: str, session_id: str, interrupt_id: str, now: int) -> Steps[bool]:
    """Cancel what is open under an id. Returns whether anything was."""
    at = {"at_space": space_id, "at_session": session_id, "at_id": text.encode(interrupt_id), "at": now}
    return bool((yield _CANCEL, at))


def is_there(space_id: str, session_id: str, interrupt_id: str) -> Steps[bool]:
    """Whether the thread has had an interrupt of that id."""
    at = {"at_space": space_id, "at_session": session_id, "at_id": text.encode(interrupt_id)}
    return bool((yield _NEWEST, at))


def page(space_id: str, session_id: str, now: int, offset: int, limit: int) -> Steps[list[Interrupt]]:
    """The thread's interrupts, those that can be answered first, the newest first."""
    at = {"at_space": space_id, "at_session": session_id, "now": now, "offset": offset, "limit": limit}
    return [_interrupt(row) for row in (yield _PAGE, at)]


def _place(run: Run) -> dict[str, Any]:
    return {"at_space": run.space_id, "at_session": run.session_id}


def _interrupt(row: Row) -> Interrupt:
    values = dict(zip(_NAMES, row, strict=True))
    return Interrupt(**{**values, **{name: text.decode_optional(values[name]) for name in _ODD_TEXT}})
