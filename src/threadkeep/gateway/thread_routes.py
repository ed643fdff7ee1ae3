"""The routes of threads: list, find, rename, delete, and read what is stored in one."""

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadkeep.api.errors import json_response
from threadkeep.api.json import parse
from threadkeep.api.shell import path_part, query_params
from threadkeep.errors import Invalid
from threadkeep.gateway.endpoints import Endpoints, page_limit
from threadkeep.gateway.histories import History
from threadkeep.gateway.threads import Threads


class _Rename(msgspec.Struct):
    name: str


_RENAME = msgspec.json.Decoder(_Rename)


def _is_true(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise Invalid(f"{text!r} is neither true nor false", ["query", name])
    return text == "true"


def thread_routes(endpoints: Endpoints, threads: Threads) -> list[Route]:
    """The routes of the user's threads."""

    async def list_(request: Request, history: History) -> Response:
        return json_response(await threads.page(history, page_limit(request), query_params(request).get("cursor")))

    async def get(request: Request, history: History) -> Response:
        return json_response(await threads.get(history, path_part(request, "thread_id")))

    async def rename(request: Request, history: History) -> Response:
        given, reader = parse(await request.body(), _RENAME)
        thread_id, name = path_part(request, "thread_id"), reader.text(given.name)
        return json_response(await threads.rename(history, thread_id, name))

    async def delete(request: Request, history: History) -> Response:
        await threads.delete(history, path_part(request, "thread_id"))
        return Response(status_code=204)

    async def messages(request: Request, history: History) -> Response:
        limit, query = page_limit(request), query_params(request)
        page = await threads.messages(
            history,
            path_part(request, "thread_id"),
            limit,
            query.get("before"),
            run_id=query.get("run"),
            of_all_branches=_is_true(query, "all"),
        )
        return json_response(page)

    async def runs(request: Request, history: History) -> Response:
        limit, cursor = page_limit(request), query_params(request).get("cursor")
        return json_response(await threads.runs(history, path_part(request, "thread_id"), limit, cursor))

    return [
        endpoints.route("/threads/", GET=list_),
        endpoints.route("/threads/{thread_id}/", GET=get, PATCH=rename, DELETE=delete),
        endpoints.route("/threads/{thread_id}/messages/", GET=messages),
        endpoints.route("/threads/{thread_id}/runs/", GET=runs),
    ]
