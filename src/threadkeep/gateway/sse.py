"""Server-sent events, both ways: the frames that our clients get, and a reader of other servers' streams.

Bytes in, bytes out; what the JSON says is nobody's business here.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Send

from threadkeep.streams.run_log import Batch, format_cursor

KEEPALIVE = b": keepalive\n\n"
"""A comment: it keeps a connection from being cut as idle, and carries no id, so that no cursor moves."""

STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    # Proxies of the nginx family would collect the stream.
    "X-Accel-Buffering": "no",
}

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream(StreamingResponse):
    """The events of a run as an answer: a frame each, and a comment for each time that none came for `idle_seconds`.

    A frame is `id: {runId}:{index}`, the data, an empty line; LF only. Events that come at once go out in one piece.
    An event without an index goes out without an id: nobody can resume after it, and no cursor moves.
    """

    def __init__(self, run_id: str, batches: AsyncGenerator[Batch, None], idle_seconds: float) -> None:
        super().__init__((), headers=STREAM_HEADERS)
        self._id = b"id: %b" % format_cursor(run_id, 0).encode()[:-1]
        self._batches = batches
        self._idle_seconds = idle_seconds

    async def stream_response(self, send: Send) -> None:
        """Send all of it. What the batches raise is raised behind what they gave."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        loop = asyncio.get_running_loop()
        said_at = loop.time()
        turn = asyncio.Lock()

        async def say(piece: bytes) -> None:
            nonlocal said_at
            async with turn:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            said_at = loop.time()

        async def tell() -> None:
            async with aclosing(self._batches) as batches:
                async for batch in batches:
                    await say(b"".join([self._frame(index, data) for index, data in batch]))

        async def keep_alive() -> None:
            while True:
                await asyncio.sleep(said_at + self._idle_seconds - loop.time())
                if loop.time() >= said_at + self._idle_seconds:
                    await say(KEEPALIVE)

        # No task between an event and its client: what wakes the one that waits for events is what sends them.
        tasks = {asyncio.create_task(tell()), asyncio.create_task(keep_alive())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _frame(self, index: int | None, data: bytes) -> bytes:
        """Data of several lines goes out as several `data:` lines, which a reader joins again."""
        if b"\n" in data or b"\r" in data:
            data = b"\ndata: ".join(_LINE_END.split(data))
        if index is None:
            return b"data: %b\n\n" % data
        return b"%b%d\ndata: %b\n\n" % (self._id, index, data)


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
