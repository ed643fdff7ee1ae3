"""One recorded run: a queue that takes the agent's events, and a task that folds them and feeds the writer.

The agent's stream is never held up: `take` only queues. Whoever is slow (a handler of the application, the store) is
slow behind the queue. Where more events wait than may, or more bytes are held than may, the record says how many events
it misses, and so does each message and call that misses some. Events are folded a few at a time: to wake a task for
each of them would cost the stream more than the folding does.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from threadkeep.chat_history.ag_ui.backlog import Backlog, event_bytes
from threadkeep.chat_history.ag_ui.fold import FOLDED_TYPES
from threadkeep.chat_history.ag_ui.lenient import identifier_of
from threadkeep.chat_history.ag_ui.records import Call, Reasoning
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.wire import event_fields, event_type
from threadkeep.chat_history.ag_ui.writer import RowWriter
from threadkeep.chat_history.constants import MessageStatus

logger = logging.getLogger("threadkeep.chat_history")

TERMINAL_TYPES = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_GATHER_SECONDS = 0.01
_GATHER_EVENTS = 32
_NAMED = ("messageId", "toolCallId")

Handle = Callable[[object], Awaitable[None]]


class Recording:
    """The recording of one run.

    Args:
        state: what is known of the run.
        writer: stores its rows.
        handle: what folds one event; may do I/O of its own.
        finished: called when all records have their end.
        backlog: counts the bytes that are held, and knows how many may be.
        max_queue_size: how many events may wait.
        put_timeout: seconds that an event may wait for room, before it is left out of the record.
    """

    def __init__(
        self,
        state: StorageState,
        writer: RowWriter,
        handle: Handle,
        finished: Callable[[], None],
        *,
        backlog: Backlog,
        max_queue_size: int,
        put_timeout: float,
    ) -> None:
        self._state = state
        self._writer = writer
        self._handle = handle
        self._finished = finished
        self._room = asyncio.Event()
        self._backlog = backlog
        backlog.when_freed = self._room.set
        self._short_by_bytes = False
        self._short_ids: set[str] = set()
        self._queue: deque[tuple[object, datetime, int]] = deque()
        self._max_queue_size = max_queue_size
        self._put_timeout = put_timeout
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._closing = False
        self._overflowed = False
        self._has_ended = False
        self._terminal: tuple[object, datetime] | None = None
        self._ending: tuple[MessageStatus, str | None] = (MessageStatus.INTERRUPTED, None)
        self._folding = asyncio.create_task(self._fold_all(), name=f"fold {state.run_id}")

    def take(self, event: object) -> bool:
        """Queue an event; False where there is no room."""
        waiting, size = len(self._queue), event_bytes(event)
        ends = event_type(event) in TERMINAL_TYPES
        # The end of the run may always be held: it says how the rest ends.
        if waiting >= self._max_queue_size or not (ends or self._backlog.has_room(size)):
            return False
        self._has_ended = self._has_ended or ends
        self._backlog.come(size)
        self._queue.append((event, datetime.now(UTC), size))
        self._overflowed = False
        if waiting == 0:
            self._loop.call_later(_GATHER_SECONDS, self._news.set)
        elif waiting == _GATHER_EVENTS:
            self._news.set()
        return True

    async def take_or_miss(self, event: object) -> None:
        """Queue an event, waiting a moment for room, or note that it is missing. Only the first such event waits."""
        if not self._overflowed:
            self._news.set()
            try:
                async with asyncio.timeout(self._put_timeout):
                    while True:
                        self._room.clear()
                        await self._room.wait()
                        if self.take(event):
                            return
            except TimeoutError:
                self._overflowed = True
        if not self.take(event):
            self._miss(event)

    def end(self, status: MessageStatus, error: str | None = None) -> None:
        """The stream has ended this way; it counts only where no terminal event came before."""
        self._ending = (status, error)

    async def close(self) -> None:
        """Fold what still waits, end the records, and store them."""
        self._closing = True
        self._news.set()
        await self._folding
        await self._writer.close()

    async def _fold_all(self) -> None:
        while self._queue or not self._closing:
            await self._news.wait()
            self._news.clear()
            folded = 0
            while self._queue:
                event, at, size = self._queue.popleft()
                await self._fold_one(event, at)
                self._backlog.fold(size)
                self._room.set()
                folded += 1
                if folded % _GATHER_EVENTS == 0:
                    await asyncio.sleep(0)
            self._writer.look()
        self._finish()

    async def _fold_one(self, event: object, at: datetime) -> None:
        state = self._state
        kind = event_type(event)
        if kind in TERMINAL_TYPES and self._terminal is None:
            self._terminal = (event, at)
            if state.missing:
                # Told before the terminal event, which would end the records as if they were whole.
                self._finish_short(at)
        state.current_event_timestamp = at
        applied = state.fold.applied
        try:
            await self._handle(event)
        except Exception:
            logger.exception("run %r: recording a %s event failed", state.run_id, kind)
            if kind in FOLDED_TYPES and state.fold.applied == applied and state.fold.status is None:
                self._count_missing(event)

    def _finish(self) -> None:
        """What still has no end gets one: from a terminal event that no handler folded, else from the stream's end."""
        fold = self._state.fold
        now = datetime.now(UTC)
        if self._state.missing:
            self._finish_short(now)
        if self._terminal is not None:
            fold.apply(event_type(self._terminal[0]), event_fields(self._terminal[0]), self._terminal[1])
        fold.finish(self._ending[0], now, self._ending[1])
        self._finished()

    def _miss(self, event: object) -> None:
        if self._has_ended:
            return
        if not self._state.missing:
            self._short_by_bytes = len(self._queue) < self._max_queue_size
            waits = f"{self._backlog.held:,} bytes wait" if self._short_by_bytes else "too many events wait"
            logger.error("run %r: %s, the record will miss some", self._state.run_id, waits)
        self._count_missing(event)
        if event_type(event) in TERMINAL_TYPES:
            self._terminal = (event, datetime.now(UTC))

    def _count_missing(self, event: object) -> None:
        self._state.missing += 1
        fields = event_fields(event)
        self._short_ids.update(filter(None, (identifier_of(fields.get(name)) for name in _NAMED)))

    def _finish_short(self, at: datetime) -> None:
        """End the records as what they are. A message that ended before may miss some of its middle."""
        count, turn = self._state.missing, self._state.fold.turn
        if self._state.fold.status is not None:
            return
        noun = "event" if count == 1 else "events"
        cause = f": {self._backlog.limit:,} bytes were waiting for the store" if self._short_by_bytes else ""
        reason = f"{count} {noun} of this run could not be recorded{cause}; this is not all of it"
        for row in turn.rows:
            parts: list[Call | Reasoning] = [*row.calls, *row.reasonings]
            for part in parts:
                if part.agui_id in self._short_ids:
                    part.status, part.error = MessageStatus.ERRORED, reason
                    turn.touch(row)
            if row.agui_id in self._short_ids:
                turn.overrule(row, MessageStatus.ERRORED, reason)
        self._state.fold.finish(MessageStatus.ERRORED, at, reason)
