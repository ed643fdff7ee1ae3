"""Readers of runs, on both engines: whenever they come and wherever it runs, nothing is missing and nothing twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from valkey.asyncio import Valkey

from tests.services.run_stage import At, a_session, begun, numbered, taken_over, whole
from threadkeep.domain.run import Run, RunKey
from threadkeep.services import run_log
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage import run_events
from threadkeep.storage.statement import Row, Steps
from threadkeep.streams.run_log import LoggedEvent
from threadkeep.testing.valkey import ValkeyProcess

FAR = 1_000.0
"""Seconds between two looks that no test lives to see: what is read then was told by the bus."""
PATIENCE = 60


@pytest.fixture
async def at(container: Container) -> At:
    return await a_session(container)


@asynccontextmanager
async def two(database: str, valkey: str | None) -> AsyncIterator[tuple[Container, Container]]:
    """Two processes on one database."""
    settings = Settings(database=database, valkey=valkey)
    one, other = await Container.open(settings), await Container.open(settings)
    try:
        yield one, other
    finally:
        await one.close()
        await other.close()


async def read(container: Container, key: RunKey, after: int = -1) -> list[tuple[int, bytes]]:
    async with asyncio.timeout(PATIENCE):
        return [(event.index, event.data) async for event in container.run_log.follow(key, after)]


async def write(container: Container, run: Run, events: list[bytes], made: random.Random) -> None:
    """Append in groups of any size, with any number of turns of the loop between them, and end the run."""
    place = 0
    while place < len(events) - 1:
        some = events[place : min(place + made.randint(1, 7), len(events) - 1)]
        await container.run_log.append(run, place, some)
        place += len(some)
        for _ in range(made.randint(0, 5)):
            await asyncio.sleep(0)
    assert await container.runs.finish(run, status="finished", events=events[place:], first=place)


async def test_readers_that_join_at_any_moment_get_all_that_is_behind_their_place(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", FAR)
    monkeypatch.setattr(run_log, "READ_BYTES", 40)
    for seed in range(12):
        made = random.Random(seed)
        events = [f"event {number}".encode() for number in range(made.randint(1, 60))]
        run = await begun(container, at, f"r{seed}")
        places = [made.randint(-1, len(events) + 1) for _ in range(25)]

        async def join(after: int, turns: int) -> list[tuple[int, bytes]]:
            for _ in range(turns):
                await asyncio.sleep(0)
            return await read(container, run.key, after)  # noqa: B023

        readers = [asyncio.create_task(join(after, made.randint(0, 120))) for after in places]
        await write(container, run, events, made)

        assert await asyncio.gather(*readers) == [numbered(events)[after + 1 :] for after in places]


async def test_a_reader_of_a_run_that_has_ended_ends_at_once(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", FAR)
    run = await begun(container, at)
    await container.runs.finish(run, status="finished", events=[b"a", b"b"], first=0)

    assert await read(container, run.key) == [(0, b"a"), (1, b"b")]
    assert await read(container, run.key, 0) == [(1, b"b")]
    assert await read(container, run.key, 1) == []
    assert await read(container, run.key, 99) == []
    silent = await begun(container, at, "silent")
    await container.runs.finish(silent, status="errored")
    assert await read(container, silent.key) == []


async def test_a_reader_of_a_run_whose_owner_is_gone_ends_when_somebody_ends_it(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", FAR)
    lost = await begun(container, at, owner="gone")
    await container.run_log.append(lost, 0, [b"a"])
    reader = asyncio.create_task(read(container, lost.key))
    run = await taken_over(container, lost, "rescuer")

    await container.runs.finish(run, status="interrupted", events=[b"end"])

    assert await reader == [(0, b"a"), (1, b"end")]


async def test_a_run_that_ends_between_two_looks_of_a_reader_is_read_to_its_end(container: Container, at: At) -> None:
    run = await begun(container, at)
    looking = run_log._look(run.key, -1)
    statement, values = next(looking)

    def one() -> Steps[list[Row]]:
        return (yield statement, values)

    found = await container.database.read(one)
    await container.runs.finish(run, status="finished", events=[b"end"], first=0)
    events: list[LoggedEvent] = []
    is_open = False
    try:
        while True:
            statement, values = looking.send(found)
            found = await container.database.read(one)
    except StopIteration as stop:
        events, is_open = stop.value

    assert events or is_open, "neither the end nor that there is more to come"


async def test_a_reader_gets_an_event_before_there_is_another(
    database: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", FAR)
    async with two(database, valkey_url) as (one, other), asyncio.timeout(PATIENCE):
        run = await begun(one, await a_session(one))
        async with aclosing(one.run_log.follow(run.key)) as near, aclosing(other.run_log.follow(run.key)) as far:
            for number in range(5):
                waiting = [asyncio.create_task(anext(near)), asyncio.create_task(anext(far))]
                await asyncio.sleep(0)
                await one.run_log.append(run, number, [b"x"])
                assert [(await each).index for each in waiting] == [number, number]


async def test_a_reader_holds_a_page_at_most(container: Container, at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "READ_BYTES", 5_000)
    monkeypatch.setattr(run_events, "ROW_BYTES", 1_000)
    run = await begun(container, at)
    events = [bytes([number]) * 100 for number in range(250)]
    await container.runs.finish(run, status="finished", events=events, first=0)
    held: list[int] = []
    page = run_events.page

    def watched(*given: object) -> object:
        found = yield from page(*given)  # type: ignore[arg-type]
        held.append(sum(len(event.data) for event in found))
        return found

    monkeypatch.setattr(run_events, "page", watched)

    assert await read(container, run.key) == numbered(events)
    assert held == [5_000] * 5 + [0]


async def test_a_run_of_another_process_is_followed_without_any_broker(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", 0.01)
    async with two(database, None) as (one, other):
        await _followed_elsewhere(one, other)


async def test_over_valkey_it_is_followed_without_looking(
    database: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", FAR)
    async with two(database, valkey_url) as (one, other):
        await _followed_elsewhere(one, other)


async def test_valkey_flushed_in_the_middle_loses_nothing(
    database: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", FAR)

    async def flush() -> None:
        async with Valkey.from_url(valkey_url) as client:
            await client.flushall()

    async with two(database, valkey_url) as (one, other):
        await _followed_elsewhere(one, other, flush)


async def test_valkey_killed_and_started_again_in_the_middle_loses_nothing(
    database: str, valkey_process: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", 0.05)

    async def restart() -> None:
        valkey_process.kill()
        await asyncio.sleep(0)
        await asyncio.to_thread(valkey_process.restart)

    async with two(database, valkey_process.url) as (one, other):
        await _followed_elsewhere(one, other, restart)


async def test_valkey_that_is_not_there_at_the_start_loses_nothing(
    database: str, valkey_process: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "LOOK_SECONDS", 0.05)
    valkey_process.kill()
    async with two(database, valkey_process.url) as (one, other):
        await _followed_elsewhere(one, other)


async def _followed_elsewhere(
    one: Container, other: Container, disturb: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Forty events, written in one process and followed in both, with something that happens in the middle."""
    run = await begun(one, await a_session(one))
    events = [f"event {number}".encode() for number in range(40)]
    readers = [
        asyncio.create_task(read(container, run.key, after)) for container in (one, other) for after in (-1, 3, 30)
    ]
    for number, event in enumerate(events[:-1]):
        if number == 20 and disturb is not None:
            await disturb()
        await one.run_log.append(run, number, [event])
        await asyncio.sleep(0)
    await one.runs.finish(run, status="finished", events=events[-1:], first=39)

    expected = [numbered(events)[after + 1 :] for after in (-1, 3, 30)]
    assert await asyncio.gather(*readers) == [*expected, *expected]
    assert await whole(other, run.key) == numbered(events)
