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
"""Lost runs that are ended side by side: each is read and folded whole."""

_log = logging.getLogger("threadkeep.gateway")
Take = Callable[[Run], Awaitable[object]]


class Leases:
    """The leases of `owner`, which is this process and carries `local` out; `has` says which runs are in its hands.

    Of the runs that nobody has any more, those that wait in line go to `adopt`, and the others are ended by `end`. So
    do those that are the owner's by their row and in nobody's hands: where an answer of the database is lost, nobody
    here knows of the run that it has begun.
    """

    def __init__(
        self,
        container: Container,
        owner: str,
        local: LocalRuns,
        has: Callable[[RunKey], bool],
        *,
        adopt: Take,
        end: Take,
    ) -> None:
        self._container = container
        self._owner = owner
        self._local = local
        self._has = has
        self._adopt = adopt
        self._end = end
        self._times = LeaseTimes.within(container.settings.run_lease)
        self._ending: dict[RunKey, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def __contains__(self, key: RunKey) -> bool:
        """Whether the run was lost and is about to be ended here."""
        return key in self._ending

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
            if found.key in self._ending or (found.owner == self._owner and self._has(found.key)):
                continue
            task = asyncio.create_task(self._take(found), name=f"take over {found.run_id}")
            self._ending[found.key] = task
            task.add_done_callback(partial(self._forget, found.key))

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
        renewed = await self._container.runs.renew_held(
            self._owner, self._times.held, lambda key: key in self._ending or self._has(key)
        )
        for key in keys:
            if key not in renewed and (handle := self._local.get(key)) is not None and await self._is_lost(key):
                _log.warning("another process has run=%s, which is stopped here", key.run_id)
                handle.lose()

    async def _is_lost(self, key: RunKey) -> bool:
        """Whether a run that this process carries out is another's: one that has just ended by itself is not."""
        return await self._container.runs.owner_of(key) != self._owner

    def _forget(self, key: RunKey, _: asyncio.Task[None]) -> None:
        del self._ending[key]

    async def _take(self, found: Run) -> None:
        try:
            if not await self._container.runs.take_over(found, self._owner, self._times.held):
                return
            row = replace(found, owner=self._owner)
            if row.status == states.QUEUED:
                await self._adopt(row)
                return
            async with self._slots:
                await self._end(row)
        except NotFound:
            _log.warning("a lost run is not there any more run=%s", found.run_id)
        except Unavailable as error:
            _log.warning("a lost run cannot be taken over yet run=%s: %s", found.run_id, error)
        except Exception:
            _log.exception("a lost run could not be ended run=%s", found.run_id)
