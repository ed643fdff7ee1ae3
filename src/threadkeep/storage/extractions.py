"""Extractions in the database: asked for, read, settled. Nothing here commits.

Whoever asks for one, and whoever settles a part of one, locks the session's row first, so that they come one after the
other: an extraction that ends reads what was asked meanwhile, and goes on. It outlives its session: the events of a
deleted session are there until they are purged.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, case, func, or_, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import lifecycle
from threadkeep.domain.event import Event
from threadkeep.domain.extraction import NONE, Extraction
from threadkeep.domain.job import EXTRACTION, Job
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.memory import MemoryChange, MemoryScope
from threadkeep.storage import events as stored_events
from threadkeep.storage import jobs, memories, text
from threadkeep.storage.statement import Insert, Row, Statement, Steps
from threadkeep.storage.tables import events, extractions, session_counters, sessions, spaces

_AT_SPACE = bindparam("at_space", type_=Text)
_AT_SESSION = bindparam("at_session", type_=Text)
_NOW = bindparam("now", type_=BigInteger)
_THIS = (extractions.c.space_id == _AT_SPACE, extractions.c.session_id == _AT_SESSION)
_SESSION = (sessions.c.space_id == _AT_SPACE, sessions.c.session_id == _AT_SESSION)
_COLUMNS = (
    extractions.c.state,
    extractions.c.read_to,
    extractions.c.wanted_to,
    extractions.c.found,
    extractions.c.attempts,
    extractions.c.error,
    extractions.c.requested_at,
    extractions.c.updated_at,
)
_MARK = Statement(update(sessions).where(*_SESSION).values(ran=bindparam("new_ran")))


def _put(dialect_insert: Insert) -> Any:
    names = ("space_id", "session_id", "state", "wanted_to", "asked", "deletes", "requested_at", "updated_at")
    put = dialect_insert(extractions).values({name: bindparam(name) for name in names})
    new = put.excluded
    goes_on = or_(extractions.c.state == "pending", extractions.c.state == "running")
    return put.on_conflict_do_update(
        index_elements=[extractions.c.space_id, extractions.c.session_id],
        set_={
            "state": new.state,
            "wanted_to": case((new.wanted_to > extractions.c.wanted_to, new.wanted_to), else_=extractions.c.wanted_to),
            "asked": new.asked,
            # Asked for once, it holds until it is done.
            "deletes": case((extractions.c.deletes == 1, 1), else_=new.deletes),
            "found": case((goes_on, extractions.c.found), else_=0),
            "attempts": 0,
            "error": None,
            "requested_at": new.requested_at,
            "updated_at": new.updated_at,
        },
    )


_PUT = Statement(_put)
_LOCK_SESSION = Statement(select(sessions.c.deleted_at).where(*_SESSION).with_for_update())
_OWN = select(sessions.c.deleted_at).where(
    *_SESSION,
    select(spaces.c.space_id)
    .where(
        spaces.c.space_id == _AT_SPACE,
        spaces.c.user_id == bindparam("user_id", type_=Text),
        spaces.c.deleted_at.is_(None),
    )
    .exists(),
)
_OWN_SESSION = Statement(_OWN)
_LOCK_OWN_SESSION = Statement(_OWN.with_for_update())
_GET = Statement(select(*_COLUMNS).where(*_THIS))
_LAST_SEQ = Statement(
    select(session_counters.c.last_seq)
    .where(session_counters.c.space_id == _AT_SPACE, session_counters.c.session_id == _AT_SESSION)
    .with_for_update()
)
_LAST_EVENT = Statement(
    select(func.max(events.c.seq)).where(events.c.space_id == _AT_SPACE, events.c.session_id == _AT_SESSION)
)
_PLAN = Statement(
    select(
        spaces.c.llm_model_name,
        spaces.c.llm_base_url,
        spaces.c.custom_instructions,
        extractions.c.asked,
        extractions.c.read_to,
        extractions.c.wanted_to,
        extractions.c.attempts,
    )
    .join(spaces, spaces.c.space_id == extractions.c.space_id)
    .where(*_THIS, spaces.c.deleted_at.is_(None))
)
_EVENTS = Statement(
    select(*stored_events.EVENT_COLUMNS)
    .where(
        events.c.space_id == _AT_SPACE,
        events.c.session_id == _AT_SESSION,
        events.c.seq > bindparam("after", type_=BigInteger),
        events.c.seq <= bindparam("last", type_=BigInteger),
        events.c.deleted_at.is_(None),
    )
    .order_by(events.c.seq)
    .limit(bindparam("limit", type_=BigInteger))
)
_BEGIN = Statement(update(extractions).where(*_THIS).values(state="running", updated_at=_NOW))
_ADVANCE = Statement(
    update(extractions)
    .where(*_THIS)
    .values(
        read_to=bindparam("new_read_to", type_=BigInteger),
        found=extractions.c.found + bindparam("more", type_=BigInteger),
        attempts=0,
        error=None,
        updated_at=_NOW,
    )
    .returning(extractions.c.wanted_to, extractions.c.deletes, extractions.c.found)
)
_WANT_MORE = Statement(update(extractions).where(*_THIS).values(wanted_to=bindparam("new_wanted_to", type_=BigInteger)))
_END = Statement(
    update(extractions).where(*_THIS).values(state=bindparam("new_state", type_=Text), deletes=0, updated_at=_NOW)
)
_FAIL = Statement(
    update(extractions)
    .where(*_THIS)
    .values(
        state=bindparam("new_state", type_=Text),
        attempts=extractions.c.attempts + bindparam("more", type_=BigInteger),
        error=bindparam("new_error", type_=Text),
        updated_at=_NOW,
    )
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an extraction is to do, and what the space says of it."""

    llm_model_name: str | None
    llm_base_url: str | None
    custom_instructions: str | None
    asked: str
    """Why it was asked for, and with which options, as JSON."""
    read_to: int
    wanted_to: int
    attempts: int


