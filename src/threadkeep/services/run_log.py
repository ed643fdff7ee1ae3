"""The logs of runs: appended to, read, and followed to their end.

What many runs append is gathered: one write is under way, and all that comes meanwhile goes with the next one.
A follower is woken by the bus, and looks by itself every second: the database is the truth, the bus only makes it fast.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial

from threadkeep import clock
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import Unavailable
from threadkeep.storage import run_events
from threadkeep.storage.database import Database
from threadkeep.storage.run_events import Group
from threadkeep.storage.statement import Steps
from threadkeep.streams.bus import Bus, run_topic
from threadkeep.streams.run_log import LoggedEvent

READ_BYTES = 256 * 1024
"""Bytes of events that a follower holds at once, roughly; one event may be larger."""
LOOK_SECONDS = 1.0
"""How long a follower waits for a wake-up before it looks by itself."""
_GROUPS = 256
_GROUP_BYTES = 8 * 1024 * 1024

_Waiting = tuple[Group, asyncio.Future[bool]]


class RunLog:
    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus
        self._waiting: deque[_Waiting] = deque()
        self._is_writing = False
        self._writer: asyncio.Task[None] | None = None

    async def append(self, run: Run, first: int, events: Sequence[bytes]) -> None:
        """Write events with the indexes from `first` on, which is the length of the log.

        When this returns every process has them, and they survive the end of any; the disk may be a moment behind.

        One call at a time for a run. After Unavailable nobody knows whether they were written: the same call, or one
        with more events behind these, writes what is missing.
        Raises LeaseLost (somebody else has the run, or it has ended; nothing was written), Unavailable.
        """
        if not events:
            return
        now = clock.now()
        fits_a_row = len(events) == 1 or sum(map(len, events)) <= run_events.ROW_BYTES
        if not (fits_a_row and await self._gather(run_events.group_of(run, first, events, now))):
            await self._database.write(lambda: run_events.append_alone(run, first, events, now))
        self._bus.publish(topic_of(run.key))

    async def read(self, key: RunKey, after: int = -1, *, max_bytes: int = READ_BYTES) -> list[LoggedEvent]:
        """The events behind an index, about `max_bytes` of them and at least one if there is any."""
        return await self._database.read(lambda: run_events.page(key, after, max_bytes))

    async def length(self, key: RunKey) -> int:
        """How many events the log has."""
        return await self._database.read(lambda: run_events.length(key))

    async def follow(self, key: RunKey, after: int = -1) -> AsyncGenerator[LoggedEvent, None]:
        """Each event behind an index, those that are there and those that come, until the run has ended.

        A run that is not there has ended. Raises Unavailable.
        """
        async with aclosing(self.pages(key, after)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    async def pages(self, key: RunKey, after: int = -1) -> AsyncGenerator[list[LoggedEvent], None]:
        """The events that `follow` yields, in the same order, and never an empty page. Raises Unavailable."""
        async with self._bus.listen(topic_of(key)) as news:
            while True:
                events, is_open = await self._database.read(partial(_look, key, after))
                if events:
                    yield events
                    after = events[-1].index
                elif is_open:
                    await news.wait(LOOK_SECONDS)
                else:
                    return

    async def _gather(self, group: Group) -> bool:
        """Write a group together with what others have to write. Returns whether it was written."""
        if self._is_writing:
            written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((group, written))
            return await written
        # At once and in the caller's own task: each turn of the loop in between is one that a reader waits for.
        self._is_writing = True
        try:
            (answer,) = await self._write([group])
        finally:
            self._go_on()
        return answer

    def _go_on(self) -> None:
        self._is_writing = bool(self._waiting)
        if self._is_writing:
            self._writer = asyncio.create_task(self._write_what_waits(), name="write the logs of runs")

    async def _write_what_waits(self) -> None:
        try:
            while self._waiting:
                taken = self._take()
                try:
                    answers: Sequence[bool | Exception] = await self._write([group for group, _ in taken])
                except Exception as error:
                    answers = [error] * len(taken)
                for (_, written), answer in zip(taken, answers, strict=True):
                    if written.done():
                        continue  # The caller has gone; what was written stays.
                    if isinstance(answer, Exception):
                        written.set_exception(answer)
                    else:
                        written.set_result(answer)
        finally:
            self._go_on()

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        size = 0
        while self._waiting and len(taken) < _GROUPS and size < _GROUP_BYTES:
            taken.append(self._waiting.popleft())
            size += len(taken[-1][0][7])
        return taken

    async def _write(self, groups: list[Group]) -> list[bool]:
        try:
            return await self._database.note(lambda: run_events.append_groups(groups))
        except Unavailable:
            raise
        except Exception:
            if len(groups) == 1:
                raise
        # What one of them has undone must not be the loss of the others: each writes alone.
        return [False] * len(groups)


def topic_of(key: RunKey) -> str:
    return run_topic(key.space_id, key.session_id, key.run_id)


def _look(key: RunKey, after: int) -> Steps[tuple[list[LoggedEvent], bool]]:
    # The state first: a run that has ended by then has all its events by then.
    is_open = yield from run_events.is_open(key)
    return (yield from run_events.page(key, after, READ_BYTES)), is_open
