"""Sessions in the database: statements and operations. Nothing here commits."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import lifecycle
from threadkeep.domain.event import Event
from threadkeep.domain.session import Session, SessionChange, Unset
from threadkeep.storage import text
from threadkeep.storage.events import EVENT_COLUMNS, to_event
from threadkeep.storage.statement import Contains, Row, Statement, Steps, insert_unless_taken, like_pattern
from threadkeep.storage.tables import events, participants, runs, sessions, spaces

_COLUMNS = (
    sessions.c.space_id,
    sessions.c.session_id,
    sessions.c.participants,
    sessions.c.description,
    sessions.c.metadata,
    sessions.c.strategies,
    sessions.c.version,
    sessions.c.deduplication_key,
    sessions.c.created_at,
)
_SPACE_IS_MINE = (
    select(literal_column("1"))
    .select_from(spaces)
    .where(
        spaces.c.space_id == sessions.c.space_id,
        spaces.c.user_id == bindparam("user_id"),
        spaces.c.deleted_at.is_(None),
    )
    .exists()
)
_LIVE = and_(sessions.c.space_id == bindparam("space_id"), sessions.c.deleted_at.is_(None))
_THIS = and_(_LIVE, sessions.c.session_id == bindparam("session_id"), _SPACE_IS_MINE)


_SPACE = and_(
    spaces.c.space_id == bindparam("space_id"),
    spaces.c.user_id == bindparam("user_id"),
    spaces.c.deleted_at.is_(None),
)
_OPEN_SPACE = Statement(select(spaces.c.space_id).where(_SPACE))
_INSERT = insert_unless_taken(sessions, sessions.c.session_id, "deleted_at")
_INSERT_PARTICIPANT = Statement(insert(participants))
_BY_KEY = Statement(select(sessions.c.session_id).where(_LIVE, sessions.c.live_key == bindparam("key")))
_GET = Statement(select(*_COLUMNS).where(_THIS))
_NEW = {name: bindparam(f"new_{name}", type_=Text) for name in ("description", "description_folded", "metadata")}
# An UPDATE has the names of its columns for what it sets.
_AT = and_(
    sessions.c.space_id == bindparam("at_space"),
    sessions.c.session_id == bindparam("at_session"),
    sessions.c.deleted_at.is_(None),
    _SPACE_IS_MINE,
)
_PATCH = Statement(
    update(sessions)
    .where(
        _AT,
        case(
            (bindparam("expected", type_=BigInteger).is_(None), literal(1)),
            (sessions.c.version == bindparam("expected", type_=BigInteger), literal(1)),
            else_=literal(0),
        )
        == 1,
    )
    .values(
        version=sessions.c.version + 1,
        description=case((bindparam("has_description") == 1, _NEW["description"]), else_=sessions.c.description),
        description_folded=case(
            (bindparam("has_description") == 1, _NEW["description_folded"]), else_=sessions.c.description_folded
        ),
        metadata=case((bindparam("has_metadata") == 1, _NEW["metadata"]), else_=sessions.c.metadata),
        strategies=func.coalesce(bindparam("new_strategies", type_=Text), sessions.c.strategies),
    )
    .returning(*_COLUMNS)
)
_DELETE = Statement(
    update(sessions).where(_AT).values(deleted_at=bindparam("now"), live_key=None).returning(sessions.c.session_id)
)


def create(session: Session, user_id: str) -> Steps[tuple[bool, str | None]]:
    """Insert the session.

    Returns whether the user has the space, and the id of the live session that has the key, if one has it.
    """
    if not (yield _OPEN_SPACE, {"space_id": session.space_id, "user_id": user_id}):
        return False, None
    key = text.encode_optional(session.deduplication_key)
    while True:
        inserted = yield _INSERT, _values(session, key)
        if inserted:
            break
        existing = yield _BY_KEY, {"space_id": session.space_id, "key": key}
        if existing:
            return True, str(existing[0][0])
        # The holder of the key was deleted between the two statements: the key is free now.
    for participant in dict.fromkeys(session.participants):
        yield (
            _INSERT_PARTICIPANT,
            {
                "space_id": session.space_id,
                "participant": text.encode(participant),
                "session_id": session.id,
            },
        )
    return True, None


def get(space_id: str, session_id: str, user_id: str) -> Steps[Session | None]:
    rows = yield _GET, {"space_id": space_id, "session_id": session_id, "user_id": user_id}
    return _session(rows[0]) if rows else None


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list of sessions is narrowed by; None is not asked for."""

    participants: tuple[str, ...] = ()
    needle: str | None = None
    key: str | None = None


