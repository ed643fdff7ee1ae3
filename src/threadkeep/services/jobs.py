"""What can be done with jobs, whatever their kind: claim those that are due, give one back.

A lease makes it likely that one worker at a time has a job. That nothing happens twice is promised by the job itself:
what it does and that it is done are one transaction, and under a lease that has run out there is no such transaction.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from threadkeep import clock
from threadkeep.domain.job import PURGE, Job, retry_at
from threadkeep.errors import LeaseLost, Unavailable
from threadkeep.storage import jobs
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps

T = TypeVar("T")
LEASE_SECONDS = 30
"""What a job may take; after that it is another worker's."""
Pause = Callable[[float], Awaitable[object]]


class Held:
    """A job whose lease is renewed while work on it goes on, and the time as whoever claimed it counts it."""

    def __init__(self, database: Database, job: Job, now: int) -> None:
        self.job = job
        self._database = database
        self._ahead = now - clock.now()
        # A renewal changes what a write has to name as its lease, so that the two take turns.
        self._turn = asyncio.Lock()

    def now(self) -> int:
        """Microseconds since 1970."""
        return clock.now() + self._ahead

    async def write(self, operation: Callable[[Job, int], Steps[T]]) -> T:
        """Run an operation with the job as it is held, in a transaction. Raises LeaseLost, Unavailable."""
        async with self._turn:
            return await self._database.write(lambda: operation(self.job, self.now()))

    async def renew(self) -> None:
        """Hold the job for another time. Raises LeaseLost, Unavailable."""
        async with self._turn:
            now = self.now()
            until = now + LEASE_SECONDS * 1_000_000
            self.job = await self._database.write(lambda: jobs.renew(self.job, until, now))


class Jobs:
    def __init__(self, database: Database, *, pause: Pause = asyncio.sleep) -> None:
        self._database = database
        self._pause = pause

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

    @asynccontextmanager
    async def held(self, job: Job, now: int) -> AsyncIterator[Held]:
        """Keep a job from other workers for as long as the work on it takes."""
        held = Held(self._database, job, now)
        renewing = asyncio.create_task(self._renew(held), name="threadkeep-lease")
        try:
            yield held
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    async def _renew(self, held: Held) -> None:
        while True:
            await self._pause(LEASE_SECONDS / 3)
            # What the work writes is refused where the lease is lost: it need not be told.
            with suppress(Unavailable):
                try:
                    await held.renew()
                except LeaseLost:
                    return

    async def give_back(self, job: Job, now: int, *, error: str | None = None) -> None:
        """Let go of a job that was not done: with an error it is due again later, without one at once."""
        due_at = now if error is None else retry_at(job, now)
        await self._database.write(lambda: jobs.give_back(job, due_at, error, now))
