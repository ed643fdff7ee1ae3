"""Sessions in the database, but for their lists: statements and operations. Nothing here commits."""

import json
from typing import Any

from sqlalchemy import and_, bindparam, case, func, literal, literal_column, null, select, update
from sqlalchemy import delete as delete_from
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import lifecycle
from threadkeep.domain.job import LIFECYCLE
from threadkeep.domain.session import Session, SessionChange, Unset, is_archived
from threadkeep.storage import extractions, jobs, search, text
from threadkeep.storage.statement import InsertMany, Row, Statement, Steps, insert_or_find, insert_unless_taken
from threadkeep.storage.tables import participants, session_counters, sessions, spaces

SESSION_COLUMNS = (
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
SPACE_IS_MINE = (
    select(literal_column("1"))
    .select_from(spaces)
    .where(
        spaces.c.space_id == sessions.c.space_id,
        spaces.c.user_id == bindparam("user_id"),
        spaces.c.deleted_at.is_(None),
    )
    .exists()
)
LIVE = and_(sessions.c.space_id == bindparam("space_id"), sessions.c.deleted_at.is_(None))
_THIS = and_(LIVE, sessions.c.session_id == bindparam("session_id"), SPACE_IS_MINE)


SPACE = and_(
    spaces.c.space_id == bindparam("space_id"),
    spaces.c.user_id == bindparam("user_id"),
    spaces.c.deleted_at.is_(None),
)
OPEN_SPACE = Statement(select(spaces.c.space_id).where(SPACE))
_INSERT = insert_unless_taken(sessions, sessions.c.session_id, "deleted_at", "ran")
_INSERT_COUNTERS = InsertMany(
    session_counters,
    [
        session_counters.c[name]
        for name in ("space_id", "session_id", "last_seq", "event_count", "last_activity_at", "listed_at", "wake_count")
    ],
)
_INSERT_PARTICIPANTS = InsertMany(participants, list(participants.c))
_BY_KEY = Statement(select(sessions.c.session_id).where(LIVE, sessions.c.live_key == bindparam("key")))
_GET = Statement(select(*SESSION_COLUMNS).where(_THIS))
_NEW = {name: bindparam(f"new_{name}", type_=Text) for name in ("description", "description_folded", "metadata")}
# An UPDATE has the names of its columns for what it sets.
_AT = and_(
    sessions.c.space_id == bindparam("at_space"),
    sessions.c.session_id == bindparam("at_session"),
    sessions.c.deleted_at.is_(None),
    SPACE_IS_MINE,
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
    .returning(*SESSION_COLUMNS)
)
_DELETED = {"deleted_at": bindparam("now", type_=BigInteger), "live_key": null()}
_DELETE = Statement(update(sessions).where(_AT).values(**_DELETED).returning(sessions.c.strategies, sessions.c.ran))
_EXPIRE = Statement(
    update(sessions)
    .where(
        sessions.c.space_id == bindparam("at_space"),
        sessions.c.session_id == bindparam("at_session"),
        sessions.c.deleted_at.is_(None),
    )
    .values(**_DELETED)
    .returning(sessions.c.strategies, sessions.c.ran)
)
# What only a session that lives has.
_FORGET_COUNTERS = Statement(
    delete_from(session_counters)
    .where(
        session_counters.c.space_id == bindparam("at_space"), session_counters.c.session_id == bindparam("at_session")
    )
    .returning(session_counters.c.event_count, session_counters.c.last_seq)
)
_FORGET_PARTICIPANTS = Statement(
    delete_from(participants).where(
        participants.c.space_id == bindparam("at_space"), participants.c.session_id == bindparam("at_session")
    )
)
_DESCRIBE_PARTICIPANTS = Statement(
    update(participants)
    .where(participants.c.space_id == bindparam("at_space"), participants.c.session_id == bindparam("at_session"))
    .values(description_folded=bindparam("new_description_folded", type_=Text))
)
_ARCHIVED = bindparam("new_archived", type_=BigInteger)
_ARCHIVE_PARTICIPANTS = Statement(
    update(participants)
    .where(
        participants.c.space_id == bindparam("at_space"),
        participants.c.session_id == bindparam("at_session"),
        participants.c.archived != _ARCHIVED,
    )
    .values(archived=_ARCHIVED)
)


def create(session: Session, user_id: str) -> Steps[tuple[bool, str | None]]:
    """Insert the session.

    Returns whether the user has the space, and the id of the live session that has the key, if one has it.
    """
    if not (yield OPEN_SPACE, {"space_id": session.space_id, "user_id": user_id}):
        return False, None
    key = text.encode_optional(session.deduplication_key)
    folded = None if session.description is None else text.fold(session.description)
    existing = yield from insert_or_find(
        _INSERT, _values(session, key, folded), _BY_KEY, {"space_id": session.space_id, "key": key}
    )
    if existing is not None:
        return True, str(existing[0])
    place = (session.space_id, session.id)
    archived = int(is_archived(session.metadata))
    strategies = lifecycle.from_json(session.strategies)
    facts = lifecycle.Facts(session.created_at, session.created_at)
    yield (
        _INSERT_COUNTERS,
        [(*place, 0, 0, session.created_at, session.created_at, lifecycle.wake_count(strategies, ()))],
    )
    yield (
        _INSERT_PARTICIPANTS,
        [
            (session.space_id, text.encode(participant), session.id, folded, session.created_at, archived)
            for participant in dict.fromkeys(session.participants)
        ],
    )
    yield from search.add(session.id, folded)
    yield from jobs.put(*place, LIFECYCLE, lifecycle.next_due_at(strategies, (), facts), session.created_at)
    return True, None


def get(space_id: str, session_id: str, user_id: str) -> Steps[Session | None]:
    rows = yield _GET, {"space_id": space_id, "session_id": session_id, "user_id": user_id}
    return to_session(rows[0]) if rows else None


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
        if not isinstance(change.description, Unset):
            yield from _describe(space_id, session_id, change.description)
        if not isinstance(change.metadata, Unset):
            archived = int(is_archived(change.metadata))
            yield (
                _ARCHIVE_PARTICIPANTS,
                {"at_space": space_id, "at_session": session_id, "new_archived": archived},
            )
        return to_session(rows[0])
    found = yield from get(space_id, session_id, user_id)
    return None if found is None else found.version


def delete(space_id: str, session_id: str, user_id: str, now: int, *, final_extraction: bool) -> Steps[bool]:
    """Soft-delete the session; its key is free at once. Returns whether it was there.

    `final_extraction` queues the extraction of its memories where one was wanted and not due yet.
    """
    rows = yield _DELETE, {"at_space": space_id, "at_session": session_id, "user_id": user_id, "now": now}
    if rows:
        yield from _end(space_id, session_id, rows[0], now, final_extraction)
    return bool(rows)


def expire(space_id: str, session_id: str, now: int, *, final_extraction: bool) -> Steps[bool]:
    """As `delete`, because the session's time has come."""
    rows = yield _EXPIRE, {"at_space": space_id, "at_session": session_id, "now": now}
    if rows:
        yield from _end(space_id, session_id, rows[0], now, final_extraction)
    return bool(rows)


def _end(space_id: str, session_id: str, row: Row, now: int, final_extraction: bool) -> Steps[None]:
    """What follows from a session's end. An extraction that waits in the queue stays there."""
    at = {"at_space": space_id, "at_session": session_id}
    counters = yield _FORGET_COUNTERS, at
    yield _FORGET_PARTICIPANTS, at
    yield from search.remove(session_id)
    yield from jobs.drop(space_id, session_id, LIFECYCLE)
    strategies, ran = lifecycle.from_json(row[0]), lifecycle.parse_ran(row[1])
    wanted = lifecycle.last_extraction(strategies, ran) if final_extraction else None
    for event_count, last_seq in counters:
        if wanted is not None and event_count:
            yield from extractions.queue(space_id, session_id, wanted, ran, last_seq, now, is_final=True)


def _describe(space_id: str, session_id: str, description: str | None) -> Steps[None]:
    """Say a new description wherever it is looked for."""
    folded = None if description is None else text.fold(description)
    yield (
        _DESCRIBE_PARTICIPANTS,
        {"at_space": space_id, "at_session": session_id, "new_description_folded": folded},
    )
    yield from search.remove(session_id)
    yield from search.add(session_id, folded)


def _values(session: Session, key: str | None, folded: str | None) -> dict[str, Any]:
    return {
        "space_id": session.space_id,
        "session_id": session.id,
        "participants": text.encode(json.dumps(session.participants)),
        "description": text.encode_optional(session.description),
        "description_folded": folded,
        "metadata": session.metadata,
        "strategies": session.strategies,
        "version": session.version,
        "deduplication_key": key,
        "live_key": key,
        "created_at": session.created_at,
    }


def to_session(row: Row) -> Session:
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
