"""Memories on the wire of the public `mem0ai` client, for its versions 0.1, 1.0 and 2.2 at once.

A client is given `.../memory/{spaceId}` as its host, and adds paths of v1, v2 and v3 to it. What it says of its
organisation and project is passed over: the space is both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from threadkeep.api import mem0_answers as answers
from threadkeep.api import mem0_requests as requests
from threadkeep.api.errors import json_response
from threadkeep.api.mem0_answers import AddedEntriesOut, AddedEntryOut, AddedOut
from threadkeep.api.routing import IDEMPOTENCY_KEY, Call, Handler, Header, Operation, Query
from threadkeep.api.shell import path_part
from threadkeep.domain import limits
from threadkeep.domain.memory import SCOPE_FIELDS, Memory
from threadkeep.domain.memory_filter import Filter

ROOT = "/memory/{space_id}"
V11 = "v1.1"
"""The output format in which a list is an object with `results`."""
SEARCHED_BY = "X-Threadkeep-Search"
"""The header that says so where nothing was searched by meaning: a bare list has no room for a note."""
PAGES = limits.INTEGER // limits.MEMORY_PAGE
"""The last page that there can be."""
WAITING = "Memories are being taken from the messages; the event tells how it goes"


async def _add_v1(call: Call) -> Response:
    return await _add(call, lambda added: _wrapped(call, AddedEntriesOut(_entries(added))))


async def _add_v3(call: Call) -> Response:
    return await _add(call, json_response)


async def _add(call: Call, answer: Callable[[AddedOut], Response]) -> Response:
    memories = call.services.memories
    await memories.check(call.principal, call.space_id)
    wanted = requests.addition(call.body, call.reader)

    def kept(made: list[Memory]) -> Response:
        return answer(AddedOut("SUCCEEDED", results=list(map(answers.added_out, made))))

    def queued(event_id: str) -> Response:
        return answer(AddedOut("PENDING", event_id, WAITING))

    if call.body.infer is False:
        once = call.once(kept)
        return kept(await memories.add(call.principal, call.space_id, wanted.scope, wanted.drafts(), once=once))
    wish = requests.inference(call.body, wanted, call.reader)
    at = (call.principal, call.space_id, wanted.scope)
    return queued(await call.services.additions.queue(*at, wish, once=call.once(queued)))


def _entries(added: AddedOut) -> list[AddedEntryOut]:
    if not isinstance(added.results, list):
        return [AddedEntryOut(message=added.message, status=added.status, event_id=added.event_id)]
    return [AddedEntryOut(each.id, each.memory, each.event, each.data) for each in added.results]


def _wrapped(call: Call, shown: AddedEntriesOut) -> Response:
    return json_response(shown if call.body.output_format == V11 else shown.results)


async def _get(call: Call) -> Response:
    found = await call.services.memories.get(call.principal, call.space_id, memory_id(call))
    return json_response(answers.memory_out(found))


@dataclass(frozen=True, slots=True)
class _ListWish:
    """Which memories to list, and how to show them."""

    filter: Filter
    page: int
    size: int
    shows_expired: bool
    is_paged: bool
    is_wrapped: bool = True


async def _list_v1(call: Call) -> Response:
    await call.services.memories.check(call.principal, call.space_id)
    expired = call.query("show_expired") in ("true", "True", "1")
    wanted = requests.of_ids(ids_of(call))
    is_wrapped = call.query("output_format") == V11
    return await _list(call, _ListWish(wanted, 1, requests.PAGE_SIZE, expired, "page" in call.params, is_wrapped))


async def _list_v2(call: Call) -> Response:
    return await _list_by_body(call, is_paged="page" in call.params or call.body.page is not None)


async def _list_v3(call: Call) -> Response:
    return await _list_by_body(call, is_paged=True)


async def _list_by_body(call: Call, *, is_paged: bool) -> Response:
    await call.services.memories.check(call.principal, call.space_id)
    body: requests.ListIn = call.body
    wanted = requests.listed(body, call.reader)
    page = 1 if body.page is None else body.page
    size = requests.PAGE_SIZE if body.page_size is None else body.page_size
    wish = _ListWish(wanted, page, size, bool(body.show_expired), is_paged, body.output_format == V11)
    return await _list(call, wish)


async def _list(call: Call, wish: _ListWish) -> Response:
    page, size = call.integer("page", wish.page), call.integer("page_size", wish.size)
    limits.check_range(page, 1, PAGES, "page")
    limits.check_range(size, 1, limits.MEMORY_PAGE, "page_size")
    found, total = await call.services.memories.page(
        call.principal,
        call.space_id,
        wish.filter,
        offset=(page - 1) * size,
        limit=size,
        on="" if wish.shows_expired else None,
    )
    shown = list(map(answers.memory_out, found))
    if not wish.is_paged:
        return json_response(answers.MemoryListOut(shown) if wish.is_wrapped else shown)
    following = _page_url(call, page + 1, size) if page * size < total else None
    previous = _page_url(call, page - 1, size) if page > 1 else None
    return json_response(answers.MemoryPageOut(total, following, previous, shown))


def _page_url(call: Call, page: int, size: int) -> str:
    """The address of another page. Where a list is asked for by a POST, the same body goes there."""
    return str(call.request.url.include_query_params(page=page, page_size=size))


async def _search_v1(call: Call) -> Response:
    return await _search(call, is_wrapped=call.body.output_format == V11)


async def _search_v2(call: Call) -> Response:
    return await _search(call, is_wrapped=call.body.output_format == V11)


async def _search_v3(call: Call) -> Response:
    return await _search(call, is_wrapped=True)


async def _search(call: Call, *, is_wrapped: bool) -> Response:
    memories = call.services.memories
    await memories.check(call.principal, call.space_id)
    found = await memories.search(call.principal, call.space_id, requests.wish(call.body, call.reader))
    shown = list(map(answers.found_out, found.hits))
    headers = {} if found.note is None else {SEARCHED_BY: "keywords"}
    return json_response(answers.FoundMemoriesOut(shown, found.note) if is_wrapped else shown, headers=headers)


async def _update(call: Call) -> Response:
    memories, at = call.services.memories, (call.principal, call.space_id, memory_id(call))
    await memories.get(*at)
    return json_response(answers.memory_out(await memories.edit(*at, requests.edit(call.body, call.reader))))


async def _delete(call: Call) -> Response:
    await call.services.memories.delete(call.principal, call.space_id, memory_id(call))
    return json_response(answers.MessageOut("Memory deleted successfully!"))


async def _delete_all(call: Call) -> Response:
    memories = call.services.memories
    await memories.check(call.principal, call.space_id)
    count = await memories.delete_all(call.principal, call.space_id, requests.of_ids(ids_of(call)))
    return json_response(answers.MessageOut(f"Memories deleted successfully: {count}"))


async def _history(call: Call) -> Response:
    kept, lines = await call.services.memories.history(call.principal, call.space_id, memory_id(call))
    return json_response([answers.history_out(kept, line) for line in lines])


def memory_id(call: Call) -> str:
    return path_part(call.request, "memory_id")


def ids_of(call: Call) -> dict[str, str]:
    """The ids of a scope that the query names."""
    return {name: value for name in SCOPE_FIELDS if (value := call.query(name)) is not None}


_SCOPE = tuple(
    Query(name, {"type": "string"}, "Only memories with exactly this id; * is any.") for name in SCOPE_FIELDS
)
PAGE = (
    Query("page", {"type": "integer", "minimum": 1, "maximum": PAGES}, "From 1."),
    Query("page_size", {"type": "integer", "minimum": 1, "maximum": limits.MEMORY_PAGE}, "Items of a page."),
)
_V1, _V2, _V3 = f"{ROOT}/v1/memories/", f"{ROOT}/v2/memories/", f"{ROOT}/v3/memories/"
_THIS = _V1 + "{memory_id}/"
_EXPIRED = Query("show_expired", {"type": "string"}, "true: expired ones too.")
_ADD = "Add memories, or messages to take them from"
_ENTRIES = list[AddedEntryOut] | AddedEntriesOut
_SEARCH = "Search memories by meaning and by words"
_FOUND = list[answers.FoundMemoryOut] | answers.FoundMemoriesOut
_LISTING = "List memories, newest first"
_LISTED = list[answers.MemoryOut] | answers.MemoryListOut
_HISTORY = list[answers.HistoryLineOut]


def operation(
    method: str,
    path: str,
    summary: str,
    handler: Handler,
    gives: Any = None,
    *,
    takes: Any = None,
    status: int = 200,
    query: tuple[Query, ...] = (),
    headers: tuple[Header, ...] = (),
) -> Operation:
    """An operation of this wire: what is wrong is said in a sentence."""
    return Operation(
        method,
        path,
        summary,
        handler,
        takes=takes,
        gives=gives,
        status=status,
        query=query,
        headers=headers,
        fails=(404,),
        reads=takes in (requests.SearchIn, requests.ListIn),
        plain=True,
    )


OPERATIONS = [
    operation("POST", f"{_V3}add/", _ADD, _add_v3, AddedOut, takes=requests.AddIn, headers=(IDEMPOTENCY_KEY,)),
    operation("POST", _V1, _ADD, _add_v1, _ENTRIES, takes=requests.AddIn, headers=(IDEMPOTENCY_KEY,)),
    operation("POST", f"{_V3}search/", _SEARCH, _search_v3, answers.FoundMemoriesOut, takes=requests.SearchIn),
    operation("POST", f"{_V2}search/", _SEARCH, _search_v2, _FOUND, takes=requests.SearchIn),
    operation("POST", f"{_V1}search/", _SEARCH, _search_v1, _FOUND, takes=requests.SearchIn),
    operation("POST", _V3, _LISTING, _list_v3, answers.MemoryPageOut, takes=requests.ListIn, query=PAGE),
    operation("POST", _V2, _LISTING, _list_v2, _LISTED, takes=requests.ListIn, query=PAGE),
    operation("GET", _V1, _LISTING, _list_v1, _LISTED, query=(*_SCOPE, *PAGE, _EXPIRED)),
    operation("DELETE", _V1, "Delete the memories of a scope", _delete_all, answers.MessageOut, query=_SCOPE),
    operation("GET", _THIS, "Read a memory", _get, answers.MemoryOut),
    operation("PUT", _THIS, "Change a memory", _update, answers.MemoryOut, takes=requests.UpdateIn),
    operation("DELETE", _THIS, "Delete a memory", _delete, answers.MessageOut),
    operation("GET", f"{_THIS}history/", "What happened to a memory, in order", _history, _HISTORY),
]
