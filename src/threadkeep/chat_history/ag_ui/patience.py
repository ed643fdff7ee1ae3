"""How a failing store is borne with: what a failure means for the write, and how long to pause before the next one."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Protocol

from threadkeep import errors
from threadkeep.persistence import DRMemoryNotFoundError, DRMemoryServiceError, DRMemoryVersionConflictError

# 401 and 403 too: a token runs out in the middle of a run and is renewed, and that is no fault of any message.
_DOWN_STATUSES = frozenset({401, 403, 408, 425, 429})
_UNCERTAIN_STATUSES = frozenset({409, 500})


class Verdict(StrEnum):
    """What a failed write means.

    `GONE`: the chat was deleted, or the run is another process's now; nothing more of it is to be stored.
    `REFUSED`: repeating the same write can only fail again.
    `DOWN`: it is the store that fails, whatever is written. `FAILED`: it may be one of the messages.
    """

    GONE = "gone"
    REFUSED = "refused"
    DOWN = "down"
    FAILED = "failed"


def verdict_on(error: BaseException) -> Verdict:
    """What the error of a repository means. Any error that is not known is worth another attempt."""
    if isinstance(error, DRMemoryNotFoundError | errors.NotFound | errors.LeaseLost):
        return Verdict.GONE
    if isinstance(error, DRMemoryVersionConflictError):
        return Verdict.FAILED
    if isinstance(error, DRMemoryServiceError):
        return _verdict_on_status(error.status_code)
    if isinstance(error, errors.Invalid | errors.BadRequest | errors.TooLarge):
        return Verdict.REFUSED
    if isinstance(error, OSError | TimeoutError | errors.Unavailable | errors.RateLimited):
        return Verdict.DOWN
    return Verdict.FAILED


def _verdict_on_status(status: int | None) -> Verdict:
    if status == 410:
        return Verdict.GONE
    if status in _UNCERTAIN_STATUSES:
        return Verdict.FAILED
    return (
        Verdict.REFUSED if status is not None and 400 <= status < 500 and status not in _DOWN_STATUSES else Verdict.DOWN
    )


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a failing store is borne with, in seconds.

    Attributes:
        attempt: how long one write may take before it counts as failed.
        first_delay: the pause before it is repeated; it doubles from failure to failure.
        longest_delay: the longest such pause, unless the store itself asks for more by `Retry-After`.
        settle: how long the end of a run waits for its record. After that the record is stored behind it.
        final: how long after its end a run's record is still tried to be stored whole.
        note: how long after that the store is still told that the record is short, and why.
        longest_note_delay: the longest pause between attempts at that.
    """

    attempt: float = 60.0
    first_delay: float = 0.1
    longest_delay: float = 5.0
    settle: float = 5.0
    final: float = 600.0
    note: float = 86_400.0
    longest_note_delay: float = 60.0


class Timer(Protocol):
    """Something that is due."""

    def cancel(self) -> None:
        """Let it not happen."""


class Clock(Protocol):
    """Time, as the recorder knows it."""

    def now(self) -> float:
        """Seconds since some moment."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Have something done later."""


class LoopClock:
    """The time of the running event loop."""

    def now(self) -> float:
        return monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


@dataclass(slots=True)
class Backoff:
    """Pauses that grow from failure to failure, each a little different, so that many runs do not come back at once."""

    first: float
    longest: float
    chance: Callable[[], float] = random.random
    not_before: float = 0.0
    _delay: float = field(init=False)

    def __post_init__(self) -> None:
        self._delay = self.first

    def failed(self, error: BaseException, now: float) -> float:
        """Seconds to wait before the next attempt: at least what the store asks for."""
        pause = self._delay * (0.5 + self.chance() / 2)
        asked = getattr(error, "retry_after", None)
        if isinstance(asked, int | float):
            pause += max(0.0, float(asked))
        self.not_before = now + pause
        self._delay = min(2 * self._delay, self.longest)
        return pause

    def succeeded(self) -> None:
        self._delay, self.not_before = self.first, 0.0
