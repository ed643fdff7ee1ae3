"""The logs of runs that have ended, rewritten as few rows that are deflated. Nothing here commits."""

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.job import COMPACTION, Job
from threadkeep.domain.run import RunKey
from threadkeep.storage import jobs, text
from threadkeep.storage.statement import InsertMany, Statement, Steps
from threadkeep.storage.tables import run_events, runs

_UNCOMPACTED = Statement(
    select(runs.c.run_id)
    .where(
        runs.c.space_id == bindparam("space_id"),
        runs.c.session_id == bindparam("session_id"),
        runs.c.finished_at.is_not(None),
        runs.c.compacted_at.is_(None),
    )
    .limit(bindparam("limit", type_=BigInteger))
)
_REMOVE = Statement(
    delete(run_events).where(
        run_events.c.space_id == bindparam("at_space"),
        run_events.c.session_id == bindparam("at_session"),
        run_events.c.run_id == bindparam("at_run", type_=Text),
        run_events.c.first_index > bindparam("after", type_=BigInteger),
        run_events.c.first_index <= bindparam("last", type_=BigInteger),
    )
)
_INSERT = InsertMany(run_events, list(run_events.c))
_NOTE = Statement(
    update(runs)
    .where(
        runs.c.space_id == bindparam("at_space"),
        runs.c.session_id == bindparam("at_session"),
        runs.c.run_id == bindparam("at_run"),
    )
    .values(compacted_at=bindparam("now", type_=BigInteger))
)


def uncompacted(space_id: str, session_id: str, limit: int) -> Steps[list[RunKey]]:
    """Some runs of the session that have ended and whose logs are as they were written."""
    rows = yield _UNCOMPACTED, {"space_id": space_id, "session_id": session_id, "limit": limit}
    return [RunKey(space_id, session_id, text.decode(run_id)) for (run_id,) in rows]


def ask(space_id: str, session_id: str, due_at: int, now: int) -> Steps[None]:
    """See to it that the logs of a session are compacted at that time."""
    # A job that is there is changed, and not only seen: whoever is about to remove it waits, and looks again.
    yield from jobs.schedule(space_id, session_id, COMPACTION, due_at)
    yield from jobs.put_once(space_id, session_id, COMPACTION, due_at, now)


def let_go(job: Job, now: int) -> Steps[None]:
    """Remove the job, or leave it due where logs are left. Raises LeaseLost."""
    # Held first: a run that ends at the same time has ended by then, or puts the job there again.
    yield from jobs.check(job, now)
    if (yield from uncompacted(job.space_id, job.session_id, 1)):
        yield from jobs.finish(job, now, now)
    else:
        yield from jobs.remove(job, now)


def replace(key: RunKey, after: int, last: int, size: int, form: int, payload: bytes, now: int) -> Steps[None]:
    """Put one row in the place of all whose events are behind `after` and not behind `last`."""
    yield _REMOVE, {**_key(key), "after": after, "last": last}
    place = (key.space_id, key.session_id, text.encode(key.run_id))
    yield _INSERT, [(*place, after + 1, last - after, size, form, payload, now)]


def note(key: RunKey, now: int) -> Steps[None]:
    """Note that the log is done with."""
    yield _NOTE, {**_key(key), "now": now}


def _key(key: RunKey) -> dict[str, str]:
    return {"at_space": key.space_id, "at_session": key.session_id, "at_run": text.encode(key.run_id)}
