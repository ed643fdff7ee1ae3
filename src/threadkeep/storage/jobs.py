"""Jobs in the database: work that waits for its time. Nothing here commits.

A worker claims a job by setting its lease and moving `due_at` to the lease's end. Whoever wakes the job meanwhile moves
`due_at` back, and the worker that finishes it sees that and leaves it due: no call is lost between two looks.
"""

import zlib
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, bindparam, case, delete, null, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import limits
from threadkeep.domain.job import PURGE, Job
from threadkeep.errors import LeaseLost
from threadkeep.storage.statement import InsertMany, Statement, Steps, insert_unless_taken
from threadkeep.storage.tables import jobs

BUCKETS = 16
"""Parts of the queue, so that no index has all its new entries at one end, and workers start in different places."""
Place = tuple[str, str, str]
"""The space, the session and the kind of a job."""
_NEVER = limits.INTEGER

_NOW = bindparam("now", type_=BigInteger)
_KEY = and_(
    jobs.c.space_id == bindparam("at_space"),
    jobs.c.session_id == bindparam("at_session"),
    jobs.c.kind == bindparam("of_kind", type_=Text),
)
_LEASE = and_(
    _KEY,
    jobs.c.claimed_by == bindparam("by_worker", type_=Text),
    jobs.c.claimed_until == bindparam("lease_until", type_=BigInteger),
    jobs.c.claimed_until > _NOW,
)
_INSERT = InsertMany(
    jobs, [jobs.c[name] for name in ("space_id", "session_id", "kind", "bucket", "due_at", "created_at")]
)
_INSERT_ONCE = insert_unless_taken(jobs, jobs.c.kind, "claimed_by", "claimed_until", "attempts", "error")
_WAKE = Statement(update(jobs).where(_KEY, jobs.c.due_at > _NOW).values(due_at=_NOW))
_SCHEDULE = Statement(update(jobs).where(_KEY).values(due_at=bindparam("new_due_at", type_=BigInteger)))
_DROP = Statement(delete(jobs).where(_KEY))
_DUE = Statement(
    select(jobs.c.space_id, jobs.c.session_id, jobs.c.kind)
    .where(
        jobs.c.kind == bindparam("of_kind", type_=Text),
        jobs.c.bucket == bindparam("bucket"),
        jobs.c.due_at <= _NOW,
        jobs.c.claimed_until <= _NOW,
    )
    .order_by(jobs.c.due_at)
    .limit(bindparam("limit"))
)
_UNTIL = bindparam("new_until", type_=BigInteger)
_CLAIM = Statement(
    update(jobs)
    .where(_KEY, jobs.c.due_at <= _NOW, jobs.c.claimed_until <= _NOW)
    .values(
        claimed_by=bindparam("new_worker", type_=Text),
        claimed_until=_UNTIL,
        due_at=_UNTIL,
        attempts=jobs.c.attempts + 1,
    )
    .returning(jobs.c.attempts, jobs.c.payload)
)
_FREE: dict[str, Any] = {
    "claimed_by": null(),
    "claimed_until": 0,
    "due_at": case(
        (jobs.c.due_at < jobs.c.claimed_until, jobs.c.due_at),
        else_=bindparam("new_due_at", type_=BigInteger),
    ),
}
_FINISH = Statement(update(jobs).where(_LEASE).values(**_FREE, attempts=0, error=null()).returning(jobs.c.due_at))
_GIVE_BACK = Statement(update(jobs).where(_LEASE).values(**_FREE, error=bindparam("new_error", type_=Text)))
_RENEW = Statement(
    update(jobs)
    .where(_LEASE)
    # A job that was woken stays so.
    .values(due_at=case((jobs.c.due_at < jobs.c.claimed_until, jobs.c.due_at), else_=_UNTIL), claimed_until=_UNTIL)
    .returning(jobs.c.kind)
)
_CHECK = Statement(select(jobs.c.kind).where(_LEASE).with_for_update())
_REMOVE = Statement(delete(jobs).where(_LEASE).returning(jobs.c.kind))


def put(space_id: str, session_id: str, kind: str, due_at: int | None, now: int) -> Steps[None]:
    """Add a job; without a time it waits until it is woken."""
    yield _INSERT, [(space_id, session_id, kind, bucket(session_id), _or_never(due_at), now)]


