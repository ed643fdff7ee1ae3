"""Frames for clients, and the reader of other servers' streams."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.gateway.sse import KEEPALIVE, EventReader, EventStream, EventTooLarge
from threadkeep.streams.run_log import Batch

LIMIT = 1_000_000


def read(*chunks: bytes, limit: int = LIMIT) -> list[bytes]:
    reader = EventReader(limit)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close()


async def frame(run_id: str, index: int | None, data: bytes) -> bytes:
    """One event as a client gets it."""

    async def batches() -> AsyncGenerator[Batch, None]:
        yield [(index, data)]

    client = Client()
    await EventStream(run_id, batches(), 60.0).stream_response(client.send)
    (piece,) = client.pieces
    return piece


async def test_a_frame_names_its_run_and_index_and_ends_with_an_empty_line() -> None:
    assert await frame("r-1", 7, b'{"type":"RUN_STARTED"}') == b'id: r-1:7\ndata: {"type":"RUN_STARTED"}\n\n'


async def test_an_event_that_the_log_lacks_has_no_id() -> None:
    assert await frame("r-1", None, b"{}") == b"data: {}\n\n"


async def test_data_of_several_lines_goes_out_as_several_data_lines() -> None:
    assert await frame("r", 0, b'{\r\n "a": 1\n}') == b'id: r:0\ndata: {\ndata:  "a": 1\ndata: }\n\n'


async def test_a_run_id_beyond_ascii_is_sent_as_utf_8() -> None:
    assert await frame("läuft:1", 0, b"{}") == "id: läuft:1:0\ndata: {}\n\n".encode()


async def test_a_run_id_that_would_break_its_line_is_percent_encoded() -> None:
    assert await frame("a\nb\r\0%\ud800", 3, b"{}") == b"id: a%0Ab%0D%00%25%ED%A0%80:3\ndata: {}\n\n"


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
    stream = b"".join(asyncio.run(frame("r", index, payload)) for index, payload in enumerate(runs))
    assert read(stream) == runs


class Client:
    """Takes what it is sent, one message at a time; `gate` is shut while it takes nothing."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.is_taking = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, message: Any) -> None:
        assert not self.is_taking
        self.is_taking = True
        self.messages.append(message)
        await self.gate.wait()
        self.is_taking = False

    @property
    def pieces(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:] if message["more_body"]]

    @property
    def is_at_end(self) -> bool:
        return self.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


class Told:
    """Batches that a test tells one by one; `taken` counts those that were taken, `is_left` says that nobody reads."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[list[bytes] | Exception | None] = asyncio.Queue()
        self.taken = 0
        self.is_left = False

    def tell(self, *events: bytes) -> None:
        self.queue.put_nowait([*events])

    async def batches(self) -> AsyncGenerator[Batch, None]:
        try:
            while (batch := await self.queue.get()) is not None:
                if isinstance(batch, Exception):
                    raise batch
                self.taken += 1
                yield [*enumerate(batch)]
        finally:
            self.is_left = True


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def sending(told: Told, client: Client, idle_seconds: float = 60.0) -> asyncio.Task[None]:
    return asyncio.create_task(EventStream("r", told.batches(), idle_seconds).stream_response(client.send))


async def test_a_stream_begins_at_once_and_what_comes_together_goes_out_in_one_piece() -> None:
    told, client = Told(), Client()
    task = sending(told, client)
    await settled()
    begun = [*client.messages]
    told.tell(b"{1}", b"{2}")
    told.tell(b"{3}")
    told.queue.put_nowait(None)
    await task

    headers = dict(begun[0]["headers"])
    assert (len(begun), begun[0]["status"], headers[b"content-type"]) == (1, 200, b"text/event-stream")
    assert client.pieces == [b"id: r:0\ndata: {1}\n\nid: r:1\ndata: {2}\n\n", b"id: r:0\ndata: {3}\n\n"]
    assert client.is_at_end


async def test_a_client_that_takes_nothing_holds_no_more_than_one_batch() -> None:
    told, client = Told(), Client()
    task = sending(told, client)
    await settled()
    client.gate.clear()
    for _ in range(100):
        told.tell(b"x" * 1024)
    told.queue.put_nowait(None)
    await settled()
    assert told.taken == len(client.pieces) == 1
    client.gate.set()
    await task
    assert len(client.pieces) == 100


async def test_a_comment_goes_out_for_each_time_that_nothing_came_and_carries_no_id() -> None:
    told, client = Told(), Client()
    task = sending(told, client, idle_seconds=0.0)
    while len(client.pieces) < 3:
        await settled()
    told.queue.put_nowait(None)
    await task
    assert set(client.pieces) == {KEEPALIVE} == {b": keepalive\n\n"}
    assert client.is_at_end


async def test_a_comment_never_gets_into_the_middle_of_a_piece() -> None:
    told, client = Told(), Client()
    task = sending(told, client, idle_seconds=0.0)
    await settled()
    client.gate.clear()
    told.tell(b"{1}")
    await settled()
    client.gate.set()
    told.queue.put_nowait(None)
    await task
    assert client.pieces.count(b"id: r:0\ndata: {1}\n\n") == 1


async def test_a_comment_is_due_when_nothing_came_since_the_last_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    told, client = Told(), Client()
    task = sending(told, client, idle_seconds=60.0)
    await settled()
    comments = []
    for now in (40.0, 70.0, 99.0, 101.0, 160.0, 162.0):
        await settled()
        if now == 40.0:
            told.tell(b"{1}")
            await settled()
        comments.append(client.pieces.count(KEEPALIVE))
    monkeypatch.undo()
    told.queue.put_nowait(None)
    await task
    assert comments == [0, 0, 0, 1, 1, 2]


async def test_what_the_batches_raise_is_raised_behind_those_that_came() -> None:
    told, client = Told(), Client()
    told.tell(b"{}")
    told.queue.put_nowait(ValueError("no more"))
    with pytest.raises(ValueError, match="no more"):
        await sending(told, client)
    assert client.pieces == [b"id: r:0\ndata: {}\n\n"]
    assert not client.is_at_end


async def test_a_client_that_leaves_leaves_nobody_reading() -> None:
    told, client = Told(), Client()
    before = asyncio.all_tasks()
    task = sending(told, client)
    told.tell(b"{}")
    await settled()
    task.cancel()
    await asyncio.wait([task])
    assert asyncio.all_tasks() == before
    assert told.is_left


async def test_a_client_that_is_gone_when_a_comment_is_due_leaves_nobody_reading() -> None:
    told = Told()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await EventStream("r", told.batches(), 0.0).stream_response(send)
    assert told.is_left
