"""The logs of runs: statements and operations. Nothing here commits.

A row is a group of events, and its first index is its key. Whoever writes has one group under way and names the index
behind the last one: so of two who believe that the run is theirs, one finds the index taken.
A row of no events keeps an index from an owner who has lost the run and may still have a group under way.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, literal_column, or_, select
from sqlalchemy.types import BigInteger, LargeBinary, Text

from threadkeep.domain import run as states
from threadkeep.domain import run_group
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import LeaseLost
from threadkeep.storage import text
from threadkeep.storage.statement import (
    InsertMany,
    Row,
    Statement,
    Steps,
    chunks,
    flat,
    insert_unless_taken,
    wanted_values,
)
from threadkeep.storage.tables import run_events, runs
from threadkeep.streams.run_log import LoggedEvent

ROW_BYTES = 64 * 1024
"""Bytes of events in a row while the run goes on; one that is larger has a row of its own."""
_PAGE_ROWS = 1_000

Group = tuple[str, str, str, str, int, int, int, bytes, int]
"""A row and who wants it written: space, session, run, owner, first index, count, size, payload, time."""
_WANTED = {
    "space": Text,
    "session": Text,
    "run": Text,
    "owner": Text,
    "first": BigInteger,
    "number": BigInteger,
    "size": BigInteger,
    "payload": LargeBinary,
    "at": BigInteger,
}
_COLUMNS = ("space_id", "session_id", "run_id", "first_index", "count", "size", "payload", "created_at")
# As text in the statement: the groups are bound by their order.
_OPEN = or_(
    runs.c.status == literal_column(f"'{states.ACTIVE}'"), runs.c.status == literal_column(f"'{states.QUEUED}'")
)
_OF_RUN = and_(
    run_events.c.space_id == bindparam("space_id", type_=Text),
    run_events.c.session_id == bindparam("session_id", type_=Text),
    run_events.c.run_id == bindparam("run_id", type_=Text),
)
_THE_RUN = and_(
    runs.c.space_id == bindparam("space_id", type_=Text),
    runs.c.session_id == bindparam("session_id", type_=Text),
    runs.c.run_id == bindparam("run_id", type_=Text),
)
_AFTER = bindparam("after", type_=BigInteger)
_INSERT = InsertMany(run_events, [run_events.c[name] for name in _COLUMNS])
_HOLD = Statement(
    select(runs.c.run_id).where(_THE_RUN, runs.c.owner == bindparam("owner", type_=Text), _OPEN).with_for_update()
)
_IS_OPEN = Statement(select(runs.c.run_id).where(_THE_RUN, _OPEN))
_LAST = Statement(
    select(run_events.c.first_index, run_events.c.count)
    .where(_OF_RUN)
    .order_by(run_events.c.first_index.desc())
    .limit(literal_column("1"))
)
# The row that holds the next event, and those behind it, until they are as large as is wanted.
_START = (
    select(func.max(run_events.c.first_index)).where(_OF_RUN, run_events.c.first_index <= _AFTER + 1).scalar_subquery()
)
_SIZES = (
    select(
        run_events.c.first_index,
        run_events.c.size,
        func.sum(run_events.c.size).over(order_by=run_events.c.first_index).label("up_to"),
    )
    .where(
        _OF_RUN,
        run_events.c.first_index >= _START,
        run_events.c.count > literal_column("0"),
        run_events.c.first_index + run_events.c.count > _AFTER + 1,
    )
    .order_by(run_events.c.first_index)
    .limit(literal_column(str(_PAGE_ROWS)))
    .subquery("sizes")
)
_PAGE = Statement(
    select(run_events.c.first_index, run_events.c.count, run_events.c.form, run_events.c.size, run_events.c.payload)
    .join(_SIZES, run_events.c.first_index == _SIZES.c.first_index)
    .where(_OF_RUN, _SIZES.c.up_to - _SIZES.c.size < bindparam("most", type_=BigInteger))
    .order_by(run_events.c.first_index)
)
_INSERT_FIRST = insert_unless_taken(run_events, run_events.c.first_index, "form")
_LIFT_BAR = Statement(
    delete(run_events).where(
        _OF_RUN,
        run_events.c.first_index == bindparam("first", type_=BigInteger),
        run_events.c.count == literal_column("0"),
    )
)


@cache
def _append(size: int) -> Statement:
    """Write so many groups, each if its run is held by who wants it written, and if nobody has its index."""
    wanted = wanted_values(size, _WANTED)
    held = (
        select(*(wanted.c[name] for name in _WANTED if name != "owner"))
        .join(
            runs,
            and_(
                runs.c.space_id == wanted.c.space,
                runs.c.session_id == wanted.c.session,
                runs.c.run_id == wanted.c.run,
                runs.c.owner == wanted.c.owner,
            ),
        )
        .where(_OPEN)
    )
    key = (run_events.c.space_id, run_events.c.session_id, run_events.c.run_id)
    return Statement(
        lambda insert: insert(run_events).from_select(_COLUMNS, held).on_conflict_do_nothing().returning(*key)
    )


def group_of(run: Run, first: int, events: Sequence[bytes], now: int) -> Group:
    """The row for these events."""
    payload = run_group.pack(events)
    return (*_place(run.key), text.encode(run.owner), first, len(events), len(payload), payload, now)


def append_groups(groups: Sequence[Group]) -> Steps[list[bool]]:
    """Write groups of different runs, those that may be. Returns for each whether it was written."""
    written: set[tuple[str, str, str]] = set()
    for chunk in chunks(groups):
        written.update([(row[0], row[1], row[2]) for row in (yield _append(len(chunk)), flat(chunk))])
    return [group[:3] in written for group in groups]


def append_alone(run: Run, first: int, events: Sequence[bytes], now: int) -> Steps[None]:
    """Write events, in as many rows as they need. Those that are there already are not written again.

    Raises LeaseLost where the owner does not hold the run, or others have written at these indexes.
    """
    if not (yield _HOLD, {**_key(run.key), "owner": text.encode(run.owner)}):
        raise lost(run)
    yield from put(run, first, events, now)


def put(run: Run, first: int, events: Sequence[bytes], now: int) -> Steps[None]:
    """Write events of a run that the caller's transaction holds. Raises LeaseLost where others have written there."""
    rows = _rows(run.key, first, events, now)
    if not rows:
        return
    if not (yield _INSERT_FIRST, dict(zip(_COLUMNS, rows[0], strict=True))):
        there = yield from _there(run, first, events)
        yield _LIFT_BAR, {**_key(run.key), "first": first + there}
        rows = [(), *_rows(run.key, first + there, events[there:], now)]
    if rows[1:]:
        yield _INSERT, rows[1:]


