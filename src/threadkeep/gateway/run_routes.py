"""The routes of runs: begin one, cancel one."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep.api.errors import json_response
from threadkeep.api.shell import path_part
from threadkeep.gateway.endpoints import Endpoints
from threadkeep.gateway.histories import History
from threadkeep.gateway.inputs import parse_body
from threadkeep.gateway.runs import Runs
from threadkeep.gateway.sse import frames
from threadkeep.gateway.threads import Threads

STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    # Proxies of the nginx family would collect the stream.
    "X-Accel-Buffering": "no",
}


def run_routes(endpoints: Endpoints, runs: Runs, threads: Threads, keepalive_seconds: float) -> list[Route]:
    """The routes of the user's runs; a stream says something every `keepalive_seconds`."""

    async def run(request: Request, history: History) -> Response:
        body = parse_body(await request.body())
        active = await runs.start(history, body)
        return StreamingResponse(frames(body.run_id, active.follow(), keepalive_seconds), headers=STREAM_HEADERS)

    async def cancel(request: Request, history: History) -> Response:
        thread_id, run_id = path_part(request, "thread_id"), path_part(request, "run_id")
        return json_response({"cancelled": await threads.cancel(history, thread_id, run_id)})

    return [
        endpoints.route("/", POST=run),
        endpoints.route("/threads/{thread_id}/runs/{run_id}/cancel/", POST=cancel),
    ]
