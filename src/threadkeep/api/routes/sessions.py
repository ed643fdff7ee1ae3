"""Sessions."""

from starlette.responses import Response

from threadkeep.api import cursors, schemas
from threadkeep.api.constraints import VERSION_PRECONDITION
from threadkeep.api.errors import json_response
from threadkeep.api.routing import IDEMPOTENCY_KEY, LIMIT, OFFSET, Call, Header, Operation, Query, parse_integer
from threadkeep.domain import limits
from threadkeep.domain.session import Session
from threadkeep.errors import Invalid
from threadkeep.services.sessions import Filters


async def _create(call: Call) -> Response:
    draft = schemas.session_draft(call.body, call.reader)
    once = call.once(_created)
    return _created(await call.services.sessions.create(call.principal, call.space_id, draft, once=once))


def _created(session: Session) -> Response:
    return json_response(schemas.session_out(session), 201)


async def _list(call: Call) -> Response:
    after, limit = cursors.position(call), call.integer("limit", limits.PAGE)
    participants = tuple(dict.fromkeys(call.params.getlist("participants")))
    limits.check_count(len(participants), limits.PARTICIPANTS, "participants")
    filters = Filters(participants, call.query("description"), call.query("deduplicationKey"))
    at = (call.principal, call.space_id, filters)
    if after is not None:
        found, total, more = await call.services.sessions.page_after(*at, after, limit=limit)
        following = cursors.after(found[-1].id) if more else None
        return json_response(schemas.page_out(list(map(schemas.session_out, found)), total, 0, limit, following))
    offset = call.integer("offset", 0)
    found, total = await call.services.sessions.page(*at, offset=offset, limit=limit)
    return json_response(schemas.page_out(list(map(schemas.session_out, found)), total, offset, limit))


async def _get(call: Call) -> Response:
    session = await call.services.sessions.get(call.principal, call.space_id, call.session_id)
    return json_response(schemas.session_out(session))


async def _patch(call: Call) -> Response:
    session = await call.services.sessions.patch(
        call.principal,
        call.space_id,
        call.session_id,
        schemas.session_change(call.body, call.reader),
        expected_version=_expected_version(call.request.headers.get("if-match")),
    )
    return json_response(schemas.session_out(session))


async def _delete(call: Call) -> Response:
    await call.services.sessions.delete(call.principal, call.space_id, call.session_id)
    return Response(status_code=204)


def _expected_version(header: str | None) -> int | None:
    """`3` and `"3"` are the same precondition; `*` is none beyond that the session is there."""
    if header is None or header.strip() == "*":
        return None
    text = header.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    version = parse_integer(text, "header", "If-Match")
    if not 0 <= version <= limits.INTEGER:
        raise Invalid(f"{version} is no version of a session", ["header", "If-Match"])
    return version


_ALL = "/memory/{space_id}/sessions/"
_THIS = "/memory/{space_id}/sessions/{session_id}/"

OPERATIONS = [
    Operation(
        "POST",
        _ALL,
        "Create a session",
        _create,
        takes=schemas.NewSessionIn,
        gives=schemas.SessionOut,
        status=201,
        headers=(IDEMPOTENCY_KEY,),
        fails=(404, 409),
    ),
    Operation(
        "GET",
        _ALL,
        "List sessions, oldest first",
        _list,
        gives=schemas.SessionOut,
        query=(
            OFFSET,
            LIMIT,
            cursors.CURSOR,
            Query(
                "participants",
                {"type": "array", "items": {"type": "string"}, "maxItems": limits.PARTICIPANTS},
                "Only sessions that hold any of these; repeat it for several.",
            ),
            Query(
                "description",
                {"type": "string", "minLength": limits.NEEDLE},
                "Only sessions whose description holds this.",
            ),
            Query("deduplicationKey", {"type": "string"}, "Only the session with exactly this key."),
        ),
        fails=(404,),
        page=True,
    ),
    Operation("GET", _THIS, "Get a session", _get, gives=schemas.SessionOut, fails=(404,)),
    Operation(
        "PATCH",
        _THIS,
        "Change a session",
        _patch,
        takes=schemas.SessionPatchIn,
        gives=schemas.SessionOut,
        headers=(
            Header("If-Match", VERSION_PRECONDITION, "The version that the session must have; in quotes or not."),
        ),
        fails=(404, 409),
    ),
    Operation("DELETE", _THIS, "Delete a session and its events", _delete, status=204, fails=(404,)),
]