Found = Sequence[tuple[MemoryScope, Sequence[MemoryChange]]]
"""What changes, scope by scope."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settled part leaves to do: whether its session is to be deleted now, and whether anything is left."""

    found: int
    is_done: bool
    wanted_to: int
    deletes_session: bool = False


def queue(
    space_id: str,
    session_id: str,
    strategy: Strategy,
    ran: Collection[str],
    last_sequence_id: int,
    now: int,
    *,
    is_final: bool,
) -> Steps[frozenset[str]]:
    """Queue the extraction and mark its type as run. Returns the types that have run now. The session is locked."""
    asked = lifecycle.extraction_payload(strategy, last_sequence_id, is_final=is_final)
    deletes = lifecycle.deletes_session(strategy) and not is_final
    yield from ask(space_id, session_id, asked, last_sequence_id, now, deletes=deletes)
    return (yield from mark(space_id, session_id, {*ran, strategy.type}))


def mark(space_id: str, session_id: str, ran: Collection[str]) -> Steps[frozenset[str]]:
    """Note which types of strategy have run for the session."""
    yield _MARK, {**_at(space_id, session_id), "new_ran": ",".join(sorted(ran))}
    return frozenset(ran)


def ask(space_id: str, session_id: str, asked: str, wanted_to: int, now: int, *, deletes: bool) -> Steps[None]:
    """Have the events up to a number read, beside what was asked for already. The session is locked."""
    yield (
        _PUT,
        {
            "space_id": space_id,
            "session_id": session_id,
            "state": "pending",
            "wanted_to": wanted_to,
            "asked": asked,
            "deletes": int(deletes),
            "requested_at": now,
            "updated_at": now,
        },
    )
    yield from jobs.put_once(space_id, session_id, EXTRACTION, now, now)
    yield from jobs.wake(space_id, session_id, EXTRACTION, now)


def request(
    space_id: str, session_id: str, user_id: str, asked: str, now: int, *, deletes: bool
) -> Steps[Extraction | None]:
    """Have what the session holds by now read. Returns how it stands; None where there is nothing to extract from.

    What failed is tried again, also where the session is deleted by now.
    """
    rows = yield _LOCK_OWN_SESSION, {**_at(space_id, session_id), "user_id": user_id}
    if not rows:
        return None
    known = yield from get(space_id, session_id)
    is_deleted = rows[0][0] is not None
    if is_deleted and known.state == "none":
        return None
    ((last,),) = (yield _LAST_EVENT if is_deleted else _LAST_SEQ, _at(space_id, session_id)) or [(0,)]
    is_settled = known.state in ("extracted", "nothing found") and (last or 0) <= known.read_to
    if is_settled and (is_deleted or not deletes):
        return known
    yield from ask(space_id, session_id, asked, max(last or 0, known.read_to), now, deletes=deletes and not is_deleted)
    return (yield from get(space_id, session_id))


