"""Memory spaces."""

from starlette.responses import Response

from threadkeep.api import cursors, schemas
from threadkeep.api.errors import json_response
from threadkeep.api.routing import IDEMPOTENCY_KEY, LIMIT, OFFSET, Call, Operation, Query
from threadkeep.domain import limits
from threadkeep.domain.space import Space


async def _create(call: Call) -> Response:
    draft = schemas.space_draft(call.body, call.reader)
    return _created(await call.services.spaces.create(call.principal, draft, once=call.once(_created)))


def _created(space: Space) -> Response:
    return json_response(schemas.space_out(space), 201)


async def _list(call: Call) -> Response:
    after, limit = cursors.position(call), call.integer("limit", limits.PAGE)
    key = call.query("deduplicationKey")
    if after is not None:
        found, total, more = await call.services.spaces.page_after(call.principal, after, limit=limit, key=key)
        following = cursors.after(found[-1].id) if more else None
        return json_response(schemas.page_out(list(map(schemas.space_out, found)), total, 0, limit, following))
    offset = call.integer("offset", 0)
    found, total = await call.services.spaces.page(call.principal, offset=offset, limit=limit, key=key)
    return json_response(schemas.page_out([schemas.space_out(space) for space in found], total, offset, limit))


async def _get(call: Call) -> Response:
    return json_response(schemas.space_out(await call.services.spaces.get(call.principal, call.space_id)))


async def _patch(call: Call) -> Response:
    fields = schemas.space_fields(call.body, call.reader)
    return json_response(schemas.space_out(await call.services.spaces.patch(call.principal, call.space_id, fields)))


async def _delete(call: Call) -> Response:
    await call.services.spaces.delete(call.principal, call.space_id)
    return Response(status_code=204)


_KEY = Query("deduplicationKey", {"type": "string"}, "Only the space with exactly this key.")
_THIS = "/memory/{space_id}/"

OPERATIONS = [
    Operation(
        "POST",
        "/memory/new/",
        "Create a memory space",
        _create,
        takes=schemas.NewSpaceIn,
        gives=schemas.SpaceOut,
        status=201,
        headers=(IDEMPOTENCY_KEY,),
        fails=(409,),
    ),
    Operation(
        "GET",
        "/memory/",
        "List memory spaces, newest first",
        _list,
        gives=schemas.SpaceOut,
        query=(OFFSET, LIMIT, cursors.CURSOR, _KEY),
        page=True,
    ),
    Operation("GET", _THIS, "Get a memory space", _get, gives=schemas.SpaceOut, fails=(404,)),
    Operation(
        "PATCH",
        _THIS,
        "Change a memory space",
        _patch,
        takes=schemas.SpacePatchIn,
        gives=schemas.SpaceOut,
        fails=(404,),
    ),
    Operation("DELETE", _THIS, "Delete a memory space and all in it", _delete, status=204, fails=(404,)),
]
