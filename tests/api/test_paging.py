"""Ways to page beside `offset`: `after` among events, `cursor` in lists of sessions and spaces."""

from typing import Any

import httpx
import pytest

from threadkeep.domain.event import EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.storage import events as stored_events


class Place:
    def __init__(self, services: Container, principal: Principal, space_id: str, session_id: str) -> None:
        self.services = services
        self.at = (principal, space_id, session_id)
        self.sessions = f"memory/{space_id}/sessions/"
        self.events = f"{self.sessions}{session_id}/events/"


@pytest.fixture
async def place(container: Container, token: str) -> Place:
    principal = await container.tokens.local_principal("alice")
    space = await container.spaces.create(principal, SpaceDraft())
    session = await container.sessions.create(principal, space.id, SessionDraft(("ann",)))
    return Place(container, principal, space.id, session.id)


def typed(types: str) -> list[EventDraft]:
    return [EventDraft("{}", None, type_, "agent", None) for type_ in types]


async def get(http: httpx.AsyncClient, path: str, **params: Any) -> dict[str, Any]:
    answer = await http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def numbers(page: dict[str, Any]) -> list[int]:
    return [event["sequenceId"] for event in page["items"]]


async def test_events_after_a_number(http: httpx.AsyncClient, place: Place) -> None:
    await place.services.events.append(*place.at, typed("aababbaaab"))
    await place.services.events.delete(*place.at, 5)

    start = await get(http, place.events, after=0, limit=3)
    middle = await get(http, place.events, after=4, limit=3)
    of_type = await get(http, place.events, after=3, limit=2, eventType="a")
    end = await get(http, place.events, after=10)

    assert start == {**start, "total": 9, "offset": 0, "limit": 3}
    assert "nextCursor" not in start
    assert (numbers(start), numbers(middle), numbers(end)) == ([1, 2, 3], [6, 7, 8], [])
    assert (numbers(of_type), of_type["total"]) == ([4, 7], 6)


@pytest.mark.parametrize("deleted", [(), (1,), (5, 6), (10,)])
@pytest.mark.parametrize("event_type", [None, "a"])
async def test_offset_pages_are_the_same_from_either_end(
    http: httpx.AsyncClient, place: Place, deleted: tuple[int, ...], event_type: str | None
) -> None:
    types = "aababbaaab"
    await place.services.events.append(*place.at, typed(types))
    for number in deleted:
        await place.services.events.delete(*place.at, number)
    wanted = [n for n, type_ in enumerate(types, 1) if n not in deleted and event_type in (None, type_)]
    params = {} if event_type is None else {"eventType": event_type}

    for limit in (1, 3, 100):
        for offset in range(12):
            page = await get(http, place.events, offset=offset, limit=limit, **params)
            assert (numbers(page), page["total"]) == (wanted[offset : offset + limit], len(wanted))


async def test_a_deep_page_is_read_from_the_end(place: Place) -> None:
    await place.services.events.append(*place.at, typed("ab" * 10))
    read: list[tuple[int, ...]] = []

    def spied() -> Any:
        steps = stored_events.page(*place.at[1:], place.at[0].user_id, None, 17, 2)
        return (yield from _spy(steps, read))

    await place.services.events.delete(*place.at, 1)
    found, total = await place.services.database.read(spied)

    assert ([event.sequence_id for event in found], total) == ([19, 20], 19)
    assert read[-1] == (0, 2)


def _spy(steps: Any, read: list[tuple[int, ...]]) -> Any:
    rows = None
    while True:
        try:
            statement, values = steps.send(rows) if rows is not None else next(steps)
        except StopIteration as stop:
            return stop.value
        if "offset" in values:
            read.append((values["offset"], values["limit"]))
        rows = yield statement, values


@pytest.mark.parametrize(
    "query",
    ["after=1&offset=0", "after=1&lastN=3", "after=1&offset=1&lastN=1", "after=-1", "after=x", "after=1&limit=101"],
)
async def test_after_is_a_number_and_stands_alone(http: httpx.AsyncClient, place: Place, query: str) -> None:
    assert (await http.get(f"{place.events}?{query}")).status_code == 422


async def walk(http: httpx.AsyncClient, path: str, **params: Any) -> list[list[dict[str, Any]]]:
    pages = []
    cursor: str | None = ""
    while cursor is not None:
        page = await get(http, path, cursor=cursor, **params)
        assert (page["offset"], page["limit"]) == (0, params["limit"])
        pages.append(page["items"])
        cursor = page["nextCursor"]
    return pages


async def test_sessions_by_cursor(http: httpx.AsyncClient, place: Place) -> None:
    for n in range(6):
        await http.post(place.sessions, json={"participants": ["ann" if n % 2 else "bob"], "description": f"talk {n}"})
    everything = (await get(http, place.sessions))["items"]

    pages = await walk(http, place.sessions, limit=3)
    bobs = await walk(http, place.sessions, limit=2, participants="bob", description="talk")

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [item for page in pages for item in page] == everything
    assert [[item["description"] for item in page] for page in bobs] == [["talk 0", "talk 2"], ["talk 4"]]
    assert (await get(http, place.sessions, cursor="", limit=7))["nextCursor"] is None
    assert "nextCursor" not in await get(http, place.sessions)


async def test_what_is_deleted_between_two_pages_shifts_none(http: httpx.AsyncClient, place: Place) -> None:
    for n in range(4):
        await http.post(place.sessions, json={"participants": ["p"], "deduplicationKey": str(n)})
    first = await get(http, place.sessions, cursor="", limit=3)

    await http.delete(f"{place.sessions}{first['items'][0]['id']}/")
    rest = await get(http, place.sessions, cursor=first["nextCursor"], limit=3)

    assert [item["deduplicationKey"] for item in rest["items"]] == ["2", "3"]
    assert (rest["total"], rest["nextCursor"]) == (4, None)


async def test_spaces_by_cursor(http: httpx.AsyncClient, place: Place) -> None:
    for n in range(4):
        await http.post("memory/new/", json={"description": str(n), "deduplicationKey": str(n)})

    pages = await walk(http, "memory/", limit=2)
    by_key = await get(http, "memory/", cursor="", deduplicationKey="2")

    assert [[item["description"] for item in page] for page in pages] == [["3", "2"], ["1", "0"], [None]]
    assert ([item["description"] for item in by_key["items"]], by_key["nextCursor"]) == (["2"], None)


@pytest.mark.parametrize("query", ["cursor=&offset=0", "cursor=x", "cursor=%00", "cursor=" + "-" * 23])
async def test_a_cursor_is_one_that_was_given(http: httpx.AsyncClient, place: Place, query: str) -> None:
    for path in (place.sessions, "memory/"):
        answer = await http.get(f"{path}?{query}")
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["query", "cursor"]