def put_once(
    space_id: str, session_id: str, kind: str, due_at: int | None, now: int, payload: str | None = None
) -> Steps[None]:
    """Add a job unless it is there."""
    yield (
        _INSERT_ONCE,
        {
            "space_id": space_id,
            "session_id": session_id,
            "kind": kind,
            "bucket": bucket(session_id),
            "due_at": _or_never(due_at),
            "payload": payload,
            "created_at": now,
        },
    )


def wake(space_id: str, session_id: str, kind: str, now: int) -> Steps[None]:
    """Make a job due now, if it is there and not due yet."""
    yield _WAKE, {**_key(space_id, session_id, kind), "now": now}


def schedule(space_id: str, session_id: str, kind: str, due_at: int | None) -> Steps[None]:
    """Set the time of a job anew, whoever has claimed it."""
    yield _SCHEDULE, {**_key(space_id, session_id, kind), "new_due_at": _or_never(due_at)}


def drop(space_id: str, session_id: str, kind: str) -> Steps[None]:
    """Remove a job, whoever has claimed it."""
    yield _DROP, _key(space_id, session_id, kind)


def due(kind: str, first_bucket: int, now: int, limit: int) -> Steps[list[Place]]:
    """Jobs that are due and that nobody holds: bucket by bucket from `first_bucket`, the longest due first."""
    found: list[Place] = []
    # The one job that belongs to no session is in a bucket that is known.
    buckets = [bucket("")] if kind == PURGE else [(first_bucket + step) % BUCKETS for step in range(BUCKETS)]
    for number in buckets:
        wanted = {"of_kind": kind, "bucket": number, "now": now, "limit": limit - len(found)}
        found += [(row[0], row[1], row[2]) for row in (yield _DUE, wanted)]
        if len(found) == limit:
            break
    return found


def claim(places: list[Place], worker: str, until: int, now: int) -> Steps[list[Job]]:
    """Take those of the jobs that are still due and that nobody holds."""
    claimed: list[Job] = []
    # Sorted, so that two transactions take the row locks in one order.
    for place in sorted(places):
        rows = yield _CLAIM, {**_key(*place), "now": now, "new_worker": worker, "new_until": until}
        claimed += [Job(*place, worker, until, attempts, payload) for attempts, payload in rows]
    return claimed


def finish(job: Job, due_at: int | None, now: int) -> Steps[None]:
    """Let go of a job that was done; it is due again at that time, or at once if it was woken. Raises LeaseLost."""
    if not (yield _FINISH, {**_lease(job, now), "new_due_at": _or_never(due_at)}):
        raise _lost(job)


def remove(job: Job, now: int) -> Steps[None]:
    """Remove a job that was done for good. Raises LeaseLost."""
    if not (yield _REMOVE, _lease(job, now)):
        raise _lost(job)


def renew(job: Job, until: int, now: int) -> Steps[Job]:
    """Hold a job for longer. Returns it as it is held now. Raises LeaseLost."""
    if not (yield _RENEW, {**_lease(job, now), "new_until": until}):
        raise _lost(job)
    return replace(job, until=until)


def check(job: Job, now: int) -> Steps[None]:
    """Raise LeaseLost where the job is not held any more; nobody else takes it until this transaction ends."""
    if not (yield _CHECK, _lease(job, now)):
        raise _lost(job)


def give_back(job: Job, due_at: int, error: str | None, now: int) -> Steps[None]:
    """Let go of a job that was not done, if it is still held."""
    yield _GIVE_BACK, {**_lease(job, now), "new_due_at": due_at, "new_error": error}


def bucket(session_id: str) -> int:
    return zlib.crc32(session_id.encode()) % BUCKETS


def _key(space_id: str, session_id: str, kind: str) -> dict[str, Any]:
    return {"at_space": space_id, "at_session": session_id, "of_kind": kind}


def _lease(job: Job, now: int) -> dict[str, Any]:
    place = _key(job.space_id, job.session_id, job.kind)
    return {**place, "by_worker": job.worker, "lease_until": job.until, "now": now}


def _or_never(due_at: int | None) -> int:
    return _NEVER if due_at is None else due_at


def _lost(job: Job) -> LeaseLost:
    return LeaseLost(f"The lease on the {job.kind} job of session {job.session_id!r} is no longer {job.worker!r}'s")