def page(
    space_id: str, user_id: str, filters: Filters, offset: int, limit: int
) -> Steps[tuple[list[Session], int] | None]:
    """A page of the live sessions, oldest first, and the number of all that match. None: no such space."""
    count, rows_of = _list_statements(len(filters.participants), filters.needle is not None, filters.key is not None)
    values: dict[str, Any] = {"space_id": space_id, "user_id": user_id, "limit": limit, "offset": offset}
    values |= {f"participant_{n}": text.encode(name) for n, name in enumerate(filters.participants)}
    if filters.needle is not None:
        values |= _needle_values(filters.needle)
    if filters.key is not None:
        values["key"] = text.encode(filters.key)
    counted = yield count, values
    if not counted:
        return None
    ((total,),) = counted
    rows = yield rows_of, values
    return [_session(row) for row in rows], total


_lists: dict[tuple[int, bool, bool], tuple[Statement, Statement]] = {}


def _list_statements(participant_count: int, by_needle: bool, by_key: bool) -> tuple[Statement, Statement]:
    """The count and the page for one combination of filters, compiled once."""
    found = _lists.get((participant_count, by_needle, by_key))
    if found is None:
        conditions: list[ColumnElement[bool]] = [_LIVE]
        order: Column[Any] = sessions.c.session_id
        if participant_count == 1:
            # The key of participants is in the order of the list already.
            order = participants.c.session_id
            conditions += [
                participants.c.space_id == bindparam("space_id"),
                participants.c.participant == bindparam("participant_0", type_=Text),
                participants.c.session_id == sessions.c.session_id,
            ]
        elif participant_count:
            names = [bindparam(f"participant_{n}", type_=Text) for n in range(participant_count)]
            holds = select(participants.c.session_id).where(
                participants.c.space_id == bindparam("space_id"), participants.c.participant.in_(names)
            )
            conditions.append(sessions.c.session_id.in_(holds))
        if by_needle:
            conditions.append(_contains_needle())
        if by_key:
            conditions.append(sessions.c.live_key == bindparam("key"))
        counted = select(func.count(sessions.c.session_id)).where(*conditions).scalar_subquery()
        # No row: the space is not there, or not the user's.
        count = select(counted).select_from(spaces).where(_SPACE)
        rows = (
            select(*_COLUMNS).where(*conditions).order_by(order).limit(bindparam("limit")).offset(bindparam("offset"))
        )
        found = _lists[participant_count, by_needle, by_key] = Statement(count), Statement(rows)
    return found


def _contains_needle() -> Contains:
    return Contains(sessions.c.description_folded, bindparam("needle", type_=Text), bindparam("pattern", type_=Text))


def _needle_values(needle: str) -> dict[str, str]:
    folded = text.fold(needle)
    return {"needle": folded, "pattern": like_pattern(folded)}


@dataclass(frozen=True, slots=True)
class RecentSession:
    """A session with its newest event, for a list that is sorted by activity."""

    session: Session
    updated_at: int
    last_event: Event | None
    active_run_id: str | None


