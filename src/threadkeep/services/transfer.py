"""Moving spaces between databases, as lines of JSON.

The first line names the format, the last one says that nothing is missing. Between them each space is followed by its
sessions, and each session by its runs with their logs, its jobs and its events, with a line `end` that says that it is
whole; behind the sessions come the memories of the space.
"""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from threadkeep import clock, ids
from threadkeep.domain import lifecycle, limits
from threadkeep.errors import Invalid, NotFound
from threadkeep.services.run_transfer import RunIntake, run_lines
from threadkeep.storage import lookup_keys, memory_transfer, text, transfer
from threadkeep.storage.database import Database
from threadkeep.storage.transfer import Fields

FORMAT = {"format": "threadkeep", "version": 1}
_NAMES = {"event": "deduplication_key", "job": "kind"}
_OF_RUNS = ("run", "run_events", "interrupt")
_STEP = 500
"""Events that are read or written at once."""
_STEP_BYTES = 8 * 1024 * 1024
_LONGEST = 128 * 1024 * 1024
"""Characters of a line; no event comes near."""


@dataclass(slots=True)
class Moved:
    """What went over. `skipped` are sessions that were there already; memories that were are not counted."""

    spaces: int = 0
    sessions: int = 0
    events: int = 0
    skipped: int = 0
    memories: int = 0


@dataclass(slots=True)
class Stopped:
    """Where an export is to go on: behind this session."""

    space_id: str
    session_id: str


@dataclass(slots=True)
class _Session:
    """A session whose lines are being read."""

    fields: Fields
    line: int
    is_wanted: bool
    people: list[str]
    runs: RunIntake = field(default_factory=RunIntake)
    jobs: list[Fields] = field(default_factory=list)
    events: list[Fields] = field(default_factory=list)
    named: set[tuple[str, str]] = field(default_factory=set)
    """What of it has a name that nothing else of its kind may have."""
    last: int = 0
    count: int = 0
    bytes: int = 0


