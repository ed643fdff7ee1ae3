"""Events."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from threadkeep.api import schemas
from threadkeep.api.constraints import TIMESTAMP
from threadkeep.api.errors import json_response
from threadkeep.api.json import dump_lines
from threadkeep.api.routing import (
    EVENT_TYPE,
    IDEMPOTENCY_KEY,
    LIMIT,
    LINES,
    OFFSET,
    Call,
    Operation,
    Query,
    parse_integer,
)
from threadkeep.domain import limits
from threadkeep.domain.event import Event
from threadkeep.errors import Invalid


async def _append(call: Call) -> Response:
    draft = schemas.event_draft(call.body, call.reader)
    events = call.events
    made = await events.append(call.principal, call.space_id, call.session_id, [draft], once=call.once(_appended))
    return _appended(made)


async def _append_batch(call: Call) -> Response:
    limits.check_count(len(call.body.events), limits.BATCH, "events", minimum=1)
    drafts = [schemas.event_draft(item, call.reader, "events", n) for n, item in enumerate(call.body.events)]
    events, once = call.events, call.once(_appended_batch)
    made = await events.append_batch(call.principal, call.space_id, call.session_id, drafts, once=once)
    return _appended_batch(made)


async def _list(call: Call) -> Response:
    event_type = call.query("eventType")
    events = call.events
    wanted = [name for name in ("lastN", "offset", "after") if call.query(name) is not None]
    if len(wanted) > 1:
        raise Invalid(f"Give {' or '.join(wanted)}, not {'both' if len(wanted) == 2 else 'all'}", ["query", wanted[0]])
    if "after" in wanted:
        offset, limit = 0, call.integer("limit", limits.PAGE)
        at = (call.principal, call.space_id, call.session_id, call.integer("after", 0))
        found, total = await events.page_after(*at, event_type=event_type, limit=limit)
    elif "lastN" in wanted:
        offset, limit = 0, call.integer("lastN", 0)
        found, total = await events.last(call.principal, call.space_id, call.session_id, limit, event_type=event_type)
    else:
        offset, limit = call.integer("offset", 0), call.integer("limit", limits.PAGE)
        found, total = await events.page(
            call.principal, call.space_id, call.session_id, event_type=event_type, offset=offset, limit=limit
        )
    return json_response(schemas.page_out(list(map(schemas.event_out, found)), total, offset, limit))


async def _history(call: Call) -> Response:
    at = (call.principal, call.space_id, call.session_id)
    steps = call.events.history(*at, after=call.integer("after", 0), event_type=call.query("eventType"))
    # Read before the answer begins: what is refused can then still be said.
    first = await anext(steps)
    return StreamingResponse(_lines(first, steps), media_type=LINES)


async def _lines(first: list[Event], rest: AsyncGenerator[list[Event], None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield dump_lines(list(map(schemas.event_line, first)))
        async for step in rest:
            yield dump_lines(list(map(schemas.event_line, step)))


async def _patch(call: Call) -> Response:
    token = call.query("createdAt")
    change = schemas.event_change(call.body, call.reader, _sequence_id(call), None)
    if token is not None:
        change = schemas.with_token(change, token, "query", "createdAt")
    (event,) = await call.events.patch(call.principal, call.space_id, call.session_id, [change])
    return json_response(schemas.event_out(event))


async def _patch_batch(call: Call) -> Response:
    limits.check_count(len(call.body.events), limits.BATCH, "events", minimum=1)
    changes = [
        schemas.event_change(item, call.reader, item.sequence_id, item.created_at, "events", n)
        for n, item in enumerate(call.body.events)
    ]
    given = call.body.append or []
    limits.check_count(len(changes) + len(given), limits.BATCH, "events")
    drafts = [schemas.event_draft(item, call.reader, "append", n) for n, item in enumerate(given)]
    events = call.events
    made, new = await events.patch_and_append(call.principal, call.space_id, call.session_id, changes, drafts)
    answer = schemas.PatchedOut(list(map(schemas.event_out, made)))
    if call.body.append is not None:
        answer.appended = list(map(schemas.event_out, new))
    return json_response(answer)


async def _delete(call: Call) -> Response:
    await call.events.delete(call.principal, call.space_id, call.session_id, _sequence_id(call))
    return Response(status_code=204)


def _appended(events: list[Event]) -> Response:
    return json_response(schemas.event_out(events[0]), 201)


def _appended_batch(events: list[Event]) -> Response:
    return _items(events, 201)


def _items(events: list[Event], status: int) -> Response:
    return json_response(schemas.ItemsOut(list(map(schemas.event_out, events))), status)


def _sequence_id(call: Call) -> int:
    return parse_integer(str(call.request.path_params["sequence_id"]), "path", "sequenceId")


_SESSION = "/memory/{space_id}/sessions/{session_id}/"
_ALL = _SESSION + "events/"
_BATCH = _ALL + "batch/"
_THIS = _ALL + "{sequence_id}/"
_AFTER = {"type": "integer", "minimum": 0, "maximum": limits.INTEGER}

OPERATIONS = [
    Operation(
        "POST",
        _ALL,
        "Append an event",
        _append,
        takes=schemas.NewEventIn,
        gives=schemas.EventOut,
        status=201,
        headers=(IDEMPOTENCY_KEY,),
        fails=(400, 404, 409),
    ),
    Operation(
        "GET",
        _ALL,
        "List events in their order",
        _list,
        gives=schemas.EventOut,
        query=(
            OFFSET,
            LIMIT,
            Query(
                "lastN",
                {"type": "integer", "minimum": 1, "maximum": limits.PAGE},
                "Only the newest so many; not together with offset or after.",
            ),
            Query(
                "after",
                _AFTER,
                "Only events with a greater sequenceId; not together with offset or lastN.",
            ),
            EVENT_TYPE,
        ),
        fails=(404,),
        page=True,
    ),
    Operation(
        "GET",
        _SESSION + "history/",
        "Read all events in their order",
        _history,
        gives=schemas.EventOut,
        query=(Query("after", _AFTER, "Only events with a greater sequenceId."), EVENT_TYPE),
        fails=(404,),
        lines=True,
    ),
    Operation(
        "POST",
        _BATCH,
        "Append 1 to 200 events, all or none",
        _append_batch,
        takes=schemas.EventBatchIn,
        gives=schemas.ItemsOut,
        status=201,
        headers=(IDEMPOTENCY_KEY,),
        fails=(400, 404, 409),
    ),
    Operation(
        "PATCH",
        _BATCH,
        "Change 1 to 200 events, and append others with them, all or none",
        _patch_batch,
        takes=schemas.EventBatchPatchIn,
        gives=schemas.PatchedOut,
        fails=(400, 404, 409),
    ),
    Operation(
        "PATCH",
        _THIS,
        "Change an event",
        _patch,
        takes=schemas.EventPatchIn,
        gives=schemas.EventOut,
        query=(Query("createdAt", TIMESTAMP, "The createdAt that it must have."),),
        fails=(400, 404, 409),
    ),
    Operation("DELETE", _THIS, "Delete an event", _delete, status=204, fails=(404,)),
]
