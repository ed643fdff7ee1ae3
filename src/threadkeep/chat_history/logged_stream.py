"""The events of one run between its agent, its log and its readers.

The agent's side never waits for the log, unless `max_waiting` bytes do. One call to the log is under way at a time, and
takes what has come in the meantime: groups form by themselves. Readers see an event when the log has it. One that is
close gets it from `_kept`, a short piece of memory; one that is behind reads the log. So no reader holds anything.

A log that does not answer for `late_after` seconds delays nobody either: readers then see events that are not in it
yet, without an index, since nobody could resume after those. The log gets them all when it is back.

The terminal event waits until `release` says that the history is stored, and is written together with the end of the
run; whoever has seen it may start the next run anywhere. After `settle` seconds readers get it all the same.

Where the log says that somebody else has the run, nothing more is written, and the readers go on in the log: it holds
what the new owner ends the run with.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial

from threadkeep.chat_history.ag_ui.agent import close_events
from threadkeep.errors import LeaseLost, Unavailable
from threadkeep.streams.bell import Bell
from threadkeep.streams.run_log import Batch, LoggedEvent, RunEnding, RunWriter

LATE_SECONDS = 2.0
"""How long a call to the log may take before readers are given what it does not have; one that fails is late at once.

What readers have seen and the log never got is lost where the process dies in that moment, so a log that is only slow
is waited for: a busy machine may well take a second.
"""
SETTLE_SECONDS = 5.0
"""How long a terminal event waits for the store."""
KEPT_BYTES = 64 * 1024
"""How much of what the log has is kept in memory for the readers that are close."""
PAGE_BYTES = 64 * 1024
"""How much a reader that is behind reads at a time."""
GROUP_BYTES = 1024 * 1024
"""How much one call takes to the log."""
_TURNS = 3
"""How often the loop turns until readers have what a fast log has written: it writes, goes on, and wakes them."""
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0
_OVERHEAD = 200
"""Bytes that an event takes beside its own, about as the record counts it (`ag_ui/backlog.py`)."""

logger = logging.getLogger("threadkeep.chat_history")


class LoggedStream:
    """A stream that is published once, logged, and followed by any number of readers. `lost` is called at LeaseLost."""

    def __init__(
        self,
        name: str,
        writer: RunWriter,
        lost: Callable[[], object],
        *,
        max_waiting: int,
        late_after: float | None = None,
        settle: float | None = None,
    ) -> None:
        self._name = name
        self._writer = writer
        self._when_lost = lost
        self._max_waiting = max_waiting
        self._late_after = LATE_SECONDS if late_after is None else late_after
        self._settle = SETTLE_SECONDS if settle is None else settle
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._logged = 0
        self._terminal: tuple[bytes, RunEnding] | None = None
        self._is_released = self._is_late = self._is_let_go = self._is_over = self._is_lost = self._is_shut = False
        self._deadline: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._begins = False
        self._news = Bell()

    @property
    def closed(self) -> bool:
        """Whether nothing can be published any more."""
        return self._terminal is not None or self._is_lost

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the log that the agent has to wait too."""
        return self._waiting_bytes > self._max_waiting

    def publish(self, data: bytes) -> None:
        """Take an event that is not the last one."""
        if self.closed:
            raise ValueError("The stream is closed; nothing can be published on it")
        self._waiting.append(data)
        self._waiting_bytes += len(data) + _OVERHEAD
        self._write_on()

    def end(self, data: bytes, ending: RunEnding) -> None:
        """Take the terminal event, and how the run is to end with it."""
        if self.closed:
            raise ValueError("The stream is closed; it has a terminal event")
        self._terminal = (data, ending)
        self._deadline = asyncio.get_running_loop().call_later(self._settle, self._let_go)

    def release(self) -> None:
        """The history is stored: the run may end."""
        self._is_released = True
        self._write_on()

    async def room(self) -> None:
        """Wait until the stream is not full, and let readers have first what a fast log has by then."""
        if self._begins:
            self._begins = False
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        while self.is_full and not self.closed:
            await self._news.wait()

    async def over(self) -> None:
        """Wait until readers have the terminal event, or find the end in the log."""
        while not (self._is_over or self._is_let_go or self._is_lost):
            await self._news.wait()

    async def close(self) -> None:
        """Write nothing more, whatever is missing in the log."""
        self._is_shut = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def written(self) -> None:
        """Wait until the log has all that was released, or the run is lost."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def batches(self, after: int = -1) -> AsyncGenerator[Batch, None]:
        """The events after the index, up to the terminal event; each has its own index once the log has it."""
        place = after + 1
        while not self._is_lost:
            if place < self._logged - len(self._kept):
                page = await self._page(place - 1)
                if not page:
                    # It was erased.
                    return
                place = page[-1].index + 1
                yield [(event.index, event.data) for event in page]
            elif place < self._logged:
                first, place = place, self._logged
                yield [(index, self._kept[index - place]) for index in range(first, place)]
            elif self._is_over:
                return
            elif self._is_late and place - self._logged < len(self._waiting):
                some = _up_to(KEPT_BYTES, self._waiting, place - self._logged)
                place += len(some)
                yield [(None, data) for data in some]
            elif self._is_let_go and self._terminal is not None and place - self._logged >= len(self._waiting):
                yield [(None, self._terminal[0])]
                return
            else:
                await self._news.wait()
        # What went out without an index is not in the log; what stands there in its place is what counts.
        logged = self._writer.follow(min(place, self._logged) - 1)
        try:
            async for event in logged:
                yield [(event.index, event.data)]
        finally:
            await close_events(logged)

    def _write_on(self) -> None:
        is_idle = self._writing is None or self._writing.done()
        if is_idle and not (self._is_lost or self._is_over or self._is_shut):
            self._writing = asyncio.create_task(self._write(), name=f"log {self._name}")
            self._begins = True

    async def _write(self) -> None:
        try:
            while not self._is_over:
                group = _up_to(GROUP_BYTES, self._waiting)
                if self._terminal is not None and self._is_released and len(group) == len(self._waiting):
                    await self._finish(group, *self._terminal)
                elif group:
                    await self._until_answered(partial(self._writer.append, self._logged, group))
                    self._have_logged(len(group))
                else:
                    return
        except LeaseLost:
            logger.warning("run %r: somebody else has it now, this process stops writing it", self._name)
            self.lose()

    async def _finish(self, group: Sequence[bytes], terminal: bytes, ending: RunEnding) -> None:
        events = [*group, terminal]

        async def finish() -> None:
            nonlocal ending
            try:
                await self._writer.finish(self._logged, events, ending)
            except (LeaseLost, Unavailable):
                raise
            except Exception:
                # What an agent said of its end must not keep the run from ending.
                ending = RunEnding(ending.status, error=ending.error)
                raise

        await self._until_answered(finish)
        if self._deadline is not None:
            self._deadline.cancel()
        self._is_over = True
        self._waiting.append(terminal)
        self._waiting_bytes += len(terminal) + _OVERHEAD
        self._have_logged(len(events))

    async def _until_answered(self, call: Callable[[], Awaitable[None]]) -> None:
        """Make the call, and make it again where it failed. The same one: the first may have come through after all."""
        timer = asyncio.get_running_loop().call_later(self._late_after, self._be_late)
        delay = _FIRST_RETRY
        try:
            while True:
                try:
                    await call()
                    break
                except LeaseLost:
                    raise
                except Unavailable as error:
                    logger.warning(
                        "run %r: the log does not answer, next attempt in %.1f s: %s", self._name, delay, error
                    )
                except Exception:
                    logger.exception("run %r: the log refuses a call, next attempt in %.1f s", self._name, delay)
                self._be_late()
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_RETRY)
        finally:
            timer.cancel()
        self._is_late = False

    def _have_logged(self, count: int) -> None:
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        size = sum(map(len, taken))
        self._waiting_bytes -= size + _OVERHEAD * len(taken)
        self._kept.extend(taken)
        self._kept_bytes += size
        self._logged += count
        while self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft())
        self._news.ring()

    async def _page(self, after: int) -> Sequence[LoggedEvent]:
        delay = _FIRST_RETRY
        while True:
            try:
                return await self._writer.read(after, PAGE_BYTES)
            except Unavailable as error:
                logger.warning("run %r: the log cannot be read, next attempt in %.1f s: %s", self._name, delay, error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_RETRY)

    def _be_late(self) -> None:
        self._is_late = True
        self._news.ring()

    def _let_go(self) -> None:
        self._is_let_go = True
        self._news.ring()

    def lose(self) -> None:
        """Somebody else has the run: nothing more is written, and readers find in the log how it ends."""
        if self._is_lost or self._is_over:
            return
        self._is_lost = True
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
        self._news.ring()
        self._when_lost()


def _up_to(most: int, events: list[bytes], start: int = 0) -> list[bytes]:
    """So many of them, from one on, as are no more than so many bytes, and one at least."""
    size, end = 0, start
    while end < len(events) and (end == start or size + len(events[end]) <= most):
        size += len(events[end])
        end += 1
    return events[start:end]
