"""The gateway as an ASGI application: its routes under `/agui/`, and the way in for a server that has both APIs."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from threadkeep.api import errors as error_table
from threadkeep.api.context import RequestContext
from threadkeep.api.errors import json_response
from threadkeep.api.json import parse
from threadkeep.api.routing import authenticate, parse_integer
from threadkeep.domain import limits
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.gateway.agents import AgentSource, load_agent
from threadkeep.gateway.histories import Histories, History
from threadkeep.gateway.inputs import parse_body
from threadkeep.gateway.runs import Runs
from threadkeep.gateway.sse import frames
from threadkeep.gateway.threads import Threads
from threadkeep.gateway.upstream import Upstream
from threadkeep.persistence.errors import DRMemoryServiceError
from threadkeep.services.container import Container

PREFIX = "/agui"
KEEPALIVE_SECONDS = 15.0

_SECTIONS = ("body", "query", "path", "header")
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    # Proxies of the nginx family would collect the stream.
    "X-Accel-Buffering": "no",
}
_log = logging.getLogger("threadkeep.gateway")


@asynccontextmanager
async def open_gateway(container: Container, api: ASGIApp) -> AsyncIterator[ASGIApp]:
    """The Memory Service `api` and the gateway before the agent of the settings, as one application.

    Raises BadAgent.
    """
    settings = container.settings
    source: AgentSource = Upstream(settings.upstream) if settings.upstream else load_agent(settings.agent or "")
    gateway = create_app(container, api, source)

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        app = gateway if path == PREFIX or path.startswith(f"{PREFIX}/") else api
        await app(scope, receive, send)

    try:
        async with gateway.router.lifespan_context(gateway):
            yield both
    finally:
        await source.aclose()


def create_app(
    container: Container, api: ASGIApp, agent: AgentSource, *, keepalive_seconds: float = KEEPALIVE_SECONDS
) -> Starlette:
    """The gateway before `agent`, on services that are open and the Memory Service `api` on the same services.

    Its lifespan has to run: it keeps the leases of runs, and stops them at the end.
    """
    histories = Histories(api)
    runs = Runs(container, histories, agent)
    routes = _Routes(runs, Threads(container, runs), keepalive_seconds)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await runs.open()
        try:
            yield
        finally:
            await runs.close()

    def route(path: str, **by_method: "Handler") -> Route:
        return Route(PREFIX + path, _endpoint(container, histories, by_method), methods=list(by_method))

    app = Starlette(
        routes=[
            route("/", POST=routes.run),
            route("/threads/", GET=routes.list),
            route("/threads/{thread_id}/", GET=routes.get, PATCH=routes.rename, DELETE=routes.delete),
            route("/threads/{thread_id}/messages/", GET=routes.messages),
            route("/threads/{thread_id}/runs/", GET=routes.runs),
            route("/threads/{thread_id}/runs/{run_id}/cancel/", POST=routes.cancel),
        ],
        middleware=[
            Middleware(RequestContext, max_request_bytes=container.settings.max_request_bytes),
            Middleware(_EncodedPath),
        ],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


Handler = Callable[[Request, History], Awaitable[Response]]


class _Rename(msgspec.Struct):
    name: str


_RENAME = msgspec.json.Decoder(_Rename)


class _Routes:
    """What each route does with a request of a user whose history is known."""

    def __init__(self, runs: Runs, threads: Threads, keepalive_seconds: float) -> None:
        self._runs = runs
        self._threads = threads
        self._keepalive_seconds = keepalive_seconds

    async def run(self, request: Request, history: History) -> Response:
        body = parse_body(await request.body())
        active = await self._runs.start(history, body)
        return StreamingResponse(frames(body.run_id, active.follow(), self._keepalive_seconds), headers=_STREAM_HEADERS)

    async def list(self, request: Request, history: History) -> Response:
        limit, cursor = _limit(request), request.query_params.get("cursor")
        return json_response(await self._threads.page(history, limit, cursor))

    async def get(self, request: Request, history: History) -> Response:
        return json_response(await self._threads.get(history, _part(request, "thread_id")))

    async def rename(self, request: Request, history: History) -> Response:
        given, reader = parse(await request.body(), _RENAME)
        thread_id, name = _part(request, "thread_id"), reader.text(given.name)
        return json_response(await self._threads.rename(history, thread_id, name))

    async def delete(self, request: Request, history: History) -> Response:
        await self._threads.delete(history, _part(request, "thread_id"))
        return Response(status_code=204)

    async def messages(self, request: Request, history: History) -> Response:
        limit, before = _limit(request), request.query_params.get("before")
        return json_response(await self._threads.messages(history, _part(request, "thread_id"), limit, before))

    async def runs(self, request: Request, history: History) -> Response:
        limit, cursor = _limit(request), request.query_params.get("cursor")
        return json_response(await self._threads.runs(history, _part(request, "thread_id"), limit, cursor))

    async def cancel(self, request: Request, history: History) -> Response:
        thread_id, run_id = _part(request, "thread_id"), _part(request, "run_id")
        return json_response({"cancelled": await self._threads.cancel(history, thread_id, run_id)})


def _endpoint(
    container: Container, histories: Histories, by_method: dict[str, Handler]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        handler = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            principal = await authenticate(request, container)
            return await handler(request, await histories.of(principal))
        except Invalid as error:
            is_placed = bool(error.loc) and error.loc[0] in _SECTIONS
            section = "query" if request.method == "GET" else "body"
            return error_table.answer(error if is_placed else error.under(section))
        except ThreadkeepError as error:
            return error_table.answer(error)
        except DRMemoryServiceError as error:
            _log.warning("the store refused a call of the gateway: %s", error)
            return json_response({"detail": str(error)}, error.status_code or 503)

    return endpoint


def _limit(request: Request) -> int:
    text = request.query_params.get("limit")
    return limits.PAGE if text is None else parse_integer(text, "query", "limit")


def _part(request: Request, name: str) -> str:
    """A part of the path, decoded. Ids may hold any character, a slash and half a surrogate pair included."""
    return unquote(request.path_params[name], errors="surrogatepass")


class _EncodedPath:
    """Routes by the path as it was sent, in which a slash inside an id is still `%2F`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path")
            scope = {**scope, "path": raw.decode("ascii", "replace") if raw else quote(scope["path"])}
        await self._app(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    detail: Any = error.detail
    if error.status_code == 404:
        hint = "" if path.endswith("/") else f"; every path ends in a slash: {path}/"
        detail = f"There is nothing at {path}{hint}"
    elif error.status_code == 405:
        detail = f"{request.method} is not served at {path}"
    return json_response({"detail": detail}, error.status_code, error.headers)
