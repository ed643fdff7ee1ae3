"""The logs of runs, on both engines: what is appended is there, once, in order, and by its owner only."""

import asyncio
import random

import pytest

from tests.services.run_stage import At, a_session, begun, numbered, taken_over, whole
from threadkeep.domain.run import Run
from threadkeep.errors import LeaseLost, Unavailable
from threadkeep.services.container import Container
from threadkeep.storage import run_events

ODD = [
    b'{"a":"\\ud800"}',
    b"two\nlines\r\n\r",
    b"\0\0\0",
    b"\xff\xfe not UTF-8 \xc3",
    b"",
    b'{"delta":"\\u0000"}',
    "ü💡".encode(),
]


@pytest.fixture
async def at(container: Container) -> At:
    return await a_session(container)


async def test_events_come_back_as_they_went_in_and_after_any_index(container: Container, at: At) -> None:
    run = await begun(container, at, "odd \0 id: 7")
    await container.run_log.append(run, 0, ODD[:3])
    await container.run_log.append(run, 3, ODD[3:4])
    await container.run_log.append(run, 4, ODD[4:])

    assert await whole(container, run.key) == numbered(ODD)
    for after in range(-1, len(ODD) + 1):
        assert await whole(container, run.key, after) == numbered(ODD)[after + 1 :]
    assert await container.run_log.length(run.key) == 7


async def test_large_events_come_back_and_a_page_holds_about_what_was_asked_for(container: Container, at: At) -> None:
    run = await begun(container, at)
    made = random.Random(7)
    events = [made.randbytes(size) for size in (1_000_000, 10, 70_000, 20, 60_000, 60_000, 3)]
    await container.run_log.append(run, 0, events[:1])
    await container.run_log.append(run, 1, events[1:])

    assert await whole(container, run.key) == numbered(events)
    sizes = []
    after = -1
    while page := await container.run_log.read(run.key, after, max_bytes=100_000):
        sizes.append(sum(len(event.data) for event in page))
        after = page[-1].index
    assert sizes == [1_000_000, 130_030, 60_003] or max(sizes[1:]) <= 100_000 + run_events.ROW_BYTES


async def test_what_is_appended_again_after_an_answer_was_lost_is_there_once(container: Container, at: At) -> None:
    run = await begun(container, at)
    await container.run_log.append(run, 0, [b"a", b"b"])
    await container.run_log.append(run, 0, [b"a", b"b"])
    await container.run_log.append(run, 0, [b"a", b"b", b"c"])
    await container.run_log.append(run, 3, [b"d"])

    assert await whole(container, run.key) == numbered([b"a", b"b", b"c", b"d"])
    with pytest.raises(LeaseLost):
        await container.run_log.append(run, 0, [b"a", b"x"])
    with pytest.raises(LeaseLost):
        await container.run_log.append(run, 3, [b"other"])
    assert await container.run_log.length(run.key) == 4


async def test_an_owner_who_has_lost_the_run_writes_nothing_any_more(container: Container, at: At) -> None:
    lost = await begun(container, at, owner="slow")
    await container.run_log.append(lost, 0, [b"a"])
    run = await taken_over(container, lost, "rescuer")

    with pytest.raises(LeaseLost, match=r"The run 'r' of session .* is not held by 'slow' any more"):
        await container.run_log.append(lost, 1, [b"late"])
    assert not await container.runs.finish(lost, status="finished", events=[b"late"], first=1)
    await container.run_log.append(run, 1, [b"b"])
    with pytest.raises(LeaseLost):
        await container.run_log.append(lost, 2, [b"at an index that is free"])
    assert await container.runs.finish(run, status="interrupted", events=[b"end"])
    for owner in (lost, run):
        with pytest.raises(LeaseLost):
            await container.run_log.append(owner, 3, [b"late"])

    assert await whole(container, run.key) == numbered([b"a", b"b", b"end"])


async def test_a_run_that_is_not_there_has_no_log(container: Container, at: At) -> None:
    run = await begun(container, at)
    await container.erasure.erase("p")

    with pytest.raises(LeaseLost):
        await container.run_log.append(run, 0, [b"a"])
    assert await container.run_log.length(run.key) == 0
    assert [event async for event in container.run_log.follow(run.key)] == []


async def test_of_two_owners_who_write_at_once_exactly_one_goes_on(container: Container, at: At) -> None:
    for attempt in range(25):
        lost = await begun(container, at, f"r{attempt}", owner="slow")
        rescue = asyncio.create_task(_rescue(container, lost))
        written = await _write_until_lost(container, lost)

        assert await rescue == written
        assert await whole(container, lost.key) == numbered([*[b"slow"] * written, b"end"])


async def _write_until_lost(container: Container, lost: Run) -> int:
    written = 0
    try:
        while True:
            await container.run_log.append(lost, written, [b"slow"])
            written += 1
    except LeaseLost:
        return written


async def _rescue(container: Container, lost: Run) -> int:
    run = await taken_over(container, lost, "rescuer")
    there = await container.run_log.length(run.key)
    assert await container.runs.finish(run, status="interrupted", events=[b"end"], first=there)
    return there


async def test_forty_runs_append_at_once_and_each_log_is_its_own(container: Container) -> None:
    sessions = [await a_session(container) for _ in range(40)]
    runs = [await begun(container, at, "same id") for at in sessions]
    said = [[f"{number} {place}".encode() for place in range(50)] for number in range(40)]

    async def write(number: int) -> None:
        made, place = random.Random(number), 0
        while place < 50:
            some = said[number][place : place + made.randint(1, 5)]
            await container.run_log.append(runs[number], place, some)
            place += len(some)
        assert await container.runs.finish(runs[number], status="finished", events=[b"end"], first=50)

    await asyncio.gather(*[write(number) for number in range(40)])

    for number in range(40):
        assert await whole(container, runs[number].key) == numbered([*said[number], b"end"])


async def test_one_who_lost_the_run_disturbs_nobody_who_appends_at_the_same_time(container: Container) -> None:
    runs = [await begun(container, await a_session(container)) for _ in range(10)]
    await taken_over(container, runs[4], "rescuer")

    answers = await asyncio.gather(*[container.run_log.append(run, 0, [b"a"]) for run in runs], return_exceptions=True)

    assert [isinstance(answer, LeaseLost) for answer in answers] == [number == 4 for number in range(10)]
    assert [await container.run_log.length(run.key) for run in runs] == [int(number != 4) for number in range(10)]


async def test_a_closed_database_is_said_to_be_unavailable(container: Container, at: At) -> None:
    run = await begun(container, at)
    await container.database.close()

    with pytest.raises(Exception) as caught:
        await container.run_log.append(run, 0, [b"a"])
    assert isinstance(caught.value, Unavailable)
