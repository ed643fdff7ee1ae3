"""Rows on their way out of one database and into another: statements and operations. Nothing here commits.

A row travels as the columns have it, by their names. What can be worked out from the rest stays at home.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Column, Table, and_, bindparam, delete, func, literal, or_, select
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import lifecycle, limits
from threadkeep.domain.job import EXTRACTION
from threadkeep.domain.session import is_archived
from threadkeep.storage import extractions as stored_extractions
from threadkeep.storage import jobs as queue
from threadkeep.storage import lookup_keys, run_transfer, search, text
from threadkeep.storage.memory_transfer import MEMORY
from threadkeep.storage.run_transfer import INTERRUPT, RUN_EVENTS
from threadkeep.storage.statement import InsertMany, Statement, Steps, insert_unless_taken
from threadkeep.storage.tables import (
    event_lookup_keys,
    events,
    extractions,
    jobs,
    participants,
    runs,
    session_counters,
    sessions,
    spaces,
    users,
)

Fields = dict[str, Any]


def _columns(table: Table, *left_out: str) -> list[Column[Any]]:
    return [column for column in table.c if column.name not in left_out]


USER = _columns(users)
SPACE = _columns(spaces, "live_key", "deleted_at")
_COUNTERS = [session_counters.c[name] for name in ("last_seq", "last_activity_at", "sole_type")]
_PLACE = ("space_id", "session_id")
SESSION = [*_columns(sessions, "space_id", "description_folded", "live_key", "deleted_at"), *_COUNTERS]
EVENT = _columns(events, *_PLACE, "deleted_at")
RUN = _columns(runs, *_PLACE, "active_session", "lease_until")
JOB = _columns(jobs, *_PLACE, "bucket", "claimed_by", "claimed_until", "attempts")
END = [sessions.c.space_id, sessions.c.session_id, Column("events", BigInteger, nullable=False)]
KINDS = {
    "user": USER,
    "space": SPACE,
    "session": SESSION,
    "event": EVENT,
    "run": RUN,
    "run_events": RUN_EVENTS,
    "interrupt": INTERRUPT,
    "job": JOB,
    "end": END,
    "memory": MEMORY,
}
"""What a file holds, and the columns of each."""

_LIMIT = bindparam("limit", type_=BigInteger)
_IN_SPACE: BindParameter[str] = bindparam("space_id")
_ANYBODY = bindparam("participant", type_=Text)
_CHOSEN = and_(
    sessions.c.space_id == _IN_SPACE,
    sessions.c.deleted_at.is_(None),
    or_(
        _ANYBODY.is_(None),
        sessions.c.session_id.in_(
            select(participants.c.session_id).where(
                participants.c.space_id == _IN_SPACE, participants.c.participant == _ANYBODY
            )
        ),
    ),
)
_USERS = Statement(select(*USER).order_by(users.c.user_id))
_SPACES = Statement(
    select(*SPACE)
    .where(
        spaces.c.deleted_at.is_(None),
        or_(bindparam("wanted", type_=Text).is_(None), spaces.c.space_id == bindparam("wanted", type_=Text)),
    )
    .order_by(spaces.c.space_id)
)
_COUNT = Statement(select(func.count()).select_from(sessions).where(_CHOSEN))
_SESSIONS = Statement(
    select(*SESSION)
    .join(
        session_counters,
        and_(
            session_counters.c.space_id == sessions.c.space_id, session_counters.c.session_id == sessions.c.session_id
        ),
    )
    .where(_CHOSEN, sessions.c.session_id > bindparam("after", type_=Text))
    .order_by(sessions.c.session_id)
    .limit(_LIMIT)
)


def _of_session(table: Table) -> Any:
    return and_(table.c.space_id == _IN_SPACE, table.c.session_id == bindparam("session_id"))


_EVENTS = Statement(
    select(*EVENT)
    .where(
        _of_session(events),
        events.c.deleted_at.is_(None),
        events.c.seq > bindparam("after", type_=BigInteger),
        events.c.seq <= bindparam("last", type_=BigInteger),
    )
    .order_by(events.c.seq)
    .limit(_LIMIT)
)
_RUNS = Statement(select(*RUN).where(_of_session(runs), runs.c.finished_at.is_not(None)).order_by(runs.c.run_id))
# Why an extraction was asked for goes along as its payload. How far it came does not: its memories stay behind.
_ASKED = func.coalesce(jobs.c.payload, extractions.c.asked).label("payload")
_JOBS = Statement(
    select(*(_ASKED if column.name == "payload" else column for column in JOB))
    .outerjoin(
        extractions,
        and_(
            extractions.c.space_id == jobs.c.space_id,
            extractions.c.session_id == jobs.c.session_id,
            jobs.c.kind == literal(EXTRACTION),
        ),
    )
    .where(_of_session(jobs))
    .order_by(jobs.c.kind)
)

_SPACE_THERE = Statement(select(spaces.c.user_id, spaces.c.deleted_at).where(spaces.c.space_id == _IN_SPACE))
_SESSION_THERE = Statement(select(sessions.c.session_id).where(_of_session(sessions)))
_HOLDER = Statement(
    select(sessions.c.session_id).where(sessions.c.space_id == _IN_SPACE, sessions.c.live_key == bindparam("key"))
)
_SPACE_HOLDER = Statement(
    select(spaces.c.space_id).where(spaces.c.user_id == bindparam("user_id"), spaces.c.live_key == bindparam("key"))
)
_USER_NAMED = Statement(select(users.c.user_id, users.c.tenant_id).where(users.c.name == bindparam("name")))
_INSERT_USER = insert_unless_taken(users, users.c.user_id)
_INSERT_SPACE = InsertMany(spaces, _columns(spaces, "deleted_at"))
_INSERT_SESSION = InsertMany(sessions, _columns(sessions, "deleted_at"))
_INSERT_COUNTERS = InsertMany(session_counters, _columns(session_counters, "token_count", "tokens_to", "token_edits"))
_INSERT_PARTICIPANTS = InsertMany(participants, list(participants.c))
_INSERT_EVENTS = InsertMany(events, _columns(events, "deleted_at"))
_INSERT_RUNS = InsertMany(runs, _columns(runs, "active_session"))
_INSERT_JOBS = InsertMany(jobs, _columns(jobs, "claimed_by", "claimed_until", "attempts"))
_FORGET_EVENTS = [Statement(delete(table).where(_of_session(table))) for table in (event_lookup_keys, events)]


def all_users() -> Steps[list[Fields]]:
    return _named(USER, (yield _USERS, {}))


def live_spaces(wanted: str | None) -> Steps[list[Fields]]:
    return _named(SPACE, (yield _SPACES, {"wanted": wanted}))


def session_count(space_id: str, participant: str | None) -> Steps[int]:
    ((count,),) = yield _COUNT, {"space_id": space_id, "participant": text.encode_optional(participant)}
    return int(count)


def some_sessions(space_id: str, participant: str | None, after: str, limit: int) -> Steps[list[Fields]]:
    """Live sessions behind the id `after`, in the order of their ids."""
    values = {"space_id": space_id, "participant": text.encode_optional(participant), "after": after, "limit": limit}
    return _named(SESSION, (yield _SESSIONS, values))


def some_events(space_id: str, session_id: str, after: int, last: int, limit: int) -> Steps[list[Fields]]:
    values = {"space_id": space_id, "session_id": session_id, "after": after, "last": last, "limit": limit}
    return _named(EVENT, (yield _EVENTS, values))


def runs_of(space_id: str, session_id: str) -> Steps[list[Fields]]:
    """The runs that have ended."""
    return _named(RUN, (yield _RUNS, {"space_id": space_id, "session_id": session_id}))


def jobs_of(space_id: str, session_id: str) -> Steps[list[Fields]]:
    return _named(JOB, (yield _JOBS, {"space_id": space_id, "session_id": session_id}))


def put_user(fields: Fields) -> Steps[tuple[str, str]]:
    """Add a user unless there is one of the name. Returns the id and the tenant that the name has here."""
    yield _INSERT_USER, fields
    rows = yield _USER_NAMED, {"name": fields["name"]}
    return (rows[0][0], rows[0][1]) if rows else (fields["user_id"], fields["tenant_id"])


def put_space(fields: Fields) -> Steps[str | None]:
    """Add a space unless it is there. Returns what is in the way, if something is."""
    rows = yield _SPACE_THERE, {"space_id": fields["space_id"]}
    if rows:
        user_id, deleted_at = rows[0]
        if deleted_at is not None:
            return "the memory space was deleted here"
        return None if user_id == fields["user_id"] else "the memory space is another user's here"
    key = fields["deduplication_key"]
    if key is not None and (held := (yield _SPACE_HOLDER, {"user_id": fields["user_id"], "key": key})):
        return f"the deduplication key {text.decode(key)!r} is that of the memory space {held[0][0]} here"
    yield _INSERT_SPACE, [_ordered(_INSERT_SPACE, {**fields, "live_key": key})]
    return None


def begin_session(space_id: str, fields: Fields) -> Steps[bool | str]:
    """Make room for a session. Returns whether it is to be brought, or what is in the way.

    Its events may come in many transactions, since nobody sees them before the session itself is there: some may be
    left of an import that was stopped.
    """
    at = {"space_id": space_id, "session_id": fields["session_id"]}
    if (yield _SESSION_THERE, at):
        return False
    if (yield from search.is_taken(fields["session_id"])):
        return "the id of the session ends like that of another one here"
    key = fields["deduplication_key"]
    if key is not None and (held := (yield _HOLDER, {"space_id": space_id, "key": key})):
        return f"the deduplication key {text.decode(key)!r} is that of the session {held[0][0]} here"
    for statement in _FORGET_EVENTS:
        yield statement, at
    yield from run_transfer.forget(space_id, fields["session_id"])
    return True


def put_events(space_id: str, owner: str, session_id: str, rows: Sequence[Fields]) -> Steps[str | None]:
    """Bring events of a session. Returns what is in the way, if something is."""
    keys = [
        (space_id, text.encode(key), fields["type"] or "", session_id, fields["seq"])
        for fields in rows
        if fields["lookup_keys"] is not None
        for key in json.loads(fields["lookup_keys"])
    ]
    taken = yield from lookup_keys.taken([(space_id, owner, type_, key) for _, key, type_, _, _ in keys])
    for held in taken.values():
        if held.session_id != session_id:
            key = text.decode(held.key)
            return f"the lookup key {key!r} is that of the event {held.sequence_id} of session {held.session_id} here"
    place = {"space_id": space_id, "session_id": session_id}
    yield _INSERT_EVENTS, [_ordered(_INSERT_EVENTS, {**fields, **place}) for fields in rows]
    yield from lookup_keys.put(keys)
    return None


def finish_session(
    space_id: str,
    fields: Fields,
    people: Sequence[str],
    event_count: int,
    ended: Sequence[Fields],
    asked: Sequence[Fields],
    waiting: Sequence[Fields],
) -> Steps[None]:
    """Bring the session itself, whose events are there: from now on it is seen."""
    session_id, strategies = fields["session_id"], lifecycle.from_json(fields["strategies"])
    description = text.decode_optional(fields["description"])
    folded = None if description is None else text.fold(description)
    kept = {**fields, "space_id": space_id, "description_folded": folded, "live_key": fields["deduplication_key"]}
    yield _INSERT_SESSION, [_ordered(_INSERT_SESSION, kept)]
    active_at, archived = fields["last_activity_at"], int(is_archived(fields["metadata"]))
    counters = {
        **kept,
        "event_count": event_count,
        "listed_at": active_at,
        "wake_count": lifecycle.wake_count(strategies, [type_ for type_ in fields["ran"].split(",") if type_]),
    }
    yield _INSERT_COUNTERS, [_ordered(_INSERT_COUNTERS, counters)]
    yield (
        _INSERT_PARTICIPANTS,
        [(space_id, text.encode(person), session_id, folded, active_at, archived) for person in dict.fromkeys(people)],
    )
    yield from search.add(session_id, folded)
    place = {"space_id": space_id, "session_id": session_id, "bucket": queue.bucket(session_id), "lease_until": 0}
    if ended:
        yield _INSERT_RUNS, [_ordered(_INSERT_RUNS, {**run, **place}) for run in ended]
    yield from run_transfer.put_interrupts(space_id, session_id, asked)
    others = [job for job in waiting if job["kind"] != EXTRACTION]
    if others:
        yield _INSERT_JOBS, [_ordered(_INSERT_JOBS, {**job, **place}) for job in others]
    for job in waiting:
        if job["kind"] == EXTRACTION:
            wanted = job["payload"] or lifecycle.NOTHING_ASKED
            last, at = fields["last_seq"], job["created_at"]
            deletes = lifecycle.asks_for_deletion(wanted)
            yield from stored_extractions.ask(space_id, session_id, wanted, last, at, deletes=deletes)


def wrong_with(kind: str, fields: Mapping[str, Any]) -> str | None:
    """What is wrong with the fields of a row, if something is: their names, and the types of their values."""
    columns = {column.name: column for column in KINDS[kind]}
    for name in (*columns, *fields):
        if name not in fields:
            return f"{kind} has no {name!r}"
        if name not in columns:
            return f"{kind} has an unknown {name!r}"
        value, column = fields[name], columns[name]
        if value is None:
            if not column.nullable:
                return f"{name!r} of {kind} is null"
        elif isinstance(column.type, BigInteger):
            if type(value) is not int or abs(value) > limits.INTEGER:
                return f"{name!r} of {kind} is not a whole number of 64 bits"
        elif not isinstance(value, str) or not text.can_be_kept(value):
            return f"{name!r} of {kind} is not a text that a database holds"
    return None


def _named(columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]) -> list[Fields]:
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _ordered(insert: InsertMany, fields: Fields) -> tuple[Any, ...]:
    return tuple(fields[column.name] for column in insert.columns)
