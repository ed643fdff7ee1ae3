"""A log of runs in memory that can be told to hang, to fail, and to give a run to somebody else."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from threadkeep.errors import LeaseLost
from threadkeep.streams.bell import Bell
from threadkeep.streams.run_log import LoggedEvent, RunEnding


class MemoryWriter:
    """One run. `calls` has the first index and the size of each group that was written."""

    def __init__(self) -> None:
        self.is_new = True
        self.events: list[bytes] = []
        self.ending: RunEnding | None = None
        self.calls: list[tuple[int, int]] = []
        self.reads: list[int] = []
        self.followers = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = asyncio.Event()
        self.failures: list[Exception] = []
        self.refuse_outcomes = False
        self._under_way = 0
        self._news = Bell()

    async def append(self, first: int, events: Sequence[bytes]) -> None:
        await self._take(first, events, None)

    async def finish(self, first: int, events: Sequence[bytes], ending: RunEnding) -> None:
        if self.refuse_outcomes and ending.outcome is not None:
            raise TypeError("no JSON")
        await self._take(first, events, ending)

    async def read(self, after: int, max_bytes: int) -> Sequence[LoggedEvent]:
        self.reads.append(after)
        page: list[LoggedEvent] = []
        for index in range(after + 1, len(self.events)):
            if page and sum(len(event.data) for event in page) + len(self.events[index]) > max_bytes:
                break
            page.append(LoggedEvent(index, self.events[index]))
        return page

    async def follow(self, after: int) -> AsyncIterator[LoggedEvent]:
        place = after + 1
        self.followers += 1
        try:
            while True:
                while place < len(self.events):
                    yield LoggedEvent(place, self.events[place])
                    place += 1
                if self.ending is not None:
                    return
                await self._news.wait()
        finally:
            self.followers -= 1

    def give_away(self, *events: bytes) -> None:
        """Somebody else has the run, and ends it so."""
        self.failures.append(LeaseLost("somebody else has the run"))
        self.events += events
        self.ending = RunEnding("interrupted")
        self._news.ring()

    async def _take(self, first: int, events: Sequence[bytes], ending: RunEnding | None) -> None:
        assert self._under_way == 0, "two calls at once"
        self._under_way += 1
        self.entered.set()
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
            self.calls.append((first, len(events)))
            if self.failures:
                raise self.failures.pop(0)
        finally:
            self._under_way -= 1
        assert first == len(self.events), "a gap"
        self.events += events
        self.ending = ending
        self._news.ring()


class MemoryLog:
    """A log with one run."""

    def __init__(self, writer: MemoryWriter | None = None) -> None:
        self.writer = writer or MemoryWriter()
        self.begun: list[str] = []
        self.cancels: list[Callable[[], object]] = []

    async def begin(self, run_input: Any, cancel: Callable[[], object]) -> MemoryWriter:
        await asyncio.sleep(0)
        self.begun.append(run_input.run_id)
        self.cancels.append(cancel)
        return self.writer
