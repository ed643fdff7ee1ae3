"""A run of the database as whoever carries it out writes it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from threadkeep.domain.interrupt import drafts_of
from threadkeep.domain.run import Run
from threadkeep.errors import LeaseLost
from threadkeep.services.run_following import pages_through
from threadkeep.services.run_log import RunLog
from threadkeep.services.runs import Runs
from threadkeep.streams.run_log import LoggedEvent, RunEnding


class RunWriter:
    """The log and the row of one run, which is active; see the protocol `streams.run_log.RunWriter`."""

    is_new = True

    def __init__(self, runs: Runs, log: RunLog, run: Run) -> None:
        self.run = run
        self._runs = runs
        self._log = log

    async def append(self, first: int, events: Sequence[bytes]) -> None:
        """Raises LeaseLost, Unavailable."""
        await self._log.append(self.run, first, events)

    async def finish(self, first: int, events: Sequence[bytes], ending: RunEnding) -> None:
        """Raises LeaseLost, Unavailable."""
        ended = await self._runs.finish(
            self.run,
            status=ending.status,
            outcome=ending.outcome,
            usage=ending.usage,
            error=ending.error,
            events=events,
            first=first,
            interrupts=drafts_of(ending.interrupts, self.run.run_id),
        )
        if not ended:
            raise LeaseLost(f"The run {self.run.run_id!r} was ended by another process")

    async def read(self, after: int, max_bytes: int) -> Sequence[LoggedEvent]:
        """Raises Unavailable."""
        return await self._log.read(self.run.key, after, max_bytes=max_bytes)

    async def follow(self, after: int) -> AsyncIterator[LoggedEvent]:
        """Each event after the index, to the end of the run; through outages of the store."""
        async with aclosing(pages_through(self._log, self.run.key, after)) as pages:
            async for page in pages:
                for event in page:
                    yield event
