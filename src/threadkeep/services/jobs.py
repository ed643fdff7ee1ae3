"""What can be done with jobs, whatever their kind: claim those that are due, give one back.

A lease makes it likely that one worker at a time has a job. That nothing happens twice is promised by the job itself:
what it does and that it is done are one transaction, and under a lease that has run out there is no such transaction.
"""

import random
from collections.abc import Collection
from functools import partial

from threadkeep.domain.job import PURGE, Job, retry_at
from threadkeep.storage import jobs
from threadkeep.storage.database import Database

LEASE_SECONDS = 30
"""What a job may take; after that it is another worker's."""


class Jobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def prepare(self, now: int) -> None:
        """See to it that the jobs are there that belong to no session."""
        await self._database.write(lambda: jobs.put_once("", "", PURGE, now, now))

    async def claim(self, worker: str, kinds: Collection[str], now: int, *, limit: int) -> list[Job]:
        """Take jobs of these kinds that are due. Nobody else gets them until the lease runs out."""
        places: list[jobs.Place] = []
        first = random.randrange(jobs.BUCKETS)
        for kind in kinds:
            most = limit - len(places)
            if most > 0:
                places += await self._database.read(partial(jobs.due, kind, first, now, most))
        if not places:
            return []
        until = now + LEASE_SECONDS * 1_000_000
        return await self._database.write(lambda: jobs.claim(places, worker, until, now))

    async def give_back(self, job: Job, now: int, *, error: str | None = None) -> None:
        """Let go of a job that was not done: with an error it is due again later, without one at once."""
        due_at = now if error is None else retry_at(job, now)
        await self._database.write(lambda: jobs.give_back(job, due_at, error, now))
