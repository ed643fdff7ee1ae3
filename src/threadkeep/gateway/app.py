"""The gateway as an ASGI application: its routes under `/agui/`, and the way in for a server that has both APIs."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from threadkeep.api import errors as error_table
from threadkeep.api.errors import json_response
from threadkeep.api.json import parse
from threadkeep.api.routing import authenticate, parse_integer
from threadkeep.api.shell import build, invalid, path_part, query_params
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

    return build(
        [
            route("/", POST=routes.run),
            route("/threads/", GET=routes.list),
            route("/threads/{thread_id}/", GET=routes.get, PATCH=routes.rename, DELETE=routes.delete),
            route("/threads/{thread_id}/messages/", GET=routes.messages),
            route("/threads/{thread_id}/runs/", GET=routes.runs),
            route("/threads/{thread_id}/runs/{run_id}/cancel/", POST=routes.cancel),
        ],
        container,
        lifespan=lifespan,
    )


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
        limit, cursor = _limit(request), query_params(request).get("cursor")
        return json_response(await self._threads.page(history, limit, cursor))

    async def get(self, request: Request, history: History) -> Response:
        return json_response(await self._threads.get(history, path_part(request, "thread_id")))

    async def rename(self, request: Request, history: History) -> Response:
        given, reader = parse(await request.body(), _RENAME)
        thread_id, name = path_part(request, "thread_id"), reader.text(given.name)
        return json_response(await self._threads.rename(history, thread_id, name))

    async def delete(self, request: Request, history: History) -> Response:
        await self._threads.delete(history, path_part(request, "thread_id"))
        return Response(status_code=204)

    async def messages(self, request: Request, history: History) -> Response:
        limit, before = _limit(request), query_params(request).get("before")
        return json_response(await self._threads.messages(history, path_part(request, "thread_id"), limit, before))

    async def runs(self, request: Request, history: History) -> Response:
        limit, cursor = _limit(request), query_params(request).get("cursor")
        return json_response(await self._threads.runs(history, path_part(request, "thread_id"), limit, cursor))

    async def cancel(self, request: Request, history: History) -> Response:
        thread_id, run_id = path_part(request, "thread_id"), path_part(request, "run_id")
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
            return invalid(error, "query" if request.method == "GET" else "body")
        except ThreadkeepError as error:
            return error_table.answer(error)
        except DRMemoryServiceError as error:
            _log.warning("the store refused a call of the gateway: %s", error)
            return json_response({"detail": str(error)}, error.status_code or 503)

    return endpoint


def _limit(request: Request) -> int:
    text = query_params(request).get("limit")
    return limits.PAGE if text is None else parse_integer(text, "query", "limit")
