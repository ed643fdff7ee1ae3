"""The routes of runs: begin one, follow one, cancel one."""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api.errors import json_response
from threadkeep.api.shell import path_part, query_params
from threadkeep.errors import Invalid
from threadkeep.gateway.endpoints import Endpoints
from threadkeep.gateway.histories import History
from threadkeep.gateway.inputs import parse_body
from threadkeep.gateway.runs import NoSuchIndex, Runs, RunStream
from threadkeep.gateway.sse import STREAM_HEADERS, EventStream
from threadkeep.streams.run_log import parse_cursor


def run_routes(endpoints: Endpoints, runs: Runs, keepalive_seconds: float) -> list[Route]:
    """The routes of the user's runs; a stream says something every `keepalive_seconds`."""

    def answer(request: Request, stream: RunStream) -> Response:
        if stream.is_at_end:
            # To an EventSource, which would ask again and again, this means that there is nothing more to come.
            return Response(status_code=204)
        if request.method == "HEAD":
            return Response(headers=STREAM_HEADERS)
        return EventStream(stream.run_id, stream.batches, keepalive_seconds)

    async def run(request: Request, history: History) -> Response:
        body = parse_body(await request.body())
        place, cursor = _cursor(request)
        after = None if cursor is None else _index(cursor, body.run_id, place)
        with _naming(place):
            return answer(request, await runs.start(history, body, after))

    async def events(request: Request, history: History) -> Response:
        thread_id, run_id = path_part(request, "thread_id"), path_part(request, "run_id")
        place, cursor = _cursor(request)
        after = -1 if cursor is None else _index(cursor, run_id, place)
        with _naming(place):
            return answer(request, await runs.follow(history, thread_id, run_id, after))

    async def cancel(request: Request, history: History) -> Response:
        thread_id, run_id = path_part(request, "thread_id"), path_part(request, "run_id")
        return json_response({"cancelled": await runs.cancel(history, thread_id, run_id)})

    return [
        endpoints.route("/", POST=run),
        endpoints.route("/threads/{thread_id}/runs/{run_id}/events/", GET=events),
        endpoints.route("/threads/{thread_id}/runs/{run_id}/cancel/", POST=cancel),
    ]


def _cursor(request: Request) -> tuple[tuple[str, str], str | None]:
    """After which event a reader goes on, and where they said so. What the browser adds by itself is the newer one."""
    header = request.headers.get("Last-Event-ID")
    if header is not None:
        return ("header", "Last-Event-ID"), _utf_8(header)
    return ("query", "after"), query_params(request).get("after")


def _index(cursor: str, run_id: str, place: tuple[str, str]) -> int:
    try:
        at_run, index = parse_cursor(cursor)
    except ValueError as error:
        raise Invalid(str(error), place) from error
    if at_run != run_id:
        raise Invalid(f"{cursor!r} is a place in another run than {run_id!r}", place)
    return index


@contextmanager
def _naming(place: tuple[str, str]) -> Iterator[None]:
    """An index that the run does not have is found last; its place is where the cursor stood."""
    try:
        yield
    except NoSuchIndex as error:
        raise Invalid(str(error), place) from error


def _utf_8(header: str) -> str:
    raw = header.encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return header
