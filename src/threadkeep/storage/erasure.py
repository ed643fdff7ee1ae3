"""Everything of one person, found and removed for good: statements and operations. Nothing here commits.

Each step begins anew at what is there, and what leads to the rest goes last, as in `purge`: so it can stop anywhere.
"""

import json

from sqlalchemy import ColumnElement, Table, and_, bindparam, delete, func, null, select, tuple_, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import limits
from threadkeep.storage import memory_removal, purge, text
from threadkeep.storage import sessions as stored_sessions
from threadkeep.storage.statement import Contains, Statement, Steps, like_pattern
from threadkeep.storage.tables import (
    event_lookup_keys,
    events,
    idempotency_keys,
    interrupts,
    participants,
    run_events,
    runs,
    session_counters,
    sessions,
    spaces,
    tokens,
    users,
)

_PERSON = bindparam("person", type_=Text)
_LIMIT = bindparam("limit", type_=BigInteger)


def _in_session(table: Table) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.space_id == bindparam("at_space"), table.c.session_id == bindparam("at_session")


# Deleted sessions are in no list of participants, and are wanted all the same: one walk over all sessions.
_SESSIONS = Statement(
    select(sessions.c.space_id, sessions.c.session_id, sessions.c.participants)
    .where(
        tuple_(sessions.c.space_id, sessions.c.session_id)
        > tuple_(bindparam("after_space", type_=Text), bindparam("after_session", type_=Text)),
        Contains(sessions.c.participants, bindparam("needle", type_=Text), bindparam("pattern", type_=Text)),
    )
    .order_by(sessions.c.space_id, sessions.c.session_id)
    .limit(_LIMIT)
)
_OWN_SPACES = Statement(select(spaces.c.space_id).where(spaces.c.user_id == _PERSON).order_by(spaces.c.space_id))
_CLOSE_SPACE = Statement(
    update(spaces)
    .where(spaces.c.space_id == bindparam("at_space"), spaces.c.deleted_at.is_(None))
    .values(deleted_at=bindparam("now", type_=BigInteger), live_key=None)
)
_COUNT_EVENTS = Statement(select(func.count()).select_from(events).where(*_in_session(events)))
_THEIR_EVENTS = and_(*_in_session(events), events.c.emitter_type == "user", events.c.emitter_id == _PERSON)
_EDGE = Statement(select(events.c.seq).where(_THEIR_EVENTS).order_by(events.c.seq).limit(1).offset(_LIMIT))
_SOME_OF_THEIRS = (_THEIR_EVENTS, events.c.seq < bindparam("edge", type_=BigInteger))
_REMOVE_KEYS = Statement(
    delete(event_lookup_keys).where(
        *_in_session(event_lookup_keys), event_lookup_keys.c.seq.in_(select(events.c.seq).where(*_SOME_OF_THEIRS))
    )
)
_REMOVE_EVENTS = Statement(delete(events).where(*_SOME_OF_THEIRS).returning(events.c.deleted_at, events.c.seq))
_COUNT_DOWN = Statement(
    update(session_counters)
    .where(*_in_session(session_counters))
    .values(
        event_count=session_counters.c.event_count - bindparam("gone", type_=BigInteger),
        token_count=0,
        tokens_to=0,
        token_edits=session_counters.c.token_edits + 1,
    )
)
_THEIR_RUNS = select(runs.c.run_id).where(*_in_session(runs), runs.c.user_id == _PERSON)
_REMOVE_RUNS = [
    *(
        Statement(delete(table).where(*_in_session(table), table.c.run_id.in_(_THEIR_RUNS)))
        for table in (run_events, interrupts)
    ),
    Statement(delete(runs).where(*_in_session(runs), runs.c.user_id == _PERSON)),
]
# A client sends with each run what all have said, and an agent may send it back as a snapshot: the messages stay, and
# what was said on the way to them goes.
_FORGET_RUNS = [
    Statement(update(runs).where(*_in_session(runs)).values(input=null())),
    Statement(
        delete(run_events).where(
            *_in_session(run_events),
            run_events.c.run_id.in_(select(runs.c.run_id).where(*_in_session(runs), runs.c.finished_at.is_not(None))),
        )
    ),
]
_LEAVE = Statement(
    delete(participants).where(
        participants.c.space_id == bindparam("at_space"),
        participants.c.participant == _PERSON,
        participants.c.session_id == bindparam("at_session"),
    )
)
_RENAME = Statement(
    update(sessions).where(*_in_session(sessions)).values(participants=bindparam("new_participants", type_=Text))
)
_REMOVE_ANSWERS = Statement(delete(idempotency_keys).where(idempotency_keys.c.space_id == bindparam("at_space")))
_REMOVE_OWN_ANSWERS = Statement(delete(idempotency_keys).where(idempotency_keys.c.user_id == _PERSON))
_REMOVE_TOKENS = Statement(delete(tokens).where(tokens.c.user_id == _PERSON).returning(tokens.c.token_id))
_REMOVE_USER = Statement(delete(users).where(users.c.user_id == _PERSON))


