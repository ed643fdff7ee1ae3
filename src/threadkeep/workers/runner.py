"""One worker: looks for due jobs about every second, runs a few at a time, and stops when it is asked to.

A job is claimed under a lease, run by the handler of its kind, and finished by that handler in the transaction that
does the work. So a worker that dies at any point leaves either nothing done and a lease that runs out, or everything.
A handler that fails gives the job back, to be tried again later; a database that gives no answer is asked again later.
"""

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from threadkeep import clock
from threadkeep.domain.job import EMBEDDING, LIFECYCLE, PURGE, Job
from threadkeep.errors import LeaseLost, ThreadkeepError, Unavailable
from threadkeep.services.container import Container
from threadkeep.services.jobs import Jobs

Handler = Callable[[Job, int], Awaitable[object]]
"""Does a job and lets go of it; is called with the present, in microseconds since 1970."""

Prepare = Callable[[int], Awaitable[None]]

_log = logging.getLogger("threadkeep.workers")
_CLAIMED = 16
_AT_ONCE = 4
"""Jobs that run at the same time: few, so that they leave connections to the requests."""
_POLL_SECONDS = (0.75, 1.25)
_LONGEST_WAIT = 30.0


class Runner:
    """A worker with a name of its own, and a handler for each kind of job that it takes."""

    def __init__(
        self, jobs: Jobs, handlers: Mapping[str, Handler], *, name: str | None = None, prepare: Prepare | None = None
    ) -> None:
        """`prepare` sees, before anything else is done, to jobs that are to be there."""
        self._jobs = jobs
        self._handlers = handlers
        self._prepare = prepare
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop` is called; what has begun by then is finished."""
        failures = 0
        is_prepared = False
        while not self._stopping.is_set():
            try:
                if not is_prepared:
                    await self._jobs.prepare(clock.now())
                    if self._prepare is not None:
                        await self._prepare(clock.now())
                    is_prepared = True
                found = await self.run_due(clock.now())
                failures = 0
            except Exception as error:
                found = 0
                failures += 1
                self._tell("could not look for jobs", error)
            if not found:
                await self._pause(min(random.uniform(*_POLL_SECONDS) * 2**failures, _LONGEST_WAIT))

    def stop(self) -> None:
        """Begin nothing new."""
        self._stopping.set()

    async def run_due(self, now: int) -> int:
        """Claim jobs that are due and run them, those of a kind that is named first before the others.

        Returns how many were claimed. Raises Unavailable.
        """
        claimed = await self._jobs.claim(self.name, self._handlers, now, limit=_CLAIMED)
        free = asyncio.Semaphore(_AT_ONCE)

        async def run_in_turn(job: Job) -> None:
            async with free:
                await self._run(job, now)

        await asyncio.gather(*map(run_in_turn, claimed))
        return len(claimed)

    async def _run(self, job: Job, now: int) -> None:
        try:
            if self._stopping.is_set():
                await self._jobs.give_back(job, now)
            else:
                await self._handlers[job.kind](job, now)
        except LeaseLost as error:
            self._tell("lost a job to another worker", error)
        except Unavailable as error:
            self._tell("left a job to whoever finds its lease run out", error)
        except Exception as error:
            self._tell(f"failed at a {job.kind} job, attempt {job.attempts}, session {job.session_id}", error)
            await self._give_back(job, now, error)

    async def _give_back(self, job: Job, now: int, error: Exception) -> None:
        try:
            await self._jobs.give_back(job, now, error=type(error).__name__)
        except ThreadkeepError as failure:
            self._tell("left a job to whoever finds its lease run out", failure)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    def _tell(self, what: str, error: Exception) -> None:
        # The text of a foreign error may hold what somebody said.
        reason = str(error) if isinstance(error, ThreadkeepError) else type(error).__name__
        _log.warning("worker=%s %s: %s", self.name, what, reason)


def runner_of(container: Container, *, name: str | None = None) -> Runner:
    """A worker for all kinds of job that there is a handler for. The purge comes after what sessions wait for."""
    handlers: dict[str, Handler] = {LIFECYCLE: container.lifecycle.run}
    if container.embedding.embedder is not None:
        handlers[EMBEDDING] = container.embedding.run
    handlers[PURGE] = container.purge.run
    return Runner(container.jobs, handlers, name=name, prepare=container.embedding.prepare)


@asynccontextmanager
async def working(container: Container) -> AsyncIterator[Runner]:
    """A worker beside whatever else the process does; it has stopped when the context ends."""
    runner = runner_of(container)
    task = asyncio.create_task(runner.run(), name="threadkeep-worker")
    try:
        yield runner
    finally:
        runner.stop()
        await task
