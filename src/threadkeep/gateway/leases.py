"""Leases: kept for what this process has, and what becomes of runs whose process has let theirs run out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from threadkeep.chat_history.ag_ui.endings import failure
from threadkeep.chat_history.ag_ui.wire import event_json
from threadkeep.domain import run as states
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.errors import NotFound, Unavailable
from threadkeep.gateway.failures import FailureCode
from threadkeep.gateway.histories import Histories
from threadkeep.gateway.recovery import WHY, close_records
from threadkeep.services.container import Container

_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0

_log = logging.getLogger("threadkeep.gateway")


class Leases:
    """The leases of `owner`, which is this process. Queued runs that nobody has any more go to `adopt`."""

    def __init__(
        self, container: Container, histories: Histories, owner: str, adopt: Callable[[Run], Awaitable[object]]
    ) -> None:
        self._container = container
        self._histories = histories
        self._owner = owner
        self._adopt = adopt
        self._seconds = container.settings.run_lease

    async def keep(self, is_needed: Callable[[], bool]) -> None:
        """Renew the leases while there is something to hold, and look for runs that nobody has. Never returns."""
        while True:
            await asyncio.sleep(self._seconds / 3)
            try:
                if is_needed():
                    await self._container.runs.renew(self._owner, self._seconds)
                await self.recover()
            except Exception:
                _log.exception("leases could not be kept; next attempt in %.1f s", self._seconds / 3)

    async def let_go(self) -> None:
        """This process ends: what it still has may be taken over at once."""
        await self._container.runs.renew(self._owner, 0)

    async def recover(self) -> None:
        """End the runs whose owner has let the lease run out; those that wait in line go on waiting here."""
        for found in await self._container.runs.expired():
            # A process that was asleep finds its own leases run out; its runs go on all the same.
            is_ours = found.owner == self._owner
            if is_ours or not await self._container.runs.take_over(found, self._owner, self._seconds):
                continue
            row = replace(found, owner=self._owner)
            if row.status == states.QUEUED:
                await self._adopt(row)
            else:
                await self._end(row)

    async def _end(self, row: Run) -> None:
        try:
            await self._close_records(row)
        except Exception:
            _log.exception("records of a lost run could not be closed run=%s", row.run_id)
        if row.cancel_wanted_at is None:
            result: dict[str, Any] = {"status": states.INTERRUPTED, "error": WHY}
        else:
            result = {"status": states.INTERRUPTED, "outcome": {"type": "cancelled"}}
        terminal = event_json(failure(WHY, FailureCode.STOPPED))
        delay = _FIRST_RETRY
        while True:
            try:
                if not await self._container.runs.finish(row, **result, events=[terminal]):
                    _log.warning("another process has ended run=%s", row.run_id)
                return
            except Unavailable as error:
                _log.warning("run cannot be finished yet run=%s: %s", row.run_id, error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_RETRY)

    async def _close_records(self, row: Run) -> None:
        principal = Principal(row.user_id, row.tenant_id)
        try:
            session = await self._container.sessions.get(principal, row.space_id, row.session_id)
        except NotFound:
            return
        await close_records(await self._histories.of(principal), session)
