"""Events in the database: statements and operations. Nothing here commits.

Appends come in groups (`append_group`): many callers share a transaction, and each still gets its own answer.
The session row is where the numbers come from: one UPDATE locks it, counts and hands out a range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import EllipsisType
from typing import Any

from sqlalchemy import (
    Column,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    null,
    or_,
    select,
    union_all,
    update,
    values,
)
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import limits
from threadkeep.domain.event import Event, EventChange, EventDraft
from threadkeep.storage import text
from threadkeep.storage.statement import InsertMany, Row, Statement, Steps, chunks, flat
from threadkeep.storage.tables import events, sessions, spaces

EVENT_COLUMNS = (
    events.c.seq,
    events.c.body,
    events.c.type,
    events.c.emitter_type,
    events.c.emitter_id,
    events.c.updated_at,
)
_INSERTED: tuple[Column[Any], ...] = (
    events.c.space_id,
    events.c.session_id,
    events.c.seq,
    events.c.type,
    events.c.emitter_type,
    events.c.emitter_id,
    events.c.body,
    events.c.created_at,
    events.c.updated_at,
)


_INSERT = InsertMany(events, _INSERTED)


@dataclass(slots=True)
class Append:
    """One caller's wish: these events at the end of that session."""

    space_id: str
    session_id: str
    user_id: str
    drafts: Sequence[EventDraft]
    now: int
    size: int
    """Bytes, roughly: what a group is bounded by."""


@cache
def _advance(size: int) -> Statement:
    """Take ranges of numbers for `size` sessions at once: locks the rows and counts."""
    names = {"space": Text, "session": Text, "owner": Text, "n": BigInteger, "at": BigInteger, "type": Text}
    wanted = (
        values(*(column(name, type_) for name, type_ in names.items()), name="wanted_values")
        .data([tuple(bindparam(f"{name}_{row}", type_=type_) for name, type_ in names.items()) for row in range(size)])
        .cte("wanted")
    )
    space_is_theirs = (
        select(literal_column("1"))
        .select_from(spaces)
        .where(
            spaces.c.space_id == wanted.c.space,
            spaces.c.user_id == wanted.c.owner,
            spaces.c.deleted_at.is_(None),
        )
        .exists()
    )
    return Statement(
        update(sessions)
        .where(
            sessions.c.space_id == wanted.c.space,
            sessions.c.session_id == wanted.c.session,
            sessions.c.deleted_at.is_(None),
            space_is_theirs,
        )
        .values(
            last_seq=sessions.c.last_seq + wanted.c.n,
            event_count=sessions.c.event_count + wanted.c.n,
            last_activity_at=wanted.c.at,
            sole_type=case(
                (or_(sessions.c.last_seq == literal_column("0"), sessions.c.sole_type == wanted.c.type), wanted.c.type),
                else_=null(),
            ),
        )
        .returning(sessions.c.space_id, sessions.c.session_id, sessions.c.last_seq)
    )


def append_group(wishes: Sequence[Append]) -> Steps[list[list[Event] | None]]:
    """Append for many callers at once. A caller whose session is not there gets None, and disturbs nobody."""
    user_of: dict[tuple[str, str], str] = {}
    counts: dict[tuple[str, str], int] = {}
    types: dict[tuple[str, str], str | None] = {}
    strangers: list[int] = []
    for index, wish in enumerate(wishes):
        place = (wish.space_id, wish.session_id)
        if user_of.setdefault(place, wish.user_id) != wish.user_id:
            strangers.append(index)
        else:
            counts[place] = counts.get(place, 0) + len(wish.drafts)
            types[place] = _sole_type(wish.drafts, types.get(place, ...))
    now = max(wish.now for wish in wishes)
    # Sorted, so that two processes take the row locks in one order.
    wanted = [(*place, user_of[place], n, now, types[place]) for place, n in sorted(counts.items())]
    next_number: dict[tuple[str, str], int] = {}
    for chunk in chunks(wanted):
        for space_id, session_id, last in (yield _advance(len(chunk)), flat(chunk)):
            next_number[space_id, session_id] = last - counts[space_id, session_id] + 1
    answers: list[list[Event] | None] = []
    rows: list[tuple[Any, ...]] = []
    for wish in wishes:
        place = (wish.space_id, wish.session_id)
        first = next_number.get(place)
        if first is None or user_of[place] != wish.user_id:
            answers.append(None)
            continue
        next_number[place] = first + len(wish.drafts)
        made = [
            Event(first + n, draft.body, draft.type, draft.emitter_type, draft.emitter_id, now)
            for n, draft in enumerate(wish.drafts)
        ]
        rows += [_row(wish, event) for event in made]
        answers.append(made)
    if rows:
        yield _INSERT, rows
    if strangers:
        # Two users name one session in one group: one of them has it, and which one only the database knows.
        for index, answer in zip(strangers, (yield from append_group([wishes[n] for n in strangers])), strict=True):
            answers[index] = answer
    return answers


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


