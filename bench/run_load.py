"""An AG-UI server whose events say when they were sent, and clients that note when each came."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bench.server import TOKEN

_NUMBER = re.compile(rb'"delta":"(\d+) "')
_LIMIT = 1 << 20


@dataclass
class Script:
    """What the upstream says in each run: `count` pieces of text, `pause` seconds apart, and the end after `go_on`."""

    count: int
    pause: float = 0.0
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    sent: dict[str, list[float]] = field(default_factory=dict)
    """When each piece left, by run."""


@asynccontextmanager
async def upstream(script: Script) -> AsyncIterator[str]:
    """Serve the script; yields the URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        given = json.loads(await reader.readexactly(int(length[1]) if length else 0))
        thread, run = given["threadId"], given["runId"]
        sent = script.sent[run] = []

        def say(event: dict[str, object]) -> None:
            writer.write(b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode())

        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        say({"type": "RUN_STARTED", "threadId": thread, "runId": run})
        say({"type": "TEXT_MESSAGE_START", "messageId": f"m-{run}", "role": "assistant"})
        for number in range(script.count):
            if script.pause:
                await asyncio.sleep(script.pause)
            elif number % 50 == 0:
                await writer.drain()
            sent.append(time.perf_counter())
            say({"type": "TEXT_MESSAGE_CONTENT", "messageId": f"m-{run}", "delta": f"{number} "})
        await script.go_on.wait()
        say({"type": "TEXT_MESSAGE_END", "messageId": f"m-{run}"})
        say({"type": "RUN_FINISHED", "threadId": thread, "runId": run})
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=2048)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/agent"
    finally:
        server.close()


def run_body(run: str) -> bytes:
    """The input of a run on a thread of its own."""
    message = {"id": f"u-{run}", "role": "user", "content": "Count."}
    rest: dict[str, object] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return json.dumps({"threadId": f"t-{run}", "runId": run, "messages": [message], **rest}).encode()


@asynccontextmanager
async def opened(port: int, method: str, path: str, body: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
    """The answer to a request, behind its head. Raises RuntimeError where it is no stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"unexpected answer: {answer!r}")
        yield reader
    finally:
        writer.close()


async def pieces(reader: asyncio.StreamReader) -> AsyncGenerator[tuple[int, float], None]:
    """The number of each piece of text, and when it came."""
    rest = b""
    while chunk := await reader.read(_LIMIT):
        now = time.perf_counter()
        rest += chunk
        end = 0
        for found in _NUMBER.finditer(rest):
            yield int(found[1]), now
            end = found.end()
        rest = rest[end:]
