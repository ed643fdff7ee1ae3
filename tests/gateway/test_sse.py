"""Frames for clients, and the reader of other servers' streams."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.gateway.sse import KEEPALIVE, EventReader, EventTooLarge, frame, frames

LIMIT = 1_000_000


def read(*chunks: bytes, limit: int = LIMIT) -> list[bytes]:
    reader = EventReader(limit)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close()


def test_a_frame_names_its_run_and_index_and_ends_with_an_empty_line() -> None:
    assert frame("r-1", 7, b'{"type":"RUN_STARTED"}') == b'id: r-1:7\ndata: {"type":"RUN_STARTED"}\n\n'


def test_data_of_several_lines_goes_out_as_several_data_lines() -> None:
    assert frame("r", 0, b'{\r\n "a": 1\n}') == b'id: r:0\ndata: {\ndata:  "a": 1\ndata: }\n\n'


def test_a_run_id_beyond_ascii_is_sent_as_utf_8() -> None:
    assert frame("läuft:1", 0, b"{}") == "id: läuft:1:0\ndata: {}\n\n".encode()


def test_a_run_id_that_would_break_its_line_is_percent_encoded() -> None:
    assert frame("a\nb\r\0%\ud800", 3, b"{}") == b"id: a%0Ab%0D%00%25%ED%A0%80:3\ndata: {}\n\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    stream = end.join([b"data: one", b"", b": comment", b"event: x", b"id: 4", b"data: two", b"", b""])
    assert read(stream) == [b"one", b"two"]


def test_a_line_end_cut_in_two_is_one_line_end() -> None:
    assert read(b"data: one\r", b"\n\r", b"\ndata: two\r", b"\n\r\n") == [b"one", b"two"]


def test_an_event_is_complete_at_its_last_cr_without_waiting_for_more() -> None:
    reader = EventReader(LIMIT)
    assert reader.feed(b"data: one\r\r") == [b"one"]
    assert reader.feed(b"\ndata: two\r\r") == [b"two"]


def test_several_data_lines_are_one_event_joined_by_lf() -> None:
    assert read(b'data: {\ndata:  "a": 1\ndata: }\n\n') == [b'{\n "a": 1\n}']


def test_one_space_after_the_colon_is_dropped_and_no_more() -> None:
    assert read(b"data:x\n\ndata: x\n\ndata:  x\n\n") == [b"x", b"x", b" x"]


def test_a_byte_order_mark_is_skipped_even_when_it_comes_in_pieces() -> None:
    assert read(b"\xef", b"\xbb", b"\xbfdata: x\n\n") == [b"x"]
    assert read(b"\xef\xbb\xbfdata: x\n\n") == [b"x"]


def test_events_without_data_are_no_events() -> None:
    assert read(b": keepalive\n\nevent: ping\n\ndata\n\ndata:\n\nretry: 5\n\n\n\n") == []


def test_a_last_event_without_its_empty_line_is_given_at_the_end() -> None:
    assert read(b"data: one\n\ndata: two") == [b"one", b"two"]
    assert read(b"data: one\n\ndata: two\n") == [b"one", b"two"]


def test_a_stream_of_nothing_has_no_events() -> None:
    assert read() == []
    assert read(b"", b"") == []
    assert read(b"\xef\xbb") == []


def test_an_event_of_many_megabytes_in_small_chunks_comes_out_whole() -> None:
    big = b'"' + b"x" * 5_000_000 + b'"'
    stream = b"data: " + big + b"\n\n"
    chunks = [stream[start : start + 4096] for start in range(0, len(stream), 4096)]
    assert read(*chunks, limit=6_000_000) == [big]


def test_an_event_over_the_limit_is_refused_before_it_is_complete() -> None:
    reader = EventReader(10)
    assert reader.feed(b"data: 12\n\n") == [b"12"]
    with pytest.raises(EventTooLarge, match="larger than 10 bytes"):
        reader.feed(b"data: 1234567890")
    with pytest.raises(EventTooLarge):
        EventReader(10).feed(b"data: 12\n" * 6)


def test_many_small_events_do_not_add_up_to_the_limit() -> None:
    assert read(b"data: 12\n\n" * 1_000, limit=10) == [b"12"] * 1_000


payloads = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1).map(str.encode)


@given(
    events=st.lists(st.lists(payloads, min_size=1, max_size=3), max_size=6),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    mark=st.booleans(),
    data=st.data(),
)
def test_however_a_stream_is_cut_the_same_events_come_out(
    events: list[list[bytes]], end: bytes, mark: bool, data: st.DataObject
) -> None:
    stream = b"\xef\xbb\xbf" if mark else b""
    for lines in events:
        stream += b": comment" + end + b"".join(b"data: " + line + end for line in lines) + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*chunks) == [b"\n".join(lines) for lines in events]


@given(runs=st.lists(payloads, min_size=1, max_size=5))
def test_what_frames_write_the_reader_reads(runs: list[bytes]) -> None:
    stream = b"".join(frame("r", index, payload) for index, payload in enumerate(runs))
    assert read(stream) == runs


class Told:
    """Events that a test tells one by one; `read` counts those that were taken."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.read = 0

    async def events(self) -> AsyncIterator[tuple[int | None, bytes]]:
        while (event := await self.queue.get()) is not None:
            if isinstance(event, Exception):
                raise event
            self.read += 1
            yield self.read - 1, event


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_comes_while_a_client_takes_something_goes_out_in_one_piece() -> None:
    told = Told()
    pieces = frames("r", told.events(), 60.0)
    told.queue.put_nowait(b"{1}")
    first = await anext(pieces)
    for event in (b"{2}", b"{3}", None):
        told.queue.put_nowait(event)
    await settled()

    assert first == b"id: r:0\ndata: {1}\n\n"
    assert [piece async for piece in pieces] == [b"id: r:1\ndata: {2}\n\nid: r:2\ndata: {3}\n\n"]


async def test_a_client_that_takes_nothing_holds_no_more_than_a_few_events() -> None:
    told = Told()
    pieces = frames("r", told.events(), 60.0)
    for _ in range(100):
        told.queue.put_nowait(b"x" * 16 * 1024)
    told.queue.put_nowait(None)

    first = await anext(pieces)
    await settled()
    read_by_then = told.read
    rest = [piece async for piece in pieces]

    assert (first.count(b"data: "), read_by_then) == (5, 10)
    assert sum(piece.count(b"data: ") for piece in (first, *rest)) == 100


async def test_a_comment_goes_out_for_each_time_that_nothing_came_and_carries_no_id() -> None:
    told = Told()
    pieces = frames("r", told.events(), 0.0)
    assert [await anext(pieces), await anext(pieces)] == [KEEPALIVE, KEEPALIVE] == [b": keepalive\n\n"] * 2
    await pieces.aclose()  # type: ignore[attr-defined]


async def test_what_the_events_raise_is_raised_behind_those_that_came() -> None:
    told = Told()
    pieces = frames("r", told.events(), 60.0)
    told.queue.put_nowait(b"{}")
    told.queue.put_nowait(ValueError("no more"))
    await settled()

    assert await anext(pieces) == b"id: r:0\ndata: {}\n\n"
    with pytest.raises(ValueError, match="no more"):
        await anext(pieces)


async def test_a_client_that_leaves_leaves_nobody_reading() -> None:
    told = Told()
    before = asyncio.all_tasks()
    pieces = frames("r", told.events(), 60.0)
    told.queue.put_nowait(b"{}")
    await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]
    assert asyncio.all_tasks() == before
