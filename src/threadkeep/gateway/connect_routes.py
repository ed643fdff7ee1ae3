"""The route by which a page opens a thread."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api.json import parse
from threadkeep.api.shell import path_part, query_params
from threadkeep.chat_history.ag_ui.endings import is_1_x
from threadkeep.errors import Invalid
from threadkeep.gateway.connecting import Connecting
from threadkeep.gateway.endpoints import Endpoints
from threadkeep.gateway.histories import History
from threadkeep.gateway.sse import STREAM_HEADERS, EventStream
from threadkeep.ids import new_id


class _Asked(msgspec.Struct):
    """What counts of a RunAgentInput here."""

    thread_id: str | None = msgspec.field(default=None, name="threadId")
    run_id: str | None = msgspec.field(default=None, name="runId")
    protocol_version: str | None = msgspec.field(default=None, name="protocolVersion")


_ASKED = msgspec.json.Decoder(_Asked)


def connect_routes(endpoints: Endpoints, connecting: Connecting, keepalive_seconds: float) -> list[Route]:
    """The route; a stream says something every `keepalive_seconds`."""

    async def get(request: Request, history: History) -> Response:
        """A thread that there is."""
        return await answer(request, history, query_params(request).get("protocolVersion"), None)

    async def post(request: Request, history: History) -> Response:
        """What a client does that knows only its thread's id: one that has said nothing yet is empty."""
        asked, reader = parse(await request.body() or b"{}", _ASKED)
        thread_id = path_part(request, "thread_id")
        if reader.optional_text(asked.thread_id) not in (None, thread_id):
            raise Invalid(f"threadId names another thread than the path, {thread_id!r}", ["threadId"])
        run_id = reader.optional_text(asked.run_id) or new_id()
        return await answer(request, history, asked.protocol_version, run_id)

    async def answer(request: Request, history: History, version: str | None, or_new: str | None) -> Response:
        stream = await connecting.open(
            history,
            path_part(request, "thread_id"),
            speaks_1_x=is_1_x(version),
            run_id=query_params(request).get("run"),
            or_new=or_new,
        )
        if request.method == "HEAD":
            return Response(headers=STREAM_HEADERS)
        return EventStream(stream.run_id, stream.batches, keepalive_seconds)

    return [endpoints.route("/threads/{thread_id}/connect/", GET=get, POST=post)]
