"""The runs of a session as lines of an export: written, and checked when they are read."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

from threadkeep.domain.run import RunKey
from threadkeep.services.run_log import READ_BYTES
from threadkeep.storage import run_events, run_transfer, text, transfer
from threadkeep.storage.database import Database
from threadkeep.storage.transfer import Fields

_STEP_BYTES = 8 * 1024 * 1024


async def run_lines(database: Database, space_id: str, session_id: str) -> AsyncIterator[tuple[str, Fields]]:
    """The kind and the fields of each line: a run that has ended, its events, what it asked; and the next run."""
    for run in await database.scan(partial(transfer.runs_of, space_id, session_id)):
        yield "run", run
        key, after = RunKey(space_id, session_id, text.decode(run["run_id"])), -1
        while events := await database.scan(partial(run_events.page, key, after, READ_BYTES)):
            data = [event.data for event in events]
            yield "run_events", run_transfer.packed(key, after + 1, data, run["started_at"])
            after = events[-1].index
        for interrupt in await database.scan(partial(run_transfer.interrupts_of, space_id, session_id, run["run_id"])):
            yield "interrupt", interrupt


@dataclass(slots=True)
class RunIntake:
    """The runs of a session whose lines are being read. Their events are written in steps, before the session is."""

    runs: list[Fields] = field(default_factory=list)
    interrupts: list[Fields] = field(default_factory=list)
    _next_index: dict[str, int] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)
    _events: list[Fields] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the events are to be written before more are taken."""
        return self._bytes >= _STEP_BYTES

    def take(self, kind: str, value: Fields) -> str | None:
        """Take a line whose fields have the right names and types. Returns what is wrong with it, if something is."""
        run_id = value["run_id"]
        if kind == "run":
            if run_id in self._next_index:
                return f"a second run with the run_id {text.decode(run_id)!r} in one session"
            self._next_index[run_id] = 0
            self.runs.append(value)
        elif kind == "interrupt":
            name = (run_id, value["interrupt_id"])
            if run_id not in self._next_index or name in self._asked:
                return "an interrupt that is there already, or of a run that is not there"
            self._asked.add(name)
            self.interrupts.append(value)
        else:
            if problem := run_transfer.wrong_with_events(value, self._next_index.get(run_id)):
                return problem
            self._next_index[run_id] += value["count"]
            self._events.append(value)
            self._bytes += len(value["payload"])
        return None

    async def write_events(self, database: Database, space_id: str, session_id: str) -> None:
        """Write the events that were taken."""
        events, self._events, self._bytes = self._events, [], 0
        if events:
            await database.write(lambda: run_transfer.put_events(space_id, session_id, events))

    def forget_events(self) -> None:
        """Drop the events that were taken: the session is there already."""
        self._events, self._bytes = [], 0
