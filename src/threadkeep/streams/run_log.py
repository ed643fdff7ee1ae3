"""What the log of a run is to whoever writes or reads it, and the coordinate of an event in it.

The protocols stand here because both towers meet here: the services keep such a log in the database, and
`StreamPersistenceManager` writes to one without knowing where it is.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import unquote

_ODD = re.compile("[\r\n\0%\ud800-\udfff]")
_INDEX = re.compile("0|[1-9][0-9]{0,17}")


Batch = Sequence[tuple[int | None, bytes]]
"""Events of a run that a reader is given at once, each with its index, or with None where the log lacks it yet."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as it came. `index` counts the events of its run from 0, without a gap; `data` is its JSON."""

    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run has ended. `outcome` and `usage` are what its terminal event says, `error` is why it failed.

    `interrupts` are the questions that it has ended with, each as it came.
    """

    status: Literal["finished", "errored", "interrupted"]
    outcome: Any = None
    usage: Any = None
    error: str | None = None
    interrupts: Sequence[Any] = ()


class RunWriter(Protocol):
    """One run in a log. One call of `append` or `finish` at a time; one that failed is made again as it was."""

    is_new: bool
    """False where the log has the run already: it may be followed, and is not carried out a second time."""

    async def append(self, first: int, events: Sequence[bytes]) -> None:
        """Write the events with the indexes from `first` on. When this returns, they survive this process.

        Raises LeaseLost (somebody else has the run now, nothing was written), Unavailable (whether it was written is
        not known).
        """

    async def finish(self, first: int, events: Sequence[bytes], ending: RunEnding) -> None:
        """Write the last events and end the run, both or nothing. Raises LeaseLost, Unavailable, like `append`."""

    async def read(self, after: int, max_bytes: int) -> Sequence[LoggedEvent]:
        """What comes after the index, about `max_bytes` of it and at least one event. Raises Unavailable."""

    def follow(self, after: int) -> AsyncIterator[LoggedEvent]:
        """Each event after the index as it comes, to the end of the run. Raises Unavailable."""


class RunLog(Protocol):
    """Where runs are kept."""

    async def begin(self, run_input: Any, cancel: Callable[[], object]) -> RunWriter:
        """Begin a run, or find it where it was begun before. `run_input` is what the agent is given.

        `cancel` is called, in the loop of the caller, when somebody wants the run to end.
        Raises RunActive (the thread has another run), Unavailable.
        """


def format_cursor(run_id: str, index: int) -> str:
    """`{runId}:{index}`: the id of an event's frame, and the cursor after which a reader goes on.

    What would end a line of a stream, or has no UTF-8, is percent-encoded, and so is `%` itself.
    """
    return f"{_ODD.sub(_percent, run_id)}:{index}"


def parse_cursor(text: str) -> tuple[str, int]:
    """The run id and the index that a cursor names. Raises ValueError where it is none."""
    run_id, _, index = text.rpartition(":")
    if not run_id or not _INDEX.fullmatch(index):
        raise ValueError(f"{text!r} is no cursor of a run; one reads RUN_ID:INDEX")
    return unquote(run_id, errors="surrogatepass"), int(index)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
