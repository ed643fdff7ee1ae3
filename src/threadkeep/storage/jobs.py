"""Jobs in the database: work on a session that waits for its time. Nothing here commits."""

import zlib

from sqlalchemy import bindparam, delete, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import limits
from threadkeep.storage.statement import InsertMany, Statement, Steps
from threadkeep.storage.tables import jobs

LIFECYCLE = "lifecycle"
"""The kind of job that looks whether a strategy of the session is due."""
BUCKETS = 16
"""Parts of the queue, so that no index has all its new entries at one end, and workers start in different places."""
_NEVER = limits.INTEGER

_INSERT = InsertMany(
    jobs, [jobs.c[name] for name in ("space_id", "session_id", "kind", "bucket", "due_at", "created_at")]
)
_WAKE = Statement(
    update(jobs)
    .where(
        jobs.c.space_id == bindparam("at_space"),
        jobs.c.session_id == bindparam("at_session"),
        jobs.c.kind == bindparam("of_kind", type_=Text),
        jobs.c.due_at > bindparam("now", type_=BigInteger),
    )
    .values(due_at=bindparam("now", type_=BigInteger))
)
_DROP = Statement(
    delete(jobs).where(jobs.c.space_id == bindparam("at_space"), jobs.c.session_id == bindparam("at_session"))
)


def put(space_id: str, session_id: str, kind: str, due_at: int | None, now: int) -> Steps[None]:
    """Add a job; without a time it waits until it is woken."""
    yield _INSERT, [(space_id, session_id, kind, bucket(session_id), _NEVER if due_at is None else due_at, now)]


def wake(space_id: str, session_id: str, kind: str, now: int) -> Steps[None]:
    """Make a job due now, if it is there and not due yet."""
    yield _WAKE, {"at_space": space_id, "at_session": session_id, "of_kind": kind, "now": now}


def drop(space_id: str, session_id: str) -> Steps[None]:
    """Remove all jobs of a session."""
    yield _DROP, {"at_space": space_id, "at_session": session_id}


def bucket(session_id: str) -> int:
    return zlib.crc32(session_id.encode()) % BUCKETS
