"""Runs that wait for the one before them on their thread. Their rows are the line; each waits in a task of its owner.

A client that leaves leaves its run in line. A process that dies leaves its rows, which another adopts: they hold what
the client sent.
"""

import asyncio
import logging

from threadkeep.chat_history.ag_ui.endings import as_events, cancelled
from threadkeep.chat_history.ag_ui.open_blocks import OpenBlocks
from threadkeep.chat_history.ag_ui.wire import event_json
from threadkeep.domain import run as states
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import NotFound, Unavailable
from threadkeep.gateway.prepared_runs import PreparedRun, end_unbegun
from threadkeep.services.container import Container
from threadkeep.streams.bus import thread_topic

LOOK_SECONDS = 1.0
"""How long a run in line waits for a wake-up before it looks by itself."""

_log = logging.getLogger("threadkeep.gateway")


class _Waiting:
    """A run in line. Under its lock it is promoted and begun, or ended: never one in the middle of the other."""

    def __init__(self, prepared: PreparedRun) -> None:
        self.prepared = prepared
        self.row = prepared.row
        self.lock = asyncio.Lock()
        self.has_left = False
        self.task: asyncio.Task[None] | None = None


class WaitingLine:
    """The queued runs of this process."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._waiting: dict[RunKey, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: RunKey) -> bool:
        return key in self._waiting

    def enter(self, prepared: PreparedRun) -> None:
        """Wait until its turn has come, and begin then."""
        key = prepared.row.key
        waiting = self._waiting[key] = _Waiting(prepared)
        waiting.task = asyncio.create_task(self._wait(waiting), name=f"in line {key.run_id}")
        waiting.task.add_done_callback(lambda _: self._waiting.pop(key, None))

    async def turn(self, key: RunKey) -> None:
        """Return when the run does not wait any more: it has begun, was cancelled, or is another process's now."""
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.task is not None:
            await asyncio.wait([waiting.task])

    async def cancel(self, key: RunKey) -> bool:
        """Take a run out of the line and end it as cancelled. Returns False where it does not wait any more."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return False
        async with waiting.lock:
            if waiting.has_left:
                return False
            events = [event_json(event) for event in as_events(cancelled(waiting.prepared.given, OpenBlocks()))]
            waiting.has_left = await self._container.runs.finish(
                waiting.row, status=states.INTERRUPTED, outcome={"type": "cancelled"}, events=events, first=0
            )
            await self._stop(waiting)
        return waiting.has_left

    async def close(self) -> None:
        """Stop waiting. The rows stay in line."""
        for waiting in [*self._waiting.values()]:
            async with waiting.lock:
                await self._stop(waiting)

    async def _stop(self, waiting: _Waiting) -> None:
        if waiting.task is not None:
            waiting.task.cancel()
            await asyncio.wait([waiting.task])

    async def _wait(self, waiting: _Waiting) -> None:
        row = waiting.row
        async with self._container.bus.listen(thread_topic(row.space_id, row.session_id)) as news:
            while True:
                async with waiting.lock:
                    if waiting.has_left or await self._take_turn(waiting):
                        return
                await news.wait(LOOK_SECONDS)

    async def _take_turn(self, waiting: _Waiting) -> bool:
        """Begin the run, if its turn has come. Returns whether it has left the line, in this way or another."""
        row = waiting.row
        try:
            if not await waiting.prepared.promote():
                found = await self._find(row)
                if found is None or found.owner != row.owner or not found.is_open:
                    return True
                if found.status == states.QUEUED:
                    return False
                # It was promoted before, and the answer was lost.
        except Unavailable as error:
            _log.warning("the line cannot be looked at run=%s: %s", row.run_id, error)
            return False
        except Exception as error:
            waiting.has_left = True
            await end_unbegun(self._container, row, error)
            return True
        waiting.has_left = True
        await waiting.prepared.begin()
        return True

    async def _find(self, row: Run) -> Run | None:
        try:
            return await self._container.runs.get(
                Principal(row.user_id, row.tenant_id), row.space_id, row.session_id, row.run_id
            )
        except NotFound:
            return None
