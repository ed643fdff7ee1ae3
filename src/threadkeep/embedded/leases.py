"""The leases of the runs that this process carries out, wishes to cancel them, and the ends of those that were lost.

Only of one space: what others keep in the database is for others to end.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from threadkeep.chat_history.ag_ui.endings import failure
from threadkeep.chat_history.ag_ui.wire import event_json
from threadkeep.domain import run as states
from threadkeep.domain.run import RunKey
from threadkeep.errors import LeaseLost
from threadkeep.services.container import Container
from threadkeep.streams.bus import owner_topic
from threadkeep.streams.locks import Locks

WHY = "The process that ran it has gone"
LOOK_SECONDS = 1.0
"""How long a wish to cancel may take to be seen where no wake-up comes."""

_log = logging.getLogger("threadkeep.embedded")


class Leases:
    """What `owner`, which is this process, holds in a space. A run that it lost is ended `within` that many seconds."""

    def __init__(self, container: Container, space_id: str, owner: str, within: float) -> None:
        self.owner = owner
        # The lease and the looking together stay below what was promised.
        self.seconds = within / 2
        self._pause = within / 6
        self._container = container
        self._space_id = space_id
        self._held: dict[RunKey, Callable[[], object]] = {}
        self.beginning: Locks[RunKey] = Locks()
        """For runs from before their row is there until they are held, so that none counts as lost meanwhile."""

    def hold(self, key: RunKey, cancel: Callable[[], object]) -> None:
        """Keep the lease of a run from here on; `cancel` is called where somebody wants the run to end."""
        self._held[key] = cancel

    def has(self, key: RunKey) -> bool:
        """Whether this process carries the run out."""
        return key in self._held

    def drop(self, key: RunKey) -> None:
        """The run has ended, or is somebody else's."""
        self._held.pop(key, None)

    @contextmanager
    def dropping(self, key: RunKey) -> Iterator[None]:
        """Drop the run where the block raises LeaseLost."""
        try:
            yield
        except LeaseLost:
            self.drop(key)
            raise

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the leases, and look for what others have lost, for as long as the block runs."""
        await self.recover()
        watches = [
            asyncio.create_task(self._renew(), name="keep the leases of runs"),
            asyncio.create_task(self._obey(), name="hear of cancels"),
        ]
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.wait(watches)
            if self._held:
                names = ", ".join(key.run_id for key in self._held)
                _log.error("runs are left in the middle: drain them before the log is closed: %s", names)
                # Whoever comes next may end them at once.
                await self._container.runs.renew(self.owner, 0)

    async def recover(self) -> None:
        """End the runs of the space whose owner has let the lease run out."""
        for found in await self._container.runs.expired():
            # One that is this process's by its row alone was begun, or taken over, and the answer to that was lost.
            is_held = found.owner == self.owner and self._is_in_hand(found.key)
            if found.space_id != self._space_id or found.status != states.ACTIVE or is_held:
                continue
            if await self._container.runs.take_over(found, self.owner, self.seconds):
                lost = replace(found, owner=self.owner)
                await self._container.runs.finish(
                    lost, status=states.INTERRUPTED, error=WHY, events=[event_json(failure(WHY))]
                )

    def _is_in_hand(self, key: RunKey) -> bool:
        return key in self._held or key in self.beginning

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            try:
                if self._held:
                    await self._container.runs.renew_held(self.owner, self.seconds, self._is_in_hand)
                await self.recover()
            except Exception:
                _log.exception("leases could not be kept; next attempt in %.1f s", self._pause)

    async def _obey(self) -> None:
        async with self._container.bus.listen(owner_topic(self.owner)) as news:
            while True:
                await news.wait(LOOK_SECONDS)
                try:
                    wanted = await self._container.runs.cancels_wanted(self.owner) if self._held else []
                except Exception as error:
                    _log.warning("whether runs are to be cancelled cannot be told: %s", error)
                    continue
                for key in wanted:
                    if (cancel := self._held.get(key)) is not None:
                        cancel()
