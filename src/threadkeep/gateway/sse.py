"""Server-sent events, both ways: the frames that our clients get, and a reader of other servers' streams.

Bytes in, bytes out; what the JSON says is nobody's business here.
"""

import asyncio
import re
from collections.abc import AsyncIterator

from threadkeep.streams.bell import Bell
from threadkeep.streams.run_log import format_cursor

KEEPALIVE = b": keepalive\n\n"
"""A comment: it keeps a connection from being cut as idle, and carries no id, so that no cursor moves."""

_AHEAD_BYTES = 64 * 1024
"""How much is read before the client has taken what it was given."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def frame(run_id: str, index: int | None, data: bytes) -> bytes:
    """One event for a client: `id: {runId}:{index}`, its data, an empty line; LF only.

    Data of several lines goes out as several `data:` lines, which a reader joins again.
    An event without an index goes out without an id: nobody can resume after it, and no cursor moves.
    """
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    if index is None:
        return b"data: %b\n\n" % data
    return b"id: %b\ndata: %b\n\n" % (format_cursor(run_id, index).encode(), data)


async def frames(
    run_id: str, events: AsyncIterator[tuple[int | None, bytes]], idle_seconds: float
) -> AsyncIterator[bytes]:
    """The events as frames, and a comment for each time that none came for `idle_seconds`.

    What comes while the client takes something goes out in one piece.
    """
    loop = asyncio.get_running_loop()
    came: list[bytes] = []
    held = 0
    news, room = Bell(), Bell()

    async def read() -> None:
        nonlocal held
        async for index, data in events:
            came.append(frame(run_id, index, data))
            held += len(data)
            news.ring()
            while held > _AHEAD_BYTES:
                await room.wait()

    reading = asyncio.create_task(read(), name=f"read {run_id} for a client")
    reading.add_done_callback(lambda _: news.ring())
    try:
        while True:
            if not (came or reading.done()):
                timer = loop.call_later(idle_seconds, news.ring)
                await news.wait()
                timer.cancel()
            if came:
                piece = b"".join(came)
                came.clear()
                held = 0
                room.ring()
                yield piece
            elif reading.done():
                reading.result()
                return
            else:
                yield KEEPALIVE
    finally:
        reading.cancel()
        await asyncio.wait([reading])


class EventTooLarge(ValueError):
    """One event of a stream is over the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"An event is larger than {limit:,} bytes")
        self.limit = limit


class EventReader:
    """Cuts a stream into the data of its events, whatever the chunks in which it comes.

    Lines end with LF, CRLF or CR, as the standard has it. A CR ends its line at once, and an LF that comes first in the
    next chunk belongs to it: to wait for that LF would hold an event back until the next one comes.
    Only `data` counts; comments and the other fields are skipped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head: bytes | None = b""
        self._after_cr = False
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the data of each event that they complete.

        Raises EventTooLarge where an event outgrows the limit.
        """
        if self._head is not None:
            chunk = self._without_mark(self._head + chunk)
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            if not chunk:
                self._after_cr = False
                return []
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        events: list[bytes] = []
        for line in lines:
            self._end_line(line, events)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            self._check_size()
        return events

    def close(self) -> list[bytes]:
        """The stream has ended: return the data of a last event that lacks its empty line."""
        events: list[bytes] = []
        if self._head:
            self._line, self._head = [self._head], None
        self._end_line(b"", events)
        self._end_line(b"", events)
        return events

    def _without_mark(self, start: bytes) -> bytes:
        if len(start) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(start):
            self._head = start
            return b""
        self._head = None
        return start.removeprefix(_BYTE_ORDER_MARK)

    def _end_line(self, line: bytes, events: list[bytes]) -> None:
        if self._line:
            line = b"".join((*self._line, line))
            self._line.clear()
            self._line_size = 0
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_size += len(value)
                self._check_size()
            return
        data = b"\n".join(self._data)
        self._data.clear()
        self._data_size = 0
        if data:
            events.append(data)

    def _check_size(self) -> None:
        if self._line_size + self._data_size > self._limit:
            raise EventTooLarge(self._limit)
