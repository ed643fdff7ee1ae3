"""Events of a whole space: by lookup key, and the newest of some sessions."""

from starlette.responses import Response

from threadkeep.api import schemas
from threadkeep.api.constraints import LOOKUP_KEY
from threadkeep.api.errors import json_response
from threadkeep.api.routing import EVENT_TYPE, LIMIT, OFFSET, Call, Operation, Query
from threadkeep.domain import limits


async def _find(call: Call) -> Response:
    offset, limit = call.integer("offset", 0), call.integer("limit", limits.PAGE)
    found, total = await call.services.space_events.having(
        call.principal,
        call.space_id,
        _several(call, "lookupKey"),
        event_type=call.query("eventType"),
        offset=offset,
        limit=limit,
    )
    return json_response(schemas.page_out([schemas.space_event_out(*each) for each in found], total, offset, limit))


async def _newest(call: Call) -> Response:
    found = await call.services.space_events.newest(
        call.principal, call.space_id, _several(call, "sessionId"), event_type=call.query("eventType")
    )
    items = [schemas.space_event_out(*each) for each in found]
    return json_response(schemas.page_out(items, len(items), 0, limits.PAGE))


def _several(call: Call, name: str) -> list[str]:
    given = call.params.getlist(name)
    limits.check_count(len(given), limits.PAGE, "query", name)
    return list(dict.fromkeys(given))


_ALL = "/memory/{space_id}/events/"

OPERATIONS = [
    Operation(
        "GET",
        _ALL,
        "Find events of a space by lookup key",
        _find,
        gives=schemas.SpaceEventOut,
        query=(
            Query(
                "lookupKey",
                {"type": "array", "items": LOOKUP_KEY, "minItems": 1, "maxItems": limits.PAGE},
                "Only events that have any of these keys; repeat it for several.",
                required=True,
            ),
            EVENT_TYPE,
            OFFSET,
            LIMIT,
        ),
        fails=(404,),
        page=True,
    ),
    Operation(
        "GET",
        _ALL + "newest/",
        "Get the newest event of each of some sessions",
        _newest,
        gives=schemas.SpaceEventOut,
        query=(
            Query(
                "sessionId",
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": limits.PAGE},
                "The sessions; repeat it for several. Those that are not there are passed over.",
                required=True,
            ),
            EVENT_TYPE,
        ),
        fails=(404,),
        page=True,
    ),
]