def _recent() -> Select[Any]:
    # What is sorted is small; the rest is fetched for the chosen few.
    ranked = (
        select(sessions.c.session_id, sessions.c.last_activity_at)
        .join(
            participants,
            and_(
                participants.c.space_id == sessions.c.space_id,
                participants.c.session_id == sessions.c.session_id,
            ),
        )
        .where(
            participants.c.space_id == bindparam("space_id"),
            participants.c.participant == bindparam("participant"),
            sessions.c.deleted_at.is_(None),
            _contains_needle(),
            tuple_(sessions.c.last_activity_at, sessions.c.session_id)
            < tuple_(bindparam("before_at", type_=BigInteger), bindparam("before_id", type_=Text)),
        )
        .order_by(sessions.c.last_activity_at.desc(), sessions.c.session_id.desc())
        .limit(bindparam("limit"))
        .subquery("ranked")
    )
    newer = events.alias("newer")
    newest = (
        select(func.max(newer.c.seq))
        .where(
            newer.c.space_id == bindparam("space_id"),
            newer.c.session_id == ranked.c.session_id,
            newer.c.type == bindparam("event_type"),
            newer.c.deleted_at.is_(None),
        )
        .correlate(ranked)
        .scalar_subquery()
    )
    return (
        select(*_COLUMNS, ranked.c.last_activity_at, runs.c.run_id, *EVENT_COLUMNS)
        .select_from(ranked)
        .join(
            sessions,
            and_(sessions.c.space_id == bindparam("space_id"), sessions.c.session_id == ranked.c.session_id),
        )
        .outerjoin(runs, and_(runs.c.space_id == bindparam("space_id"), runs.c.active_session == ranked.c.session_id))
        .outerjoin(
            events,
            and_(
                events.c.space_id == bindparam("space_id"),
                events.c.session_id == ranked.c.session_id,
                events.c.seq == newest,
            ),
        )
        .where(_SPACE_IS_MINE)
        .order_by(ranked.c.last_activity_at.desc(), ranked.c.session_id.desc())
    )


_RECENT = Statement(_recent())


def recent(
    space_id: str,
    user_id: str,
    *,
    participant: str,
    prefix: str,
    event_type: str,
    limit: int,
    before: tuple[int, str],
) -> Steps[list[RecentSession]]:
    """The participant's sessions whose description starts with `prefix`, newest activity first, below `before`."""
    rows = yield (
        _RECENT,
        {
            "space_id": space_id,
            "user_id": user_id,
            "participant": text.encode(participant),
            "event_type": event_type,
            "before_at": before[0],
            "before_id": before[1],
            "limit": limit,
            **_needle_values(prefix),
        },
    )
    width = len(_COLUMNS)
    return [
        RecentSession(
            _session(row[:width]),
            row[width],
            None if row[width + 2] is None else to_event(row[width + 2 :]),
            text.decode_optional(row[width + 1]),
        )
        for row in rows
    ]


def patch(
    space_id: str, session_id: str, user_id: str, change: SessionChange, expected_version: int | None
) -> Steps[Session | int | None]:
    """Apply the change. Returns the session, or the stored version where another was expected, or None."""
    description = None if isinstance(change.description, Unset) else change.description
    rows = yield (
        _PATCH,
        {
            "at_space": space_id,
            "at_session": session_id,
            "user_id": user_id,
            "expected": expected_version,
            "has_description": int(not isinstance(change.description, Unset)),
            "new_description": text.encode_optional(description),
            "new_description_folded": None if description is None else text.fold(description),
            "has_metadata": int(not isinstance(change.metadata, Unset)),
            "new_metadata": None if isinstance(change.metadata, Unset) else change.metadata,
            "new_strategies": None if isinstance(change.strategies, Unset) else lifecycle.to_json(change.strategies),
        },
    )
    if rows:
        return _session(rows[0])
    found = yield from get(space_id, session_id, user_id)
    return None if found is None else found.version


def delete(space_id: str, session_id: str, user_id: str, now: int) -> Steps[bool]:
    """Soft-delete the session; its key is free at once. Returns whether it was there."""
    rows = yield _DELETE, {"at_space": space_id, "at_session": session_id, "user_id": user_id, "now": now}
    return bool(rows)


def _values(session: Session, key: str | None) -> dict[str, Any]:
    return {
        "space_id": session.space_id,
        "session_id": session.id,
        "participants": text.encode(json.dumps(session.participants)),
        "description": text.encode_optional(session.description),
        "description_folded": None if session.description is None else text.fold(session.description),
        "metadata": session.metadata,
        "strategies": session.strategies,
        "version": session.version,
        "deduplication_key": key,
        "live_key": key,
        "created_at": session.created_at,
        "last_seq": 0,
        "event_count": 0,
        "last_activity_at": session.created_at,
        "sole_type": None,
    }


def _session(row: Row) -> Session:
    space_id, session_id, people, description, metadata, strategies, version, key, created_at = row
    return Session(
        space_id,
        session_id,
        tuple(json.loads(people)),
        text.decode_optional(description),
        metadata,
        strategies,
        version,
        text.decode_optional(key),
        created_at,
    )