def _there(run: Run, first: int, events: Sequence[bytes]) -> Steps[int]:
    """How many of the events the log has already: an answer to whoever wrote them may have been lost."""
    there: list[bytes] = []
    while len(there) <= len(events):
        some = yield from page(run.key, first + len(there) - 1, ROW_BYTES)
        if not some:
            break
        there += [event.data for event in some]
    if there != [*events[: len(there)]]:
        raise lost(run)
    return len(there)


def _rows(key: RunKey, first: int, events: Sequence[bytes], now: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for group in run_group.cut(events, ROW_BYTES):
        payload = run_group.pack(group)
        rows.append((*_place(key), first, len(group), len(payload), payload, now))
        first += len(group)
    return rows


def bar(key: RunKey, now: int) -> Steps[None]:
    """Keep the next index from whoever had the run before: what they have under way is refused, or is there now."""
    rows = yield _LAST, _key(key)
    if rows and rows[0][1] == 0:
        return
    yield _INSERT, [(*_place(key), sum(rows[0]) if rows else 0, 0, 0, b"", now)]


def length(key: RunKey) -> Steps[int]:
    """How many events the log has."""
    rows = yield _LAST, _key(key)
    return sum(rows[0]) if rows else 0


def is_open(key: RunKey) -> Steps[bool]:
    """Whether the run is there and has not ended."""
    return bool((yield _IS_OPEN, _key(key)))


def page(key: RunKey, after: int, max_bytes: int) -> Steps[list[LoggedEvent]]:
    """The events behind an index, about `max_bytes` of them and at least one if there is any."""
    rows = yield _PAGE, {**_key(key), "after": after, "most": max_bytes}
    return [event for row in rows for event in _events(row) if event.index > after]


def _events(row: Row) -> list[LoggedEvent]:
    first, count, form, size, payload = row
    return [LoggedEvent(first + n, data) for n, data in enumerate(run_group.read(payload, form, count, size))]


def lost(run: Run) -> LeaseLost:
    return LeaseLost(f"The run {run.run_id!r} of session {run.session_id!r} is not held by {run.owner!r} any more")


def _place(key: RunKey) -> tuple[str, str, str]:
    return key.space_id, key.session_id, text.encode(key.run_id)


def _key(key: RunKey) -> dict[str, Any]:
    return {"space_id": key.space_id, "session_id": key.session_id, "run_id": text.encode(key.run_id)}
