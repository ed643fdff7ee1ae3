"""CopilotKit's routes of threads: list, rename, archive and delete them, and look into one."""

from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep.api.errors import json_response
from threadkeep.api.json import parse
from threadkeep.api.shell import path_part, query_params
from threadkeep.domain.session import is_archived
from threadkeep.gateway.answers import thread_answer
from threadkeep.gateway.archive import Archive
from threadkeep.gateway.copilotkit.answers import ThreadRecord, inspected, thread_record
from threadkeep.gateway.copilotkit.inspection import Inspection
from threadkeep.gateway.endpoints import Endpoints, page_limit
from threadkeep.gateway.histories import History
from threadkeep.gateway.threads import Threads


class _Change(msgspec.Struct):
    name: str | None = None
    archived: bool | None = None


_CHANGE = msgspec.json.Decoder(_Change)
_NO_BODY = b"{}"


def thread_routes(
    endpoints: Endpoints, threads: Threads, archive: Archive, inspection: Inspection, agent_id: str
) -> list[Route]:
    """The routes of the user's threads, which are all with the one agent."""

    async def list_(request: Request, history: History) -> Response:
        query = query_params(request)
        if query.get("agentId", agent_id) != agent_id:
            return json_response({"threads": [], "nextCursor": None})
        with_archived = query.get("includeArchived") == "true"
        page = await archive.page(history, page_limit(request), query.get("cursor"), with_archived=with_archived)
        records = [
            thread_record(
                thread_answer(found), history.principal, agent_id, archived=is_archived(found.session.metadata)
            )
            for found in page.items
        ]
        return json_response({"threads": records, "nextCursor": page.next})

    async def change(request: Request, history: History) -> Response:
        thread_id = path_part(request, "thread_id")
        wanted, reader = parse(await request.body() or _NO_BODY, _CHANGE)
        if wanted.name is not None:
            await threads.rename(history, thread_id, reader.text(wanted.name))
        if wanted.archived is not None:
            await archive.put(history, thread_id, archived=wanted.archived)
        return json_response(await record(history, thread_id))

    async def put_away(request: Request, history: History) -> Response:
        thread_id = path_part(request, "thread_id")
        await archive.put(history, thread_id, archived=True)
        return json_response(await record(history, thread_id))

    async def delete(request: Request, history: History) -> Response:
        await threads.delete(history, path_part(request, "thread_id"))
        return Response(status_code=204)

    async def messages(request: Request, history: History) -> Response:
        stored = await inspection.messages(history, path_part(request, "thread_id"))
        return json_response({"messages": [inspected(message) for message in stored]})

    async def state(request: Request, history: History) -> Response:
        return json_response({"state": await inspection.state(history, path_part(request, "thread_id"))})

    async def events(request: Request, history: History) -> Response:
        found = inspection.events(history, path_part(request, "thread_id"))
        return StreamingResponse(_event_list(found), media_type="application/json")

    async def record(history: History, thread_id: str) -> ThreadRecord:
        thread = await threads.get(history, thread_id)
        archived = await archive.is_archived(history, thread_id)
        return thread_record(thread, history.principal, agent_id, archived=archived)

    return [
        endpoints.route("/threads", GET=list_),
        endpoints.route("/threads/{thread_id}", PATCH=change, DELETE=delete),
        endpoints.route("/threads/{thread_id}/archive", POST=put_away),
        endpoints.route("/threads/{thread_id}/messages", GET=messages),
        endpoints.route("/threads/{thread_id}/events", GET=events),
        endpoints.route("/threads/{thread_id}/state", GET=state),
    ]


async def _event_list(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The events as they came, in one JSON document that is never whole in memory."""
    before = b'{"events":['
    async for event in events:
        yield before + event
        before = b","
    yield b"]}" if before == b"," else before + b"]}"
