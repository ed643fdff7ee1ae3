"""A run between its agent, its log and its readers: what is seen when, and what becomes of it when the log fails."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tests.chat_history.memory_log import MemoryWriter
from threadkeep.chat_history import logged_stream
from threadkeep.chat_history.logged_stream import LoggedStream
from threadkeep.errors import Unavailable
from threadkeep.streams.run_log import RunEnding

ENDING = RunEnding("finished", {"type": "success"})
Seen = list[tuple[int | None, bytes]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged_stream, "_FIRST_RETRY", 0.001)


class House:
    """A stream on a log that never is late by itself, unless a test says so."""

    def __init__(self, **options: Any) -> None:
        self.log = MemoryWriter()
        self.losses = 0
        settings = {"max_waiting": 1_000_000, "late_after": 3_600.0, "settle": 3_600.0, **options}
        self.stream = LoggedStream("r1", self.log, self.lose, **settings)

    def lose(self) -> None:
        self.losses += 1

    def publish(self, *events: bytes) -> None:
        for event in events:
            self.stream.publish(event)

    def finish(self) -> None:
        self.stream.end(b"end", ENDING)
        self.stream.release()

    async def read(self, after: int = -1, count: int | None = None) -> Seen:
        seen: Seen = []
        if count == 0:
            return seen
        async with asyncio.timeout(20):
            async with aclosing(self.stream.batches(after)) as batches:
                async for batch in batches:
                    seen += batch
                    if count is not None and len(seen) >= count:
                        break
        return seen

    def reader(self, after: int = -1) -> "Reader":
        return Reader(self.stream, after)


class Reader:
    """Somebody who reads, and what they have seen by now."""

    def __init__(self, stream: LoggedStream, after: int) -> None:
        self.seen: Seen = []
        self.task = asyncio.create_task(self._read(stream, after))

    async def _read(self, stream: LoggedStream, after: int) -> None:
        async for batch in stream.batches(after):
            self.seen += batch

    async def to_the_end(self) -> Seen:
        async with asyncio.timeout(20):
            await self.task
        return self.seen


async def turns(count: int = 20) -> None:
    """Let everybody go on as far as they can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_event_is_seen_when_the_log_has_it_and_not_before() -> None:
    house = House()
    reader = house.reader()
    house.log.gate.clear()
    house.publish(b"a")
    await house.log.entered.wait()
    await turns()
    assert reader.seen == []
    house.log.gate.set()
    await turns()
    assert reader.seen == [(0, b"a")]
    house.finish()
    assert await reader.to_the_end() == [(0, b"a"), (1, b"end")]


async def test_what_comes_while_a_group_is_written_is_the_next_group() -> None:
    house = House()
    house.log.gate.clear()
    house.publish(b"a")
    await house.log.entered.wait()
    house.publish(b"b", b"c", b"d")
    house.finish()
    house.log.gate.set()
    assert await house.read() == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"end")]
    assert house.log.calls == [(0, 1), (1, 4)]
    assert house.log.ending == ENDING


@pytest.mark.parametrize("kept", [0, 7, 1_000], ids=["nothing kept", "a little kept", "all kept"])
async def test_a_reader_that_resumes_after_any_index_sees_the_rest_and_nothing_twice(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_stream, "KEPT_BYTES", kept)
    monkeypatch.setattr(logged_stream, "PAGE_BYTES", 8)
    house = House()
    house.publish(*(b"%03d" % n for n in range(6)))
    await house.read(count=6)
    live = [house.reader(after) for after in range(-1, 6)]
    house.publish(*(b"%03d" % n for n in range(6, 12)))
    house.finish()
    whole = [*((n, b"%03d" % n) for n in range(12)), (12, b"end")]
    for after in range(-1, 6):
        assert await live[after + 1].to_the_end() == whole[after + 1 :]
    for after in range(-1, 13):
        assert await house.read(after) == whole[after + 1 :]


async def test_a_reader_that_is_behind_reads_the_log_and_one_that_is_close_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logged_stream, "KEPT_BYTES", 6)
    house = House()
    close = house.reader()
    for number in range(10):
        house.publish(b"%03d" % number)
        await turns()
    assert len(close.seen) == 10
    assert house.log.reads == []
    house.finish()
    await house.read(4)
    # The last event and one before it are kept: `008`, and then `end`, are 6 bytes.
    assert house.log.reads == [4]


async def test_a_slow_reader_holds_nothing_but_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged_stream, "KEPT_BYTES", 1_000)
    house = House()
    slow = house.stream.batches()
    house.publish(b"x" * 100)
    assert await anext(slow) == [(0, b"x" * 100)]
    for _ in range(200):
        house.publish(b"x" * 100)
        await turns(8)
    assert sum(map(len, house.stream._kept)) <= 1_000
    assert house.stream._waiting_bytes == 0
    house.finish()
    assert [index async for batch in slow for index, _ in batch] == [*range(1, 202)]


async def test_readers_are_given_events_without_an_index_while_the_log_does_not_answer() -> None:
    house = House(late_after=0.001)
    reader = house.reader()
    house.publish(b"a")
    await house.read(count=1)
    house.log.gate.clear()
    house.publish(b"b", b"c")
    assert await house.read(0, count=2) == [(None, b"b"), (None, b"c")]
    house.log.gate.set()
    house.finish()
    assert await reader.to_the_end() == [(0, b"a"), (None, b"b"), (None, b"c"), (3, b"end")]
    assert await house.read() == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"end")]
    assert house.log.events == [b"a", b"b", b"c", b"end"]


