"""The logs of runs that have ended are made small, and say what they said, on both engines."""

import asyncio
import json
import random
from pathlib import Path

import pytest
from sqlalchemy import func, select

from tests.passing_time import queued, seconds_from_now, work_at
from tests.services.run_stage import At, a_session, begun, numbered, whole
from threadkeep.domain.job import COMPACTION
from threadkeep.errors import LeaseLost
from threadkeep.services import compaction
from threadkeep.services.container import Container
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import run_events

_ROWS = Statement(select(func.count(), func.sum(func.length(run_events.c.payload))).select_from(run_events))


@pytest.fixture
async def at(container: Container) -> At:
    return await a_session(container)


def deltas(count: int) -> list[bytes]:
    """What an agent says, word by word, as it comes over the wire."""
    words = (Path(__file__).parents[2] / "LICENSE").read_text().split()
    message = "3f1c1c0e-7d5b-4b1e-9a53-0c7c2f5f7a11"
    said = {"type": "TEXT_MESSAGE_CONTENT", "messageId": message}
    return [json.dumps({**said, "delta": f"{words[n % len(words)]} "}).encode() for n in range(count)]


async def held(container: Container) -> tuple[int, int]:
    """The rows of all logs, and their bytes."""
    ((rows, size),) = await container.database.read(lambda: (yield _ROWS, {}))
    return int(rows), int(size or 0)


async def write(container: Container, at: At, run_id: str, events: list[bytes], group: int = 5) -> None:
    run = await begun(container, at, run_id)
    for place in range(0, len(events) - 1, group):
        await container.run_log.append(run, place, events[place : min(place + group, len(events) - 1)])
    assert await container.runs.finish(run, status="finished", events=events[-1:], first=len(events) - 1)


async def test_a_log_is_a_twentieth_of_what_was_said_a_minute_after_its_run(container: Container, at: At) -> None:
    events = deltas(1_500)
    said = sum(map(len, events))
    await write(container, at, "r", events)
    rows_before, before = await held(container)

    await work_at(container, seconds_from_now(50))
    assert await held(container) == (rows_before, before)
    await work_at(container, seconds_from_now(70))

    rows, after = await held(container)
    assert (rows_before, rows) == (301, 1)
    assert said // 1_500 == 104
    assert before == said + 4 * 1_500
    assert after < 5 * 1_500
    run = await container.runs.get(*at, "r")
    assert await whole(container, run.key) == numbered(events)
    for place in (0, 1_023, 1_498, 1_499):
        assert await whole(container, run.key, place) == numbered(events)[place + 1 :]
    assert await container.run_log.length(run.key) == 1_500
    assert await queued(container, COMPACTION) == {}


async def test_a_long_log_becomes_rows_of_a_size_that_a_reader_can_hold(container: Container, at: At) -> None:
    made = random.Random(5)
    events = [made.randbytes(made.choice((3, 40_000))) for _ in range(60)]
    await write(container, at, "r", events)

    await work_at(container, seconds_from_now(70))

    run = await container.runs.get(*at, "r")
    assert await whole(container, run.key) == numbered(events)
    rows, size = await held(container)
    said = sum(map(len, events)) + 4 * 60
    assert rows == said // compaction.ROW_BYTES + 1
    assert size == said, "what deflating makes no shorter is kept as it is"


async def test_runs_that_go_on_are_left_alone_and_those_that_end_later_get_their_turn(
    container: Container, at: At
) -> None:
    await write(container, at, "r1", deltas(30))
    going = await begun(container, at, "r2")
    await container.run_log.append(going, 0, [b"a"])
    await container.run_log.append(going, 1, [b"b"])
    await work_at(container, seconds_from_now(70))
    assert (await held(container))[0] == 3

    await container.runs.finish(going, status="finished", events=[b"c"], first=2)
    assert await queued(container, COMPACTION) == {at[2]: None}
    await work_at(container, seconds_from_now(140))

    assert (await held(container))[0] == 2
    assert await whole(container, going.key) == numbered([b"a", b"b", b"c"])


async def test_a_reader_in_the_middle_goes_on_while_the_log_is_rewritten(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "ROW_BYTES", 700)
    events = deltas(300)
    await write(container, at, "r", events)
    run = await container.runs.get(*at, "r")

    async def read(size: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        while page := await container.run_log.read(run.key, len(found) - 1, max_bytes=size):
            found += [(event.index, event.data) for event in page]
            await asyncio.sleep(0)
        return found

    readers = [asyncio.create_task(read(size)) for size in (1, 300, 1_000, 5_000)]
    await work_at(container, seconds_from_now(70))

    assert await asyncio.gather(*readers) == [numbered(events)] * 4


async def test_who_has_lost_the_job_rewrites_nothing(container: Container, at: At) -> None:
    events = deltas(100)
    await write(container, at, "r", events)
    now = seconds_from_now(70)
    (job,) = await container.jobs.claim("slow", [COMPACTION], now, limit=1)
    later = now + 3600 * 1_000_000
    (again,) = await container.jobs.claim("quick", [COMPACTION], later, limit=1)
    before = await held(container)

    with pytest.raises(LeaseLost):
        await container.compaction.run(job, now)

    assert await held(container) == before
    await container.compaction.run(again, later)
    assert (await held(container))[0] == 1
    assert await whole(container, (await container.runs.get(*at, "r")).key) == numbered(events)
