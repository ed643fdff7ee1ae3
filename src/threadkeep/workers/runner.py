"""A worker: looks for due jobs about every second, runs a few at a time, and stops when it is asked to.

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
from threadkeep.domain.job import ADDITION, COMPACTION, EMBEDDING, EXTRACTION, LIFECYCLE, PURGE, Job
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
        self,
        jobs: Jobs,
        handlers: Mapping[str, Handler],
        *,
        name: str | None = None,
        prepare: Prepare | None = None,
        claimed: int = _CLAIMED,
        at_once: int = _AT_ONCE,
        is_cut_short: bool = False,
    ) -> None:
        """`prepare` sees, before anything else is done, to jobs that are to be there.

        At most `claimed` jobs are held, of which `at_once` run. With `is_cut_short` a job that runs when the worker is
        to stop is given back in the middle: for jobs that wait for somebody else, and lose little by it.
        """
        self._jobs = jobs
        self._handlers = handlers
        self._prepare = prepare
        self._claimed = claimed
        self._free = asyncio.Semaphore(at_once)
        self._is_cut_short = is_cut_short
        self._open: set[asyncio.Task[None]] = set()
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop` is called; what has begun by then is finished, or given back."""
        try:
            await self._run_until_stopped()
        finally:
            await asyncio.gather(*self._open)

    async def _run_until_stopped(self) -> None:
        failures = 0
        is_prepared = False
        while not self._stopping.is_set():
            try:
                if not is_prepared:
                    await self._jobs.prepare(clock.now())
                    if self._prepare is not None:
                        await self._prepare(clock.now())
                    is_prepared = True
                found = len(await self._start_due(clock.now()))
                failures = 0
            except Exception as error:
                found = 0
                failures += 1
                self._tell("could not look for jobs", error)
            if not found:
                await self._pause(min(random.uniform(*_POLL_SECONDS) * 2**failures, _LONGEST_WAIT))
            elif len(self._open) == self._claimed:
                self._wake.clear()
                await self._wake.wait()

    def stop(self) -> None:
        """Begin nothing new."""
        self._stopping.set()
        self._wake.set()
        if self._is_cut_short:
            for task in self._open:
                task.cancel()

    async def run_due(self, now: int) -> int:
        """Claim jobs that are due and run them, those of a kind that is named first before the others.

        Returns how many were claimed. Raises Unavailable.
        """
        started = await self._start_due(now)
        await asyncio.gather(*started)
        return len(started)

    async def _start_due(self, now: int) -> list[asyncio.Task[None]]:
        room = self._claimed - len(self._open)
        claimed = await self._jobs.claim(self.name, self._handlers, now, limit=room) if room else []
        started = [asyncio.create_task(self._run_in_turn(job, now)) for job in claimed]
        for task in started:
            self._open.add(task)
            task.add_done_callback(self._close)
        return started

    def _close(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        self._wake.set()

    async def _run_in_turn(self, job: Job, now: int) -> None:
        try:
            async with self._free:
                await self._run(job, now)
        except asyncio.CancelledError:
            if not (self._is_cut_short and self._stopping.is_set()):
                raise
            await self._give_back(job, now, None)

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

    async def _give_back(self, job: Job, now: int, error: Exception | None) -> None:
        try:
            await self._jobs.give_back(job, now, error=None if error is None else type(error).__name__)
        except ThreadkeepError as failure:
            self._tell("left a job to whoever finds its lease run out", failure)

    async def _pause(self, seconds: float) -> None:
        # What runs gets its turn, however short the pause.
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    def _tell(self, what: str, error: Exception) -> None:
        # The text of a foreign error may hold what somebody said.
        reason = str(error) if isinstance(error, ThreadkeepError) else type(error).__name__
        _log.warning("worker=%s %s: %s", self.name, what, reason)


def runner_of(container: Container, *, name: str | None = None) -> Runner:
    """A worker for all kinds of job that there is a handler for. What sessions wait for comes before the rest."""
    handlers: dict[str, Handler] = {
        LIFECYCLE: container.lifecycle.run,
        COMPACTION: container.compaction.run,
        PURGE: container.purge.run,
    }
    return Runner(container.jobs, handlers, name=name)


def model_runner_of(container: Container, *, name: str | None = None) -> Runner:
    """A worker for jobs that wait for a model, apart from the others: a model may take a minute to answer."""
    handlers: dict[str, Handler] = {}
    # Somebody may be waiting for what they added, or looking for it; nobody waits for a session that has ended.
    if container.models.can_extract:
        handlers[ADDITION] = container.inference.run
    if container.embedding.embedder is not None:
        handlers[EMBEDDING] = container.embedding.run
    if container.models.can_extract:
        handlers[EXTRACTION] = container.extractions.run
    slots = container.settings.llm_at_once
    prepare = container.embedding.prepare
    return Runner(container.jobs, handlers, name=name, prepare=prepare, claimed=slots, at_once=slots, is_cut_short=True)


@asynccontextmanager
async def working(container: Container) -> AsyncIterator[Runner]:
    """Workers beside whatever else the process does; they have stopped when the context ends."""
    runner = runner_of(container)
    runners = [runner]
    if container.models.can_extract or container.embedding.embedder is not None:
        runners.append(model_runner_of(container, name=f"{runner.name}:models"))
    tasks = [asyncio.create_task(each.run(), name="threadkeep-worker") for each in runners]
    try:
        yield runner
    finally:
        for each in runners:
            each.stop()
        await asyncio.gather(*tasks)
