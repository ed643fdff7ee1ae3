"""An HTTP server that says exactly the bytes it is told to: what an upstream may do on the wire, good or bad."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@dataclass
class Exchange:
    """One request, and the way to answer it."""

    head: str
    body: bytes
    writer: asyncio.StreamWriter
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has closed the connection."""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class RawServer:
    url: str
    exchanges: list[Exchange] = field(default_factory=list)


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    """Answers every request by running the script; the connection is closed when the script ends."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip()
        exchange = Exchange(head, b"", writer)
        exchange.body = await reader.readexactly(int(exchange.headers.get("content-length", "0")))
        server.exchanges.append(exchange)
        watch = asyncio.create_task(watch_for_leaving(reader, exchange))
        try:
            await script(exchange)
        except ConnectionError:
            pass
        finally:
            watch.cancel()
            writer.close()

    async def watch_for_leaving(reader: asyncio.StreamReader, exchange: Exchange) -> None:
        try:
            while await reader.read(1024):
                pass
        except ConnectionError:
            pass
        exchange.left.set()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    server = RawServer(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/agent")
    try:
        yield server
    finally:
        listener.close()


def saying(*parts: bytes) -> Script:
    """A script that says the parts one after the other and ends."""

    async def script(exchange: Exchange) -> None:
        for part in parts:
            await exchange.say(part)

    return script
