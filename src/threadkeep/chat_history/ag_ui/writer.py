"""The background writer of one run: takes changed rows from the fold and stores them, however the store behaves.

Rows are created in the order of the fold, so that the order of the store is the order of the talk. A write that fails
is repeated with what the row holds by then; nothing waits for it but the end of the run, and that not for ever. What
cannot be stored whole, because the store refuses it or stays away, is at least said to be short (`shortfall`).
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from threadkeep.chat_history.ag_ui.backlog import Backlog
from threadkeep.chat_history.ag_ui.patience import Backoff, Clock, LoopClock, Patience, Timer, Verdict, verdict_on
from threadkeep.chat_history.ag_ui.policy import FlushPolicy
from threadkeep.chat_history.ag_ui.records import Row
from threadkeep.chat_history.ag_ui.shortfall import Shortfall, shortfall_of, tell_later
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.stored_rows import StoredRows
from threadkeep.chat_history.ag_ui.turn import Written
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.protocols import MessageRepositoryLike

logger = logging.getLogger("threadkeep.chat_history")


class RowWriter:
    """Stores the rows of one run when `policy` says so, and with `patience`.

    `backlog` is told what was stored, `repository` is where the rows go that `stored` knows of.
    """

    def __init__(
        self,
        state: StorageState,
        stored: StoredRows,
        repository: MessageRepositoryLike,
        policy: FlushPolicy,
        patience: Patience,
        backlog: Backlog,
        clock: Clock | None = None,
    ) -> None:
        self._state = state
        self._stored = stored
        self._repository = repository
        self._policy = policy
        self._patience = patience
        self._backlog = backlog
        self._clock = clock or LoopClock()
        self._backoff = Backoff(patience.first_delay, patience.longest_delay)
        self._writes: dict[Written, int] = {}
        self._refused: set[Written] = set()
        self._untold: dict[Written, Shortfall] = {}
        self._gone = False
        self._due = asyncio.Event()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._writing = asyncio.Lock()
        self._task = asyncio.create_task(self._write_when_due(), name=f"write rows of {state.run_id}")

    def look(self) -> None:
        """See to it that each changed row is written when it is due. Cheap; called whenever events were folded."""
        rows = self._rest()
        if not (rows or self._untold):
            if not self._writing.locked():
                self._backlog.stored_up_to(self._backlog.folded)
            return
        if self._due.is_set():
            return
        today, now = datetime.now(UTC), self._clock.now()
        wait = max(
            min((self._wait(row, today) for row in rows), default=0.0) if not self._untold else 0.0,
            self._backoff.not_before - now,
        )
        if wait <= 0:
            self._due.set()
        elif self._timer is None or self._timer_at > now + wait:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._timer_at = self._clock.call_later(wait, self._due.set), now + wait

    async def flush(self) -> None:
        """Write everything that has changed now, once."""
        await self._write()

    async def close(self) -> None:
        """Write what is left, as long as patience lasts, and stop. What is missing then is told behind this call."""
        deadline = self._clock.now() + self._patience.final
        async with self._writing:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        while self._rest() or self._untold:
            now = self._clock.now()
            if self._backoff.not_before > now:
                await self._clock.sleep(max(0.0, min(self._backoff.not_before, deadline) - now))
            await self._write()
            if (self._rest() or self._untold) and self._clock.now() >= deadline:
                self._give_up()
                return
            # A store that fails without ever waiting must not keep everybody else from running.
            await asyncio.sleep(0)

    def _rest(self) -> list[Written]:
        return [] if self._gone else [row for row in self._state.fold.turn.dirty if row not in self._refused]

    def _wait(self, row: Written, now: datetime) -> float:
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
            if self._clock.now() >= self._backoff.not_before:
                # Whatever else has changed goes with it: one request more or less, and never out of order.
                await self._write()
            # A store that answers, or fails, without ever waiting must not keep everybody else from running.
            await asyncio.sleep(0)
            self.look()

    async def _write(self) -> None:
        """One attempt at all that has changed. Where it may be one row that fails it, one attempt at each."""
        async with self._writing:
            places: dict[Written, int] = {row: place for place, row in enumerate(self._state.fold.turn.rows)}
            rows = sorted(self._rest(), key=lambda row: places.get(row, -1))
            mark = self._backlog.folded
            verdict = await self._attempt(rows) if rows else None
            worked = verdict is None
            if verdict in (Verdict.FAILED, Verdict.REFUSED) and len(rows) > 1:
                for row in rows:
                    if not self._gone:
                        worked |= await self._attempt([row]) is None
                        # At once, so that what is short has its place in the order.
                        await self._tell()
            if worked:
                self._backlog.stored_up_to(mark)
            if verdict is not Verdict.DOWN:
                await self._tell()

    async def _attempt(self, rows: Sequence[Written]) -> Verdict | None:
        """Store rows; what the failure means where it fails."""
        dirty = self._state.fold.turn.dirty
        taken = [(row, dirty.pop(row), row.unsaved) for row in rows if row in dirty]
        for row, _, _ in taken:
            row.unsaved = 0
        try:
            async with asyncio.timeout(self._patience.attempt):
                await self._stored.store([row for row, _, _ in taken])
        except BaseException as error:
            for row, since, unsaved in taken:
                dirty[row] = min(since, dirty.get(row, since))
                row.unsaved += unsaved
            if not isinstance(error, Exception):
                raise
            return self._after_failure(rows, error)
        self._backoff.succeeded()
        for row, _, _ in taken:
            self._writes[row] = self._writes.get(row, 0) + 1
        return None

    def _after_failure(self, rows: Sequence[Written], error: Exception) -> Verdict:
        run_id, verdict = self._state.run_id, verdict_on(error)
        if verdict is Verdict.GONE:
            logger.info("run %r: nothing more of it is stored, it is not ours any more: %s", run_id, error)
            self._gone = True
            self._untold.clear()
        elif verdict is not Verdict.REFUSED:
            pause = self._backoff.failed(error, self._clock.now())
            logger.warning("run %r: storing failed, next attempt in %.1f s: %r", run_id, pause, error)
        elif len(rows) == 1:
            logger.error("run %r: the store refuses a message; it is not stored in full: %s", run_id, error)
            self._refused.add(rows[0])
            self._tell_of(rows[0], f"The store refused this message: {error}")
        return verdict

    async def _tell(self) -> None:
        """One attempt at saying which of the stored rows are short."""
        for row, shortfall in [*self._untold.items()]:
            try:
                async with asyncio.timeout(self._patience.attempt):
                    await shortfall.store(self._repository)
            except Exception as error:
                verdict = verdict_on(error)
                if verdict in (Verdict.DOWN, Verdict.FAILED):
                    self._backoff.failed(error, self._clock.now())
                    return
                logger.exception("run %r: a message that is not stored in full could not be marked", self._state.run_id)
            self._untold.pop(row, None)

    def _give_up(self) -> None:
        """Let go of what the store has not taken all this time. That it is missing is said for much longer."""
        rows, seconds = self._rest(), self._patience.final
        logger.error(
            "run %r of thread %r: %d messages could not be stored in %s s after its end; what is missing is lost",
            self._state.run_id,
            self._state.thread_id,
            len(rows),
            seconds,
        )
        reason = f"The store gave no answer for {seconds:g} s after the end of the run; this is not all of it"
        for row in rows:
            self._tell_of(row, reason)
        tell_later(self._state.run_id, self._untold.values(), self._repository, self._patience, self._clock)

    def _tell_of(self, row: Written, reason: str) -> None:
        # A state, or an event that was kept as it came, has no place in the history to say so.
        if isinstance(row, Row):
            self._untold[row] = shortfall_of(row, reason, self._state, self._stored)