class Transfer:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, space_id: str | None, participant: str | None) -> int:
        """The sessions that an export has. Raises NotFound."""
        spaces = await self._spaces(space_id)
        look = self._database.scan
        return sum([await look(partial(transfer.session_count, space["space_id"], participant)) for space in spaces])

    async def export(
        self, space_id: str | None, participant: str | None, behind: Stopped | None = None
    ) -> AsyncIterator[str]:
        """The lines of one space, or of all; of one participant's sessions and memories, or of all. Raises NotFound."""
        spaces = await self._spaces(space_id)
        if behind is None:
            yield _line(FORMAT)
            for user in await self._database.scan(transfer.all_users):
                yield _line({"user": user})
        for space in spaces:
            at = space["space_id"]
            if behind is not None and at < behind.space_id:
                continue
            after = ""
            if behind is not None and at == behind.space_id:
                after = behind.session_id
            else:
                yield _line({"space": space})
            look = partial(transfer.some_sessions, at, participant)
            while page := await self._database.scan(partial(look, after, 100)):
                for session in page:
                    after = session["session_id"]
                    async for line in self._session(at, session):
                        yield line
            after = ""
            some = partial(memory_transfer.some, at, participant)
            while memories := await self._database.scan(partial(some, after, _STEP)):
                for memory in memories:
                    yield _line({"memory": memory})
                after = memories[-1]["memory_id"]
        yield _line({"done": {}})

    async def bring(
        self, lines: Iterable[str], user: str | None = None, progress: Callable[[], None] = lambda: None
    ) -> Moved:
        """Take in the lines of an export; what is there already is skipped. `user` is the name of who is to own it all.

        A session comes whole or not at all. Raises Invalid, which names the line.
        """
        moved = Moved()
        owners: dict[str, tuple[str, str]] = {}
        space_id: str | None = None
        owner = ""
        current: _Session | None = None
        done = False
        for number, kind, value in _read(lines):
            done = kind == "done"
            if kind == "user":
                _check(kind, value, number)
                owners[value["user_id"]] = await self._database.write(partial(transfer.put_user, value))
            elif kind == "space" and current is None:
                _check(kind, value, number)
                await self._put_space(value, owners, user, number)
                space_id, owner = value["space_id"], value["user_id"]
                moved.spaces += 1
            elif kind == "session" and current is None and space_id is not None:
                current = await self._begin(space_id, value, number)
            elif kind in _OF_RUNS and current is not None and space_id is not None:
                _check(kind, value, number)
                await self._take_run(space_id, current, kind, value, number)
            elif kind in ("job", "event") and current is not None and space_id is not None:
                _check(kind, value, number)
                await self._take((space_id, owner), current, kind, value, number)
            elif kind == "memory" and current is None and space_id is not None:
                moved.memories += await self._put_memory(space_id, value, number)
            elif kind == "end" and current is not None and space_id is not None:
                await self._finish((space_id, owner), current, value, number)
                moved.sessions += current.is_wanted
                moved.skipped += not current.is_wanted
                moved.events += current.count if current.is_wanted else 0
                current = None
                progress()
            elif kind != "done" or current is not None:
                raise _bad(number, f"{kind!r} does not belong here")
        if not done:
            raise Invalid("The export ends before its last line: it was cut off. What was whole is there now")
        return moved

    async def _spaces(self, space_id: str | None) -> list[Fields]:
        found = await self._database.scan(partial(transfer.live_spaces, space_id))
        if space_id is not None and not found:
            raise NotFound(f"There is no memory space {space_id!r}")
        return found

    async def _session(self, space_id: str, session: Fields) -> AsyncIterator[str]:
        session_id, last = session["session_id"], session["last_seq"]
        yield _line({"session": session})
        async for kind, fields in run_lines(self._database, space_id, session_id):
            yield _line({kind: fields})
        for job in await self._database.scan(partial(transfer.jobs_of, space_id, session_id)):
            yield _line({"job": job})
        after = count = 0
        while page := await self._database.scan(
            partial(transfer.some_events, space_id, session_id, after, last, _STEP)
        ):
            for event in page:
                yield _line({"event": event})
            after, count = page[-1]["seq"], count + len(page)
        yield _line({"end": {"space_id": space_id, "session_id": session_id, "events": count}})

    async def _put_space(
        self, value: Fields, owners: dict[str, tuple[str, str]], user: str | None, number: int
    ) -> None:
        owner = owners.get(value["user_id"])
        if user is not None:
            named = {"user_id": ids.new_user_id(), "tenant_id": value["tenant_id"], "created_at": value["created_at"]}
            owner = await self._database.write(partial(transfer.put_user, {**named, "name": text.encode(user)}))
        if owner is not None:
            value["user_id"], value["tenant_id"] = owner
        if problem := await self._database.write(partial(transfer.put_space, value)):
            raise _bad(number, problem)

    async def _put_memory(self, space_id: str, value: Fields, number: int) -> bool:
        _check("memory", value, number)
        if problem := memory_transfer.wrong_with(value):
            raise _bad(number, problem)
        put = await self._database.write(partial(memory_transfer.put, space_id, value, clock.now()))
        if isinstance(put, str):
            raise _bad(number, put)
        return put

    async def _begin(self, space_id: str, value: Fields, number: int) -> _Session:
        _check("session", value, number)
        people = _json(value["participants"], list, "participants", number)
        if not people or not all(isinstance(person, str) for person in people):
            raise _bad(number, "participants are no list of names")
        if value["metadata"] is not None:
            _json(value["metadata"], dict, "metadata", number)
        if not _are_strategies(value["strategies"]):
            raise _bad(number, "'strategies' are not what an export has")
        begun = await self._database.write(partial(transfer.begin_session, space_id, value))
        if isinstance(begun, str):
            raise _bad(number, begun)
        return _Session(value, number, begun, people)

    async def _take(self, place: tuple[str, str], current: _Session, kind: str, value: Fields, number: int) -> None:
        name = value[_NAMES[kind]]
        if name is not None:
            if (kind, name) in current.named:
                raise _bad(number, f"a second {kind} with the {_NAMES[kind]} {name!r} in one session")
            current.named.add((kind, name))
        if kind == "job" and value["payload"] is not None:
            _json(value["payload"], dict, "payload", number)
        if kind != "event":
            current.jobs.append(value)
            return
        if not current.last < value["seq"] <= current.fields["last_seq"]:
            raise _bad(number, f"the event {value['seq']} is out of order, or beyond the last number of its session")
        _json(value["body"], dict, "body", number)
        for key in _lookup_keys(value["lookup_keys"], number):
            name = f"{value['type'] or ''}\n{key}"
            if ("lookup key", name) in current.named:
                raise _bad(number, f"a second event of its type with the lookup key {key!r} in one session")
            current.named.add(("lookup key", name))
        current.last = value["seq"]
        current.count += 1
        if current.is_wanted:
            current.events.append(value)
            current.bytes += len(value["body"])
            if len(current.events) >= _STEP or current.bytes >= _STEP_BYTES:
                await self._write_events(place, current, number)

    async def _take_run(self, space_id: str, current: _Session, kind: str, value: Fields, number: int) -> None:
        if problem := current.runs.take(kind, value):
            raise _bad(number, problem)
        if not current.is_wanted:
            current.runs.forget_events()
        elif current.runs.is_full:
            await current.runs.write_events(self._database, space_id, current.fields["session_id"])

    async def _finish(self, place: tuple[str, str], current: _Session, value: Fields, number: int) -> None:
        _check("end", value, number)
        if value["session_id"] != current.fields["session_id"] or value["events"] != current.count:
            raise _bad(number, f"events are missing: there are {current.count} of the session of line {current.line}")
        if current.is_wanted:
            await self._write_events(place, current, number)
            runs = current.runs
            await runs.write_events(self._database, place[0], current.fields["session_id"])
            what = (current.fields, current.people, current.count, runs.runs, runs.interrupts, current.jobs)
            await self._database.write(partial(transfer.finish_session, place[0], *what))

    async def _write_events(self, place: tuple[str, str], current: _Session, number: int) -> None:
        if current.events:
            at = (*place, current.fields["session_id"])
            if problem := await self._database.write(partial(transfer.put_events, *at, current.events)):
                raise _bad(number, problem)
            current.events, current.bytes = [], 0


