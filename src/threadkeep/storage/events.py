"""Events in the database, but for their appending: statements and operations. Nothing here commits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import limits
from threadkeep.domain.event import Event, EventChange
from threadkeep.storage import lookup_keys, text, token_counts
from threadkeep.storage.lookup_keys import Held, TooMany
from threadkeep.storage.statement import Row, Statement, Steps
from threadkeep.storage.tables import events, session_counters, spaces

EVENT_COLUMNS = (
    events.c.seq,
    events.c.body,
    events.c.type,
    events.c.emitter_type,
    events.c.emitter_id,
    events.c.updated_at,
    events.c.deduplication_key,
    events.c.lookup_keys,
)
_EMITTER_TYPE = 3
"""Where EVENT_COLUMNS has it."""
_NUMBER_OF, _TYPE_OF, _EMITTER_ID_OF, _KEY_OF = itemgetter(0), itemgetter(2), itemgetter(4), itemgetter(6)
_LIVE = and_(
    events.c.space_id == bindparam("space_id"),
    events.c.session_id == bindparam("session_id"),
    events.c.deleted_at.is_(None),
)
_TYPE = bindparam("type", type_=Text)
_COUNT_OF_TYPE = Statement(select(func.count()).select_from(events).where(_LIVE, events.c.type == _TYPE))
_OFFSET_PAGE = Statement(
    select(*EVENT_COLUMNS)
    .where(_LIVE, or_(_TYPE.is_(None), events.c.type == _TYPE))
    .order_by(events.c.seq)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
# What was appended since the count has a greater number than `last`, and would shift the page.
_OFFSET_PAGE_FROM_END = Statement(
    select(*EVENT_COLUMNS)
    .where(_LIVE, or_(_TYPE.is_(None), events.c.type == _TYPE), events.c.seq <= bindparam("last", type_=BigInteger))
    .order_by(events.c.seq.desc())
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)


@cache
def _window(of_type: bool, backwards: bool) -> Statement:
    """Events after a number, or before one downwards, and what the session row says, in one statement.

    The row of the session has no emitter's type, which every event has; it is missing where there is no such session.
    """
    inner = select(*EVENT_COLUMNS).where(_LIVE).limit(bindparam("limit"))
    if of_type:
        inner = inner.where(events.c.type == _TYPE)
    if backwards:
        inner = inner.where(events.c.seq < bindparam("edge", type_=BigInteger)).order_by(events.c.seq.desc())
    else:
        inner = inner.where(events.c.seq > bindparam("edge", type_=BigInteger)).order_by(events.c.seq)
    window = inner.subquery("page")
    no_text = cast(null(), Text)
    session = (
        select(
            session_counters.c.last_seq,
            no_text,
            session_counters.c.sole_type,
            no_text,
            no_text,
            session_counters.c.event_count,
            no_text,
            no_text,
        )
        .join(spaces, spaces.c.space_id == session_counters.c.space_id)
        .where(
            session_counters.c.space_id == bindparam("space_id"),
            session_counters.c.session_id == bindparam("session_id"),
            spaces.c.user_id == bindparam("user_id"),
            spaces.c.deleted_at.is_(None),
        )
    )
    return Statement(union_all(session, select(*window.c)))


def page(
    space_id: str, session_id: str, user_id: str, event_type: str | None, offset: int, limit: int
) -> Steps[tuple[list[Event], int] | None]:
    """A page in sequence order, and the number of all that match. None where there is no such session."""
    at = _at(space_id, session_id, event_type)
    rows = yield _window(False, False), {**at, "user_id": user_id, "edge": offset, "limit": limit}
    facts, found = _split(rows)
    if facts is None:
        return None
    count, last_seq, sole_type = facts
    alike = event_type is None or _is_sole(event_type, sole_type)
    if alike and count == last_seq:
        # All events match and none was deleted: a number is a position, and the key leads straight there.
        return found, count
    if not alike:
        ((count,),) = yield _COUNT_OF_TYPE, at
    if offset >= count:
        return [], count
    if offset <= count // 2:
        rows = yield _OFFSET_PAGE, {**at, "offset": offset, "limit": limit}
        return [to_event(row) for row in rows], count
    # Numbers have gaps and are no positions: a walk it is, and from the nearer end.
    beyond = max(count - offset - limit, 0)
    rows = yield (
        _OFFSET_PAGE_FROM_END,
        {**at, "last": last_seq, "offset": beyond, "limit": min(limit, count - offset)},
    )
    return [to_event(row) for row in reversed(rows)], count


def page_after(
    space_id: str, session_id: str, user_id: str, event_type: str | None, after: int, limit: int
) -> Steps[tuple[list[Event], int] | None]:
    """The first events with greater numbers, and the number of all that match. None where there is no such session."""
    return (yield from _beside(space_id, session_id, user_id, event_type, after, limit, backwards=False))


def rows_after(
    space_id: str, session_id: str, user_id: str, event_type: str | None, after: int, limit: int
) -> Steps[list[Row] | None]:
    """As `page_after`, for `to_events`. Nothing is counted, which would be a walk where types are mixed."""
    values = {**_at(space_id, session_id, event_type), "user_id": user_id, "edge": after, "limit": limit}
    rows = yield _window(event_type is not None, False), values
    return None if _take_facts(rows) is None else rows


def page_back(
    space_id: str, session_id: str, user_id: str, event_type: str | None, before: int | None, limit: int
) -> Steps[tuple[list[Event], int] | None]:
    """The newest events below `before`, in sequence order, and the number of all that match."""
    edge = limits.INTEGER if before is None else before
    return (yield from _beside(space_id, session_id, user_id, event_type, edge, limit, backwards=True))


_LAST_BEFORE = Statement(
    select(events.c.seq)
    .where(_LIVE, events.c.created_at < bindparam("at", type_=BigInteger))
    .order_by(events.c.seq.desc())
    .limit(1)
)


def last_before(space_id: str, session_id: str, at: int) -> Steps[int]:
    """The number of the last event that was appended before a time; 0 where there is none.

    Costs a step for each event since then.
    """
    rows = yield _LAST_BEFORE, {"space_id": space_id, "session_id": session_id, "at": at}
    return rows[0][0] if rows else 0


def _beside(
    space_id: str, session_id: str, user_id: str, event_type: str | None, edge: int, limit: int, *, backwards: bool
) -> Steps[tuple[list[Event], int] | None]:
    at = _at(space_id, session_id, event_type)
    values = {**at, "user_id": user_id, "edge": edge, "limit": limit}
    rows = yield _window(event_type is not None, backwards), values
    facts, found = _split(rows)
    if facts is None:
        return None
    count, _, sole_type = facts
    if event_type is not None and not _is_sole(event_type, sole_type):
        ((count,),) = yield _COUNT_OF_TYPE, at
    return found, count


def _is_sole(event_type: str, sole_type: str | None) -> bool:
    """Whether all events of the session are known to be of that type. No event is of the type '', which means none."""
    return event_type != "" and sole_type == text.encode(event_type)


_IS_OPEN = (
    select(literal_column("1"))
    .select_from(session_counters.join(spaces, spaces.c.space_id == session_counters.c.space_id))
    .where(
        session_counters.c.space_id == events.c.space_id,
        session_counters.c.session_id == events.c.session_id,
        spaces.c.user_id == bindparam("user_id"),
        spaces.c.deleted_at.is_(None),
    )
    .exists()
)
_TOKEN = bindparam("token", type_=BigInteger)
_NOW = bindparam("now", type_=BigInteger)
_THIS = and_(
    events.c.space_id == bindparam("at_space"),
    events.c.session_id == bindparam("at_session"),
    events.c.seq == bindparam("at_number"),
    events.c.deleted_at.is_(None),
    _IS_OPEN,
)
_NEW_EMITTER = bindparam("new_emitter_type", type_=Text)
# Where each append makes the lifecycle look, its tokens may be counted: see token_counts.
_IS_COUNTED = (
    select(session_counters.c.wake_count == literal_column("1"))
    .where(session_counters.c.space_id == events.c.space_id, session_counters.c.session_id == events.c.session_id)
    .scalar_subquery()
)
_PATCH = Statement(
    update(events)
    .where(_THIS, or_(_TOKEN.is_(None), events.c.updated_at == _TOKEN))
    .values(
        body=func.coalesce(bindparam("new_body", type_=Text), events.c.body),
        type=func.coalesce(bindparam("new_type", type_=Text), events.c.type),
        emitter_type=func.coalesce(_NEW_EMITTER, events.c.emitter_type),
        emitter_id=case((_NEW_EMITTER.is_(None), events.c.emitter_id), else_=bindparam("new_emitter_id", type_=Text)),
        # Strictly later, even where the clock stands still or was put back.
        updated_at=case((events.c.updated_at >= _NOW, events.c.updated_at + 1), else_=_NOW),
    )
    .returning(*EVENT_COLUMNS, _IS_COUNTED)
)
_TOKEN_OF = Statement(select(events.c.updated_at).where(_THIS))
_DELETE = Statement(
    update(events)
    .where(_THIS)
    .values(deleted_at=_NOW, deduplication_key=null())
    .returning(_IS_COUNTED, events.c.lookup_keys)
)
_MIX_TYPES = Statement(
    update(session_counters)
    .where(
        session_counters.c.space_id == bindparam("at_space"),
        session_counters.c.session_id == bindparam("at_session"),
        session_counters.c.sole_type != _TYPE,
    )
    .values(sole_type=null())
)
_COUNT_DOWN = Statement(
    update(session_counters)
    .where(
        session_counters.c.space_id == bindparam("at_space"), session_counters.c.session_id == bindparam("at_session")
    )
    .values(event_count=session_counters.c.event_count - 1)
)


@dataclass(frozen=True, slots=True)
class Stale:
    """The event was changed after the caller read it; `token` is the stored one."""

    sequence_id: int
    token: int


@dataclass(frozen=True, slots=True)
class NoKeys:
    """The event `index` of the changes cannot have the lookup keys, and why."""

    index: int
    reason: Held | TooMany


def patch(
    space_id: str, session_id: str, user_id: str, changes: Sequence[EventChange], now: int
) -> Steps[list[Event] | Stale | NoKeys | int]:
    """Apply all changes. Where one can't be: says which is stale or can't have its keys, or which is not there."""
    made: list[Event] = []
    for index, change in enumerate(changes):
        at: dict[str, Any] = {
            "at_space": space_id,
            "at_session": session_id,
            "at_number": change.sequence_id,
            "user_id": user_id,
        }
        rows = yield (
            _PATCH,
            {
                **at,
                "token": change.token,
                "now": now,
                "new_body": change.body,
                "new_type": text.encode_optional(change.type),
                "new_emitter_type": change.emitter_type,
                "new_emitter_id": text.encode_optional(change.emitter_id),
            },
        )
        if not rows:
            stored = yield _TOKEN_OF, at
            return Stale(change.sequence_id, stored[0][0]) if stored else change.sequence_id
        *row, is_counted = rows[0]
        event = to_event(row)
        made.append(event)
        if change.lookup_keys or (change.type is not None and event.lookup_keys is not None):
            kept = yield from lookup_keys.add(
                *(space_id, session_id, user_id, event.sequence_id, event.type),
                *(event.lookup_keys, change.lookup_keys),
                retyped=change.type is not None,
            )
            if isinstance(kept, Held | TooMany):
                return NoKeys(index, kept)
            event.lookup_keys = kept
        if is_counted and change.body is not None:
            yield from token_counts.edited(space_id, session_id, change.sequence_id, now)
        if change.type is not None:
            yield _MIX_TYPES, {"at_space": space_id, "at_session": session_id, "type": text.encode(change.type)}
    return made


def delete(space_id: str, session_id: str, user_id: str, sequence_id: int, now: int) -> Steps[bool]:
    """Soft-delete the event; its number is never given out again, its keys are free. Returns whether it was there."""
    at = {"at_space": space_id, "at_session": session_id}
    rows = yield _DELETE, {**at, "at_number": sequence_id, "user_id": user_id, "now": now}
    if rows:
        yield _COUNT_DOWN, at
    if rows and rows[0][0]:
        yield from token_counts.edited(space_id, session_id, sequence_id, now)
    if rows and rows[0][1] is not None:
        yield from lookup_keys.forget(space_id, session_id, sequence_id)
    return bool(rows)


def to_event(row: Row) -> Event:
    """An event from the columns of EVENT_COLUMNS."""
    seq, body, type_, emitter_type, emitter_id, updated_at, key, lookup_keys = row
    type_, emitter_id, key = text.decode_optional(type_), text.decode_optional(emitter_id), text.decode_optional(key)
    return Event(seq, body, type_, emitter_type, emitter_id, updated_at, key, lookup_keys)


def _at(space_id: str, session_id: str, event_type: str | None) -> dict[str, Any]:
    return {"space_id": space_id, "session_id": session_id, "type": text.encode_optional(event_type)}


def to_events(rows: list[Row]) -> list[Event]:
    """Events from the columns of EVENT_COLUMNS."""
    return list(starmap(Event, rows)) if _are_plain(rows) else list(map(to_event, rows))


def _split(rows: list[Row]) -> tuple[tuple[int, int, str | None] | None, list[Event]]:
    """What the session says, as `_take_facts` has it, and the events in order."""
    facts = _take_facts(rows)
    return facts, [] if facts is None else to_events(rows)


def _take_facts(rows: list[Row]) -> tuple[int, int, str | None] | None:
    """Take the row of the session out (the number of its events, its last number, their one type); sort the others."""
    at = next((index for index, row in enumerate(rows) if row[_EMITTER_TYPE] is None), None)
    if at is None:
        return None
    last_seq, _, sole_type, _, _, count, _, _ = rows.pop(at)
    rows.sort(key=_NUMBER_OF)
    return count, last_seq, sole_type


def _are_plain(rows: list[Row]) -> bool:
    """Whether what is kept of them is the text that came, as it nearly always is: then nothing is to be decoded."""
    kept = {*map(_TYPE_OF, rows), *map(_EMITTER_ID_OF, rows), *map(_KEY_OF, rows)}
    return all(each is None or each.isascii() for each in kept)