async def test_a_reader_of_a_log_that_does_not_answer_is_given_each_event_once() -> None:
    house = House(late_after=0.001)
    house.log.gate.clear()
    house.publish(b"a")
    async with aclosing(house.stream.batches()) as batches:
        assert await anext(batches) == [(None, b"a")]
        house.publish(b"b")
        house.publish(b"c")
        assert await anext(batches) == [(None, b"b"), (None, b"c")]
    await house.stream.close()


async def test_readers_have_what_a_fast_log_has_before_the_agent_is_asked_for_more() -> None:
    house = House()
    reader = house.reader()
    await turns()
    for number in range(3):
        house.publish(b"%d" % number)
        await house.stream.room()
        assert reader.seen[number:] == [(number, b"%d" % number)]
    house.finish()
    await reader.to_the_end()


async def test_a_call_that_failed_is_made_again_as_it_was_though_more_has_come() -> None:
    house = House()
    house.log.failures = [Unavailable("gone"), Unavailable("gone")]
    house.log.gate.clear()
    house.publish(b"a", b"b")
    await house.log.entered.wait()
    house.publish(b"c")
    house.finish()
    house.log.gate.set()
    assert [data for _, data in await house.read()] == [b"a", b"b", b"c", b"end"]
    assert house.log.calls == [(0, 2), (0, 2), (0, 2), (2, 2)]
    assert house.log.events == [b"a", b"b", b"c", b"end"]


async def test_the_agent_waits_only_when_too_much_waits_for_the_log() -> None:
    house = House(max_waiting=410)
    house.log.gate.clear()
    # Each takes 200 bytes beside its own.
    house.publish(b"x" * 5, b"x" * 5)
    assert not house.stream.is_full
    house.publish(b"")
    assert house.stream.is_full
    room = asyncio.create_task(house.stream.room())
    await turns()
    assert not room.done()
    house.log.gate.set()
    await room
    assert not house.stream.is_full


async def test_a_large_backlog_goes_to_the_log_in_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged_stream, "GROUP_BYTES", 5)
    house = House()
    house.publish(b"aa", b"bb", b"cc", b"dd", b"eeeeeeee")
    house.finish()
    assert len(await house.read()) == 6
    assert house.log.calls == [(0, 2), (2, 2), (4, 2)]


async def test_the_terminal_event_waits_until_the_history_is_stored() -> None:
    house = House()
    reader = house.reader()
    house.publish(b"a")
    house.stream.end(b"end", ENDING)
    await turns()
    assert (reader.seen, house.log.ending) == ([(0, b"a")], None)
    house.stream.release()
    assert await reader.to_the_end() == [(0, b"a"), (1, b"end")]
    assert house.log.ending == ENDING


async def test_readers_get_the_terminal_event_though_the_store_takes_too_long() -> None:
    house = House(settle=0.001)
    house.publish(b"a")
    house.stream.end(b"end", ENDING)
    assert await house.read() == [(0, b"a"), (None, b"end")]
    assert house.log.ending is None
    house.stream.release()
    await house.stream.written()
    assert house.log.events == [b"a", b"end"]
    assert await house.read() == [(0, b"a"), (1, b"end")]


async def test_a_log_that_is_gone_delays_neither_the_events_nor_for_long_the_end() -> None:
    house = House(late_after=0.001, settle=0.002)
    house.log.gate.clear()
    house.publish(b"a", b"b")
    house.finish()
    assert await house.read() == [(None, b"a"), (None, b"b"), (None, b"end")]
    house.log.gate.set()
    await house.stream.written()
    assert house.log.events == [b"a", b"b", b"end"]


async def test_what_an_agent_said_of_its_end_never_keeps_the_run_from_ending() -> None:
    house = House()
    house.log.refuse_outcomes = True
    house.finish()
    assert await house.read() == [(0, b"end")]
    assert house.log.ending == RunEnding("finished")


async def test_a_run_that_somebody_else_has_is_written_no_more_and_read_from_the_log() -> None:
    house = House(late_after=0.001)
    reader = house.reader()
    house.publish(b"a")
    await house.read(count=1)
    house.log.gate.clear()
    house.publish(b"b")
    assert await house.read(0, count=1) == [(None, b"b")]
    house.log.give_away(b"ended by its new owner")
    house.log.gate.set()
    assert await reader.to_the_end() == [(0, b"a"), (None, b"b"), (1, b"ended by its new owner")]
    assert house.losses == 1
    assert house.stream.closed
    with pytest.raises(ValueError, match="closed"):
        house.publish(b"c")
    assert await house.read(0) == [(1, b"ended by its new owner")]


async def test_nothing_is_published_behind_a_terminal_event() -> None:
    house = House()
    house.finish()
    with pytest.raises(ValueError, match="closed"):
        house.publish(b"late")
    with pytest.raises(ValueError, match="it has a terminal event"):
        house.stream.end(b"again", ENDING)


async def test_a_reader_of_a_log_that_was_erased_ends() -> None:
    house = House()
    house.publish(b"a")
    await house.read(count=1)
    house.stream._kept.clear()
    house.log.events.clear()
    assert await house.read() == []