def state(space_id: str, session_id: str, user_id: str) -> Steps[Extraction | None]:
    """How the extraction of a session stands, deleted or not; None where the user has no such session."""
    rows = yield _OWN_SESSION, {**_at(space_id, session_id), "user_id": user_id}
    if not rows:
        return None
    known = yield from get(space_id, session_id)
    return None if known.state == "none" and rows[0][0] is not None else known


def get(space_id: str, session_id: str) -> Steps[Extraction]:
    """How it stands, whoever asks."""
    rows = yield _GET, _at(space_id, session_id)
    return _to_extraction(rows[0]) if rows else NONE


def plan(space_id: str, session_id: str) -> Steps[Plan | None]:
    """What is to be done; None where the space is gone."""
    rows = yield _PLAN, _at(space_id, session_id)
    if not rows:
        return None
    name, url, instructions, *rest = rows[0]
    return Plan(text.decode_optional(name), text.decode_optional(url), text.decode_optional(instructions), *rest)


def events_after(space_id: str, session_id: str, after: int, last: int, limit: int) -> Steps[list[Event]]:
    """The first events with greater numbers, up to the last one that is wanted, whether their session lives or not."""
    rows = yield _EVENTS, {**_at(space_id, session_id), "after": after, "last": last, "limit": limit}
    return [stored_events.to_event(row) for row in rows]


def begin(job: Job, now: int) -> Steps[None]:
    """Say that the job runs. Raises LeaseLost."""
    at = _at(job.space_id, job.session_id)
    yield _LOCK_SESSION, at
    yield from jobs.check(job, now)
    yield _BEGIN, {**at, "now": now}


def settle(job: Job, read_to: int, changes: Found, now: int) -> Steps[Settled]:
    """Write what was found in the events up to a number, and that they are read: all of it once, or nothing.

    Where all is read that is wanted, the job is done, and the caller deletes the session where that was asked for.
    Raises LeaseLost; NotFound where the space is gone.
    """
    place = (job.space_id, job.session_id)
    at = _at(*place)
    sessions_there = yield _LOCK_SESSION, at
    lives = bool(sessions_there) and sessions_there[0][0] is None
    count = 0
    for scope, some in changes:
        done = yield from memories.apply(job.space_id, scope, some, now)
        count += sum(each is not None for each in done)
    rows = yield _ADVANCE, {**at, "new_read_to": read_to, "more": count, "now": now}
    if not rows:
        yield from jobs.remove(job, now)
        return Settled(0, True, read_to)
    wanted_to, deletes, found = rows[0]
    deletes = bool(deletes) and lives
    if deletes:
        # What was said since it was asked for would go unread.
        for (last_seq,) in (yield _LAST_SEQ, at):
            if last_seq > wanted_to:
                wanted_to = last_seq
                yield _WANT_MORE, {**at, "new_wanted_to": wanted_to}
    if read_to < wanted_to:
        yield from jobs.check(job, now)
        return Settled(found, False, wanted_to)
    yield _END, {**at, "new_state": "extracted" if found else "nothing found", "now": now}
    yield from jobs.remove(job, now)
    return Settled(found, True, wanted_to, deletes)


def fail(job: Job, error: str, retry_at: int | None, now: int, *, counts: bool = True) -> Steps[None]:
    """Note why an attempt failed, and when to try again; without a time it has failed for good. Raises LeaseLost.

    The session stays as it is. `counts` is False where it was no attempt but a wait.
    """
    at = _at(job.space_id, job.session_id)
    yield _LOCK_SESSION, at
    state = "failed" if retry_at is None else "pending"
    yield _FAIL, {**at, "new_state": state, "new_error": error, "more": int(counts), "now": now}
    if retry_at is None:
        yield from jobs.remove(job, now)
    else:
        yield from jobs.check(job, now)
        yield from jobs.give_back(job, retry_at, None, now)


def _at(space_id: str, session_id: str) -> dict[str, Any]:
    return {"at_space": space_id, "at_session": session_id}


def _to_extraction(row: Row) -> Extraction:
    return Extraction(*row)
