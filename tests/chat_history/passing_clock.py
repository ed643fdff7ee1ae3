"""A clock for tests: waiting takes no time, and moves it on."""

import asyncio
from collections.abc import Callable


class PassingClock:
    """Whoever sleeps moves the time on; what is due later waits for `advance`."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self._due: list[_Due] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> "_Due":
        due = _Due(self.time + seconds, callback)
        self._due.append(due)
        return due

    def advance(self, seconds: float) -> None:
        self.time += seconds
        due = [each for each in self._due if each.at <= self.time]
        self._due = [each for each in self._due if each.at > self.time]
        for each in due:
            each.happen()


class _Due:
    def __init__(self, at: float, callback: Callable[[], object]) -> None:
        self.at = at
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def happen(self) -> None:
        if self._callback is not None:
            self._callback()
