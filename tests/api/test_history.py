"""The whole history of a session in one answer, a line an event."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from threadkeep.domain.event import EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import NotFound
from threadkeep.services.container import Container

At = tuple[Principal, str, str]


@pytest.fixture
async def at(container: Container, token: str) -> At:
    principal = await container.tokens.local_principal("alice")
    space = await container.spaces.create(principal, SpaceDraft())
    session = await container.sessions.create(principal, space.id, SessionDraft(("ann",)))
    return principal, space.id, session.id


async def append(container: Container, at: At, count: int) -> None:
    """So many events; every third is of another type."""
    drafts = [EventDraft(f'{{"n":{n}}}', None, "ab"[n % 3 == 0], "agent", None) for n in range(1, count + 1)]
    for start in range(0, count, 200):
        await container.events.append_batch(*at, drafts[start : start + 200])


async def lines(http: httpx.AsyncClient, at: At, **params: Any) -> list[dict[str, Any]]:
    answer = await http.get(f"memory/{at[1]}/sessions/{at[2]}/history/", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert answer.content == b"" or answer.content.endswith(b"\n")
    return [json.loads(line) for line in answer.content.split(b"\n")[:-1]]


async def test_all_events_come_in_one_answer(http: httpx.AsyncClient, container: Container, at: At) -> None:
    await append(container, at, 1_203)
    await container.events.delete(*at, 7)
    await container.events.delete(*at, 500)

    found = await lines(http, at)

    expected = [n for n in range(1, 1_204) if n not in (7, 500)]
    assert [event["sequenceId"] for event in found] == expected
    assert [event["body"]["n"] for event in found] == expected
    (one,) = (await http.get(f"memory/{at[1]}/sessions/{at[2]}/events/", params={"offset": 2, "limit": 1})).json()[
        "items"
    ]
    assert found[2] == one


async def test_only_what_is_asked_for_comes(http: httpx.AsyncClient, container: Container, at: At) -> None:
    await append(container, at, 1_600)

    behind = await lines(http, at, after=1_590)
    typed = await lines(http, at, eventType="b")
    none = await lines(http, at, eventType="c")

    assert [event["sequenceId"] for event in behind] == list(range(1_591, 1_601))
    assert [event["sequenceId"] for event in typed] == list(range(3, 1_601, 3))
    assert none == []


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1_000])
async def test_a_step_that_is_full_is_no_end(http: httpx.AsyncClient, container: Container, at: At, count: int) -> None:
    await append(container, at, count)

    assert [event["sequenceId"] for event in await lines(http, at)] == list(range(1, count + 1))


async def test_a_body_of_many_lines_is_one_line(http: httpx.AsyncClient, container: Container, at: At) -> None:
    bodies = ['{\n  "a": "x\\ny",\r\n\t"b": [1,\n2]\n}', '{"c":"\\ud83d"}', '{"d":"\u2028\u0085 é"}']
    await container.events.append_batch(*at, [EventDraft(body, None, "\ud83d", "agent", None) for body in bodies])

    found = await lines(http, at)

    assert [event["body"] for event in found] == [json.loads(body) for body in bodies]
    assert {event["eventType"] for event in found} == {"\ud83d"}


async def test_what_is_refused_is_said_before_the_answer_begins(http: httpx.AsyncClient, at: At) -> None:
    _, space_id, session_id = at
    place = f"memory/{space_id}/sessions/{session_id}/history/"

    unknown = await http.get(place.replace(session_id, space_id))
    negative = await http.get(place, params={"after": -1})
    no_number = await http.get(place, params={"after": "x"})

    assert (unknown.status_code, "detail" in unknown.json()) == (404, True)
    assert (negative.status_code, negative.json()["detail"][0]["loc"]) == (422, ["query", "after"])
    assert (no_number.status_code, no_number.json()["detail"][0]["loc"]) == (422, ["query", "after"])


async def test_a_history_that_is_deleted_meanwhile_does_not_end_as_if_it_were_whole(
    container: Container, at: At
) -> None:
    await append(container, at, 1_000)
    steps = container.events.history(*at)

    first = await anext(steps)
    await container.sessions.delete(*at)

    assert len(first) == 500
    with pytest.raises(NotFound):
        # The second step may have been read before.
        [len(step) async for step in steps]


async def test_a_history_that_nobody_reads_on_leaves_nothing_behind(container: Container, at: At) -> None:
    await append(container, at, 1_600)
    steps = container.events.history(*at)
    before = asyncio.all_tasks()

    first = await anext(steps)
    await steps.aclose()

    assert [event.sequence_id for event in first] == list(range(1, 501))
    assert asyncio.all_tasks() == before
