"""The background writer of one run: takes changed rows from the fold and stores them, however the store behaves.

Rows are created in the order of the fold, so that the order of the store is the order of the talk. A write that fails
is repeated with what the row holds by then; nothing waits for it but the end of the run, and that not for ever.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from threadkeep.chat_history.ag_ui.policy import FlushPolicy
from threadkeep.chat_history.ag_ui.records import Row
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.stored_rows import StoredRows
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.persistence import DRMemoryNotFoundError, DRMemoryServiceError

logger = logging.getLogger("threadkeep.chat_history")

_RETRIED_STATUSES = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a failing store is borne with, in seconds.

    `attempt`: how long one write may take before it counts as failed. `first_delay`: the pause before it is repeated;
    it doubles up to `longest_delay`. `final`: how long the last write of a run is repeated.
    """

    attempt: float = 60.0
    first_delay: float = 0.1
    longest_delay: float = 5.0
    final: float = 300.0


class RowWriter:
    """Stores the rows of one run when `policy` says so, and with `patience`."""

    def __init__(self, state: StorageState, stored: StoredRows, policy: FlushPolicy, patience: Patience) -> None:
        self._state = state
        self._stored = stored
        self._policy = policy
        self._patience = patience
        self._delay = patience.first_delay
        self._not_before = 0.0
        self._writes: dict[Row, int] = {}
        self._refused: set[Row] = set()
        self._gone = False
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._task = asyncio.create_task(self._write_when_due(), name=f"write rows of {state.run_id}")

    def look(self) -> None:
        """See to it that each changed row is written when it is due. Cheap; called whenever events were folded."""
        rows = self._rest()
        if not rows or self._due.is_set():
            return
        now = datetime.now(UTC)
        wait = max(min(self._wait(row, now) for row in rows), self._not_before - monotonic())
        loop = asyncio.get_running_loop()
        if wait <= 0:
            self._due.set()
        elif self._timer is None or self._timer.when() > loop.time() + wait:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_later(wait, self._due.set)

    async def flush(self) -> None:
        """Write everything that has changed now, once."""
        await self._write(self._rest())

    async def close(self) -> None:
        """Write what is left, as long as patience lasts, and stop."""
        deadline = monotonic() + self._patience.final
        async with self._writing:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        while rows := self._rest():
            await self._write(rows)
            left, patience = self._rest(), deadline - monotonic()
            if left and patience <= 0:
                logger.error(
                    "run %r of thread %r: %d messages could not be stored in %s s and are lost",
                    self._state.run_id,
                    self._state.thread_id,
                    len(left),
                    self._patience.final,
                )
                return
            if left:
                await asyncio.sleep(min(self._delay, patience))

    def _rest(self) -> list[Row]:
        return [] if self._gone else [row for row in self._state.fold.turn.dirty if row not in self._refused]

    def _wait(self, row: Row, now: datetime) -> float:
        wait = self._policy.wait(
            unsaved=row.unsaved,
            stored=self._stored.length(row),
            writes=self._writes.get(row, 0),
            ended=row.status is not MessageStatus.ACTIVE,
        )
        return wait - (now - self._state.fold.turn.dirty[row]).total_seconds()

    async def _write_when_due(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            self._timer = None
            if monotonic() >= self._not_before:
                # Whatever else has changed goes with it: one request more or less, and never out of order.
                await self._write(self._rest())
            # A store that answers, or fails, without ever waiting must not keep everybody else from running.
            await asyncio.sleep(0)
            self.look()

    async def _write(self, rows: Sequence[Row]) -> None:
        """One attempt at the rows together. Where it is one of them that fails it, one attempt at each."""
        async with self._writing:
            places = {row: place for place, row in enumerate(self._state.fold.turn.rows)}
            rows = sorted(rows, key=lambda row: places.get(row, -1))
            error = await self._attempt(rows) if rows else None
            if error is None or _is_outage(error) or len(rows) == 1:
                return
            for row in rows:
                if not self._gone:
                    await self._attempt([row])

    async def _attempt(self, rows: Sequence[Row]) -> Exception | None:
        dirty = self._state.fold.turn.dirty
        taken = [(row, dirty.pop(row), row.unsaved) for row in rows if row in dirty]
        for row, _, _ in taken:
            row.unsaved = 0
        try:
            async with asyncio.timeout(self._patience.attempt):
                await self._stored.store([row for row, _, _ in taken])
        except DRMemoryNotFoundError:
            logger.info("run %r: its chat is gone, nothing more of it is stored", self._state.run_id)
            self._gone = True
            return None
        except BaseException as error:
            for row, since, unsaved in taken:
                dirty[row] = min(since, dirty.get(row, since))
                row.unsaved += unsaved
            if not isinstance(error, Exception):
                raise
            await self._after_failure(rows, error)
            return error
        self._delay, self._not_before = self._patience.first_delay, 0.0
        for row, _, _ in taken:
            self._writes[row] = self._writes.get(row, 0) + 1
        return None

    async def _after_failure(self, rows: Sequence[Row], error: Exception) -> None:
        run_id = self._state.run_id
        if _is_refusal(error):
            if len(rows) == 1:
                logger.error("run %r: the store refuses a message; it is not stored in full: %s", run_id, error)
                self._refused.add(rows[0])
                try:
                    await self._stored.store_refusal(rows[0], error)
                except Exception:
                    logger.exception("run %r: a refused message is not even marked", run_id)
            return
        pause = max(self._delay, getattr(error, "retry_after", None) or 0)
        logger.warning("run %r: storing failed, next attempt in %.1f s: %r", run_id, pause, error)
        self._not_before = monotonic() + pause
        self._delay = min(pause * 2, self._patience.longest_delay)


def _is_refusal(error: Exception) -> bool:
    """Whether repeating the same write can only fail again."""
    status = error.status_code if isinstance(error, DRMemoryServiceError) else None
    return status is not None and 400 <= status < 500 and status not in _RETRIED_STATUSES


def _is_outage(error: Exception) -> bool:
    """Whether it is the store that fails, and not one of the rows."""
    return isinstance(error, OSError | TimeoutError) or (
        isinstance(error, DRMemoryServiceError) and not _is_refusal(error)
    )
