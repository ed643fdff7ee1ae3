"""Leases: kept for what this process has, and what becomes of runs whose process has let theirs run out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from threadkeep.domain import run as states
from threadkeep.domain.lease import LeaseTimes
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import NotFound, Unavailable
from threadkeep.gateway.local_runs import LocalRuns
from threadkeep.services.container import Container

_AT_ONCE = 8
"""Lost runs that are ended at once: each is read and folded whole."""

_log = logging.getLogger("threadkeep.gateway")
Take = Callable[[Run], Awaitable[object]]


class Leases:
    """The leases of `owner`, which is this process and carries `local` out.

    Of the runs that nobody has any more, those that wait in line go to `adopt`, and the others are ended by `end`.
    """

    def __init__(self, container: Container, owner: str, local: LocalRuns, *, adopt: Take, end: Take) -> None:
        self._container = container
        self._owner = owner
        self._local = local
        self._adopt = adopt
        self._end = end
        self._times = LeaseTimes.within(container.settings.run_lease)
        self._ending: dict[RunKey, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def held_seconds(self) -> float:
        """How long a run is held that begins now."""
        return self._times.held

    async def keep(self, is_needed: Callable[[], bool]) -> None:
        """Renew the leases while there is something to hold, and look for runs that nobody has. Never returns."""
        while True:
            await asyncio.sleep(self._times.look)
            try:
                if self._ending or is_needed():
                    await self._renew()
                await self.recover()
            except Exception:
                _log.exception("leases could not be kept; next attempt in %.1f s", self._times.look)

    async def recover(self) -> None:
        """Take over the runs whose owner has let the lease run out, and have them ended behind this call."""
        for found in await self._container.runs.expired():
            # A process that was asleep finds its own leases run out; its runs go on all the same.
            is_ours = found.owner == self._owner
            if is_ours or not await self._container.runs.take_over(found, self._owner, self._times.held):
                continue
            row = replace(found, owner=self._owner)
            if row.status == states.QUEUED:
                await self._adopt(row)
            else:
                task = asyncio.create_task(self._end_one(row), name=f"end lost run {row.run_id}")
                self._ending[row.key] = task
                task.add_done_callback(partial(self._forget, row.key))

    async def ended(self, space_id: str | None = None, session_id: str | None = None) -> None:
        """Wait until the lost runs of a session, or all of them, are ended; not longer than their lease."""
        place = (space_id, session_id)
        tasks = [
            task for key, task in self._ending.items() if space_id is None or (key.space_id, key.session_id) == place
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=self._times.held)

    async def close(self) -> None:
        """Leave what is not ended yet to others, at once: this process holds nothing any more."""
        tasks = [*self._ending.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            await self._container.runs.renew(self._owner, 0)
        except Unavailable as error:
            _log.warning("leases are left to run out: %s", error)

    async def _renew(self) -> None:
        keys = self._local.keys()
        renewed = await self._container.runs.renew(self._owner, self._times.held)
        for key in keys:
            if key not in renewed and (handle := self._local.get(key)) is not None and await self._is_lost(key):
                _log.warning("another process has run=%s, which is stopped here", key.run_id)
                handle.lose()

    async def _is_lost(self, key: RunKey) -> bool:
        """Whether a run that this process carries out is another's: one that has just ended by itself is not."""
        return await self._container.runs.owner_of(key) != self._owner

    def _forget(self, key: RunKey, _: asyncio.Task[None]) -> None:
        del self._ending[key]

    async def _end_one(self, row: Run) -> None:
        async with self._slots:
            try:
                await self._end(row)
            except NotFound:
                _log.warning("a lost run is not there any more run=%s", row.run_id)
            except Exception:
                _log.exception("a lost run could not be ended run=%s", row.run_id)