def last_whole(lines: Iterable[str]) -> tuple[Stopped | None, int, bool]:
    """How far an export came that was stopped: its last whole session, the lines to keep, and whether it is done.

    Raises Invalid where the lines are no export's: they are somebody else's, and not to be written over.
    """
    stopped, keep, done = None, 0, False
    rest = iter(lines)
    first = next(rest, "")
    if not _line(FORMAT).startswith(first):
        raise _unknown()
    # What was cut off in the middle of a line is the end of it.
    whole = itertools.takewhile(lambda line: line.endswith("\n"), itertools.chain([first], rest))
    for number, kind, value in _read(whole):
        done = kind == "done"
        if kind == "end":
            _check("end", value, number)
            stopped = Stopped(value["space_id"], value["session_id"])
        if kind in ("end", "done"):
            keep = number
    return stopped, keep, done


def _read(lines: Iterable[str]) -> Iterator[tuple[int, str, Any]]:
    """The lines behind the first one: their number, their kind and their value. Raises Invalid."""
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            found = _object(number, line)
            if number == 1:
                if found != FORMAT:
                    raise _unknown()
                continue
            if len(found) != 1:
                raise _bad(number, "a line is an object with one key")
            ((kind, value),) = found.items()
            if not isinstance(value, dict):
                raise _bad(number, f"{kind!r} is not an object")
            yield number, kind, value
    except UnicodeDecodeError as error:
        raise _bad(number + 1, f"not UTF-8: {error.reason}") from error


def _object(number: int, line: str) -> dict[str, Any]:
    if len(line) > _LONGEST:
        raise _bad(number, f"{len(line):,} characters; the limit is {_LONGEST:,}")
    found = _json(line, dict, "the line", number)
    assert isinstance(found, dict)
    return found


def _json(kept: str, type_: type, what: str, number: int) -> Any:
    try:
        found = json.loads(kept)
    except (ValueError, RecursionError):
        raise _bad(number, f"{what} is not JSON") from None
    if not isinstance(found, type_):
        raise _bad(number, f"{what} is no {'list' if type_ is list else 'object'}")
    return found


def _lookup_keys(kept: str | None, number: int) -> list[str]:
    if kept is None:
        return []
    found: list[str] = _json(kept, list, "lookup_keys", number)
    try:
        limits.check_lookup_keys(found)
    except (Invalid, TypeError):
        raise _bad(number, "'lookup_keys' are not what an export has") from None
    if len(set(found)) < len(found) or lookup_keys.kept(found) != kept:
        raise _bad(number, "'lookup_keys' are not what an export has")
    return found


def _are_strategies(kept: str) -> bool:
    try:
        return lifecycle.to_json(lifecycle.from_json(kept)) == kept
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _check(kind: str, value: Fields, number: int) -> None:
    if problem := transfer.wrong_with(kind, value):
        raise _bad(number, problem)
    for name in ("space_id", "session_id"):
        if name in value and not ids.is_id(value[name]):
            raise _bad(number, f"{name!r} is no id")


def _bad(number: int, problem: str) -> Invalid:
    return Invalid(f"Line {number}: {problem}")


def _unknown() -> Invalid:
    return _bad(1, f"this is no export that is known here; one begins with {_line(FORMAT).strip()}")


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
