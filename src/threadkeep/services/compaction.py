"""Making the logs of runs that have ended small: for years they are seldom read, and always kept."""

import asyncio
from collections.abc import Sequence
from functools import partial

from threadkeep.domain import run_group
from threadkeep.domain.job import Job
from threadkeep.domain.run import RunKey
from threadkeep.services.jobs import Held, Jobs
from threadkeep.storage import jobs, run_compaction, run_events
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps
from threadkeep.streams.run_log import LoggedEvent

ROW_BYTES = 256 * 1024
"""Bytes of events in a row: what a reader who resumes in the middle has to inflate before its first event."""
_RUNS = 20


class Compaction:
    def __init__(self, database: Database, queue: Jobs) -> None:
        self._database = database
        self._jobs = queue

    async def run(self, job: Job, now: int) -> None:
        """Compact logs of the job's session, until there are none, and let go of the job. Raises LeaseLost."""
        async with self._jobs.held(job, now) as held:
            found = await self._database.read(lambda: run_compaction.uncompacted(job.space_id, job.session_id, _RUNS))
            for key in found:
                await self._compact(key, held)
            await held.write(run_compaction.let_go)

    async def _compact(self, key: RunKey, held: Held) -> None:
        after = -1
        while events := await self._database.scan(partial(run_events.page, key, after, ROW_BYTES)):
            size, form, payload = await asyncio.to_thread(_packed, events)
            # Under the lease of the job: somebody else may have begun anew, and cuts the log in other places.
            await held.write(partial(_replace, key, after, events[-1].index, size, form, payload))
            after = events[-1].index
        await held.write(partial(_note, key))


def _packed(events: Sequence[LoggedEvent]) -> tuple[int, int, bytes]:
    payload = run_group.pack([event.data for event in events])
    return (len(payload), *run_group.shortest(payload))


def _replace(
    key: RunKey, after: int, last: int, size: int, form: int, payload: bytes, job: Job, now: int
) -> Steps[None]:
    yield from jobs.check(job, now)
    yield from run_compaction.replace(key, after, last, size, form, payload, now)


def _note(key: RunKey, job: Job, now: int) -> Steps[None]:
    yield from jobs.check(job, now)
    yield from run_compaction.note(key, now)