def sessions_of(person: str, after: tuple[str, str], limit: int) -> Steps[list[tuple[str, str, tuple[str, ...]]]]:
    """Sessions that may be the person's, deleted ones included: their space, id and participants.

    The list of participants tells: a name may look like what stands between two others.
    """
    needle = text.encode(json.dumps([person])[1:-1])
    rows = yield (
        _SESSIONS,
        {
            "after_space": after[0],
            "after_session": after[1],
            "needle": needle,
            "pattern": like_pattern(needle),
            "limit": limit,
        },
    )
    return [(space_id, session_id, tuple(json.loads(kept))) for space_id, session_id, kept in rows]


def spaces_of(person: str) -> Steps[list[str]]:
    """The spaces that the person owns, deleted ones included."""
    return [space_id for (space_id,) in (yield _OWN_SPACES, {"person": text.encode(person)})]


def event_count(space_id: str, session_id: str) -> Steps[int]:
    """The events of a session, deleted ones included."""
    ((count,),) = yield _COUNT_EVENTS, {"at_space": space_id, "at_session": session_id}
    return int(count)


def close_space(space_id: str, now: int) -> Steps[None]:
    """Let nobody into the space any more."""
    yield _CLOSE_SPACE, {"at_space": space_id, "now": now}
    yield _REMOVE_ANSWERS, {"at_space": space_id}


def leave(space_id: str, session_id: str, person: str, others: tuple[str, ...], limit: int) -> Steps[tuple[int, bool]]:
    """Take the person's events out of a session that others go on with, and then the person.

    Returns the number of events that were removed, and whether that was all.
    """
    at = {"at_space": space_id, "at_session": session_id}
    kept = text.encode(person)
    edge = yield _EDGE, {**at, "person": kept, "limit": limit}
    some = {**at, "person": kept, "edge": edge[0][0] if edge else limits.INTEGER}
    yield _REMOVE_KEYS, some
    gone = yield _REMOVE_EVENTS, some
    yield _COUNT_DOWN, {**at, "gone": sum(deleted_at is None for deleted_at, _ in gone)}
    # After the events: what an extraction was writing of them meanwhile is there by now, or will not be.
    yield from memory_removal.remove_along(space_id, session_id, [number for _, number in gone])
    if edge:
        return len(gone), False
    for statement in _REMOVE_RUNS:
        yield statement, {**at, "person": kept}
    for statement in _FORGET_RUNS:
        yield statement, at
    yield _REMOVE_ANSWERS, {"at_space": space_id}
    yield _LEAVE, {**at, "person": kept}
    # Last: as long as the name stands there, the session is found again.
    yield _RENAME, {**at, "new_participants": text.encode(json.dumps(others))}
    return len(gone), True


def remove_session(space_id: str, session_id: str, now: int) -> Steps[bool]:
    """Remove a session and everything of it, or some of it. Returns whether that was all."""
    # Before its events: what is appended once they are gone would be left behind.
    yield from stored_sessions.expire(space_id, session_id, now, final_extraction=False)
    yield _REMOVE_ANSWERS, {"at_space": space_id}
    done = (yield from purge.remove_session(space_id, session_id, purge.ROWS)) > 0
    yield from memory_removal.remove_along(space_id, session_id)
    return done


def remove_space(space_id: str) -> Steps[bool]:
    """Remove a space that was closed and everything in it, or some of it. Returns whether that was all."""
    return (yield from purge.remove_space(space_id, purge.ROWS)) > 0


def remove_user(person: str) -> Steps[int]:
    """Remove the person as a user. Returns the number of tokens that went."""
    kept = {"person": text.encode(person)}
    yield _REMOVE_OWN_ANSWERS, kept
    gone = yield _REMOVE_TOKENS, kept
    yield _REMOVE_USER, kept
    return len(gone)
