"""A lean HTTP client for load: it sends the same bytes again and again, so that the server is what is measured."""

import asyncio
import re
import time
from typing import cast

from bench.load import Measured, measured

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class _Connection(asyncio.Protocol):
    """One connection: the next request goes out when the answer to the last has come whole."""

    def __init__(self, request: bytes, times: int, expected: bytes) -> None:
        self._request = request
        self._left = times
        self._expected = expected
        self._received = b""
        self._sent_at = 0.0
        self.taken: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head)
        if length is not None and len(body) < int(length[1]):
            return
        if not head.startswith(self._expected):
            self.done.set_exception(RuntimeError(f"unexpected answer: {self._received[:300]!r}"))
            self._transport.close()
            return
        self.taken.append(time.perf_counter() - self._sent_at)
        self._received = b""
        if self._left:
            self._send()
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or RuntimeError("the server closed the connection"))

    def _send(self) -> None:
        self._left -= 1
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)


def post(path: str, token: str, body: bytes) -> bytes:
    """The bytes of a POST request."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def drive_http(requests: list[tuple[int, bytes]], *, each: int, status: int) -> Measured:
    """One connection for each port and request, which it sends `each` times."""
    loop = asyncio.get_running_loop()
    expected = f"HTTP/1.1 {status} ".encode()
    connections: list[_Connection] = []
    started = time.perf_counter()
    for port, request in requests:
        _, connection = await loop.create_connection(
            lambda request=request: _Connection(request, each, expected),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        connections.append(connection)
    await asyncio.gather(*[connection.done for connection in connections])
    return measured([one for connection in connections for one in connection.taken], time.perf_counter() - started)
