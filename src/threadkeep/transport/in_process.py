"""An ASGI app called without a socket. It knows no server: whatever speaks ASGI will do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
ASGIApp = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

_MAX_WAITING_CHUNKS = 64


class InProcessTransport(httpx.AsyncBaseTransport):
    """An httpx transport that hands each request to an ASGI app, and streams its response.

    As behind a socket, the read timeout holds, and a caller that leaves does not stop the app: it is told of the
    disconnect and may finish. Closing the transport cancels what has not answered yet.

    Args:
        app: The ASGI app. Its lifespan is not run.
        scope: Entries to merge into the ASGI scope of every request.
        scope_now: Makes further entries at each request, in the context of whoever makes it.
    """

    def __init__(
        self,
        app: ASGIApp,
        scope: Mapping[str, Any] = MappingProxyType({}),
        scope_now: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._app = app
        self._scope = dict(scope)
        self._scope_now = scope_now
        self._running: dict[asyncio.Task[None], _Exchange] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.RemoteProtocolError where the app ends before its response starts, httpx.ReadTimeout."""
        exchange = _Exchange(await request.aread(), request.extensions.get("timeout", {}).get("read"))
        scope = {**_build_scope(request), **self._scope, **self._scope_now()}
        task = asyncio.create_task(exchange.run(self._app, scope))
        self._running[task] = exchange
        task.add_done_callback(self._running.pop)
        try:
            status, headers = await exchange.start()
        except BaseException:
            exchange.leave()
            raise
        return httpx.Response(status, headers=headers, stream=_Body(exchange), request=request)

    async def aclose(self) -> None:
        running = dict(self._running)
        for task, exchange in running.items():
            # One that has answered is only cleaning up: a file to close, a log line to write.
            if not exchange.is_complete:
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class _Exchange:
    """One request and its response, between the caller's task and the app's."""

    def __init__(self, content: bytes, patience: float | None) -> None:
        self._patience = patience
        self._started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.Future()
        self._content: bytes | None = content
        self._left = asyncio.Event()
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_MAX_WAITING_CHUNKS)
        self.is_complete = False

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            # A server would answer and log; here the answer, once complete, is all that the caller needs.
            await self._fail(httpx.RemoteProtocolError(f"The app failed: {error!r}"), error)
        else:
            await self._fail(httpx.RemoteProtocolError("The app ended before its response did"), None)

    async def start(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        return await self._in_time(self._started)

    def leave(self) -> None:
        self._left.set()
        # Whoever waits for room in the queue goes on, and sends into nothing from now on.
        while not self._chunks.empty():
            self._chunks.get_nowait()

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._in_time(self._chunks.get())) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def _in_time(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"The app is silent for {self._patience} s") from error

    async def _receive(self) -> Message:
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self._started.done():
                self._started.set_result((message["status"], list(message.get("headers", ()))))
        elif message["type"] == "http.response.body" and not self._left.is_set():
            if body := message.get("body"):
                await self._chunks.put(bytes(body))
            if not message.get("more_body", False):
                self.is_complete = True
                await self._chunks.put(None)

    async def _fail(self, failure: httpx.RemoteProtocolError, cause: Exception | None) -> None:
        if self.is_complete or self._left.is_set():
            return
        failure.__cause__ = cause
        if self._started.done():
            await self._chunks.put(failure)
        else:
            self._started.set_exception(failure)


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._exchange.chunks()

    async def aclose(self) -> None:
        self._exchange.leave()


def _build_scope(request: httpx.Request) -> Scope:
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (request.url.host, request.url.port or 80),
        "client": ("in-process", 0),
        "extensions": {},
    }