@cache
def _window(of_type: bool, backwards: bool) -> Statement:
    """Events after a number, or before one downwards, and what the session row says, in one statement.

    The row of the session has 0 in front and is missing where there is no such session; those of events have 1.
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
            literal_column("0"),
            sessions.c.event_count,
            no_text,
            sessions.c.sole_type,
            no_text,
            no_text,
            sessions.c.last_seq,
        )
        .join(spaces, spaces.c.space_id == sessions.c.space_id)
        .where(
            sessions.c.space_id == bindparam("space_id"),
            sessions.c.session_id == bindparam("session_id"),
            sessions.c.deleted_at.is_(None),
            spaces.c.user_id == bindparam("user_id"),
            spaces.c.deleted_at.is_(None),
        )
    )
    return Statement(union_all(session, select(literal_column("1"), *window.c)))


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
    alike = event_type is None or sole_type == at["type"]
    if alike and count == last_seq:
        # All events match and none was deleted: a number is a position, and the key leads straight there.
        return found, count
    if not alike:
        ((count,),) = yield _COUNT_OF_TYPE, at
    rows = yield _OFFSET_PAGE, {**at, "offset": offset, "limit": limit}
    return [to_event(row) for row in rows], count


def page_back(
    space_id: str, session_id: str, user_id: str, event_type: str | None, before: int | None, limit: int
) -> Steps[tuple[list[Event], int] | None]:
    """The newest events below `before`, in sequence order, and the number of all that match."""
    at = _at(space_id, session_id, event_type)
    edge = limits.INTEGER if before is None else before
    rows = yield _window(event_type is not None, True), {**at, "user_id": user_id, "edge": edge, "limit": limit}
    facts, found = _split(rows)
    if facts is None:
        return None
    count, _, sole_type = facts
    if event_type is not None and sole_type != at["type"]:
        ((count,),) = yield _COUNT_OF_TYPE, at
    return found, count


def after(
    space_id: str, session_id: str, user_id: str, event_type: str | None, number: int, limit: int
) -> Steps[list[Event] | None]:
    """The events after a number, in sequence order. None where there is no such session."""
    at = _at(space_id, session_id, event_type)
    rows = yield _window(event_type is not None, False), {**at, "user_id": user_id, "edge": number, "limit": limit}
    facts, found = _split(rows)
    return None if facts is None else found


_IS_OPEN = (
    select(literal_column("1"))
    .select_from(sessions.join(spaces, spaces.c.space_id == sessions.c.space_id))
    .where(
        sessions.c.space_id == events.c.space_id,
        sessions.c.session_id == events.c.session_id,
        sessions.c.deleted_at.is_(None),
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
    .returning(*EVENT_COLUMNS)
)
_TOKEN_OF = Statement(select(events.c.updated_at).where(_THIS))
_DELETE = Statement(update(events).where(_THIS).values(deleted_at=_NOW).returning(events.c.seq))
_MIX_TYPES = Statement(
    update(sessions)
    .where(
        sessions.c.space_id == bindparam("at_space"),
        sessions.c.session_id == bindparam("at_session"),
        sessions.c.sole_type != _TYPE,
    )
    .values(sole_type=null())
)
_COUNT_DOWN = Statement(
    update(sessions)
    .where(sessions.c.space_id == bindparam("at_space"), sessions.c.session_id == bindparam("at_session"))
    .values(event_count=sessions.c.event_count - 1)
)


@dataclass(frozen=True, slots=True)
class Stale:
    """The event was changed after the caller read it; `token` is the stored one."""

    sequence_id: int
    token: int


def patch(
    space_id: str, session_id: str, user_id: str, changes: Sequence[EventChange], now: int
) -> Steps[list[Event] | Stale | int]:
    """Apply all changes. Where one can't be: says which is stale, or the number that is not there."""
    made: list[Event] = []
    for change in changes:
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
        made.append(to_event(rows[0]))
        if change.type is not None:
            yield _MIX_TYPES, {"at_space": space_id, "at_session": session_id, "type": text.encode(change.type)}
    return made


def delete(space_id: str, session_id: str, user_id: str, sequence_id: int, now: int) -> Steps[bool]:
    """Soft-delete the event; its number is never given out again. Returns whether it was there."""
    at = {"at_space": space_id, "at_session": session_id}
    rows = yield _DELETE, {**at, "at_number": sequence_id, "user_id": user_id, "now": now}
    if rows:
        yield _COUNT_DOWN, at
    return bool(rows)


def to_event(row: Row) -> Event:
    """An event from the columns of EVENT_COLUMNS."""
    seq, body, type_, emitter_type, emitter_id, updated_at = row
    return Event(seq, body, text.decode_optional(type_), emitter_type, text.decode_optional(emitter_id), updated_at)


def _at(space_id: str, session_id: str, event_type: str | None) -> dict[str, Any]:
    return {"space_id": space_id, "session_id": session_id, "type": text.encode_optional(event_type)}


def _split(rows: list[Row]) -> tuple[tuple[int, int, str | None] | None, list[Event]]:
    """What the session says (the number of its events, its last number, their one type), and the events in order."""
    at = next((index for index, row in enumerate(rows) if not row[0]), None)
    if at is None:
        return None, []
    _, count, _, sole_type, _, _, last_seq = rows.pop(at)
    texts = _Texts()
    found = [
        Event(seq, body, texts[type_], emitter_type, texts[emitter_id], updated_at)
        for _, seq, body, type_, emitter_type, emitter_id, updated_at in rows
    ]
    found.sort(key=attrgetter("sequence_id"))
    return (count, last_seq, sole_type), found


class _Texts(dict[str | None, str | None]):
    """Texts by what is kept of them. Types and emitters are few and come again and again."""

    def __missing__(self, kept: str | None) -> str | None:
        self[kept] = found = text.decode_optional(kept)
        return found


def _sole_type(drafts: Sequence[EventDraft], known: str | EllipsisType | None) -> str | None:
    """The one type of the drafts and of what is known before them ('' is none), or None where they differ."""
    first = text.encode(drafts[0].type or "")
    if known not in (..., first) or any(draft.type != drafts[0].type for draft in drafts):
        return None
    return first


def _row(wish: Append, event: Event) -> tuple[Any, ...]:
    type_, emitter = event.type, event.emitter_id
    return (
        wish.space_id,
        wish.session_id,
        event.sequence_id,
        None if type_ is None else text.encode(type_),
        event.emitter_type,
        None if emitter is None else text.encode(emitter),
        event.body,
        event.created_at,
        event.created_at,
    )
