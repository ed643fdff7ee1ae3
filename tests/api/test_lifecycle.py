"""Lifecycle strategies over HTTP: what a caller sees when one has run, is changed, or is closed to change."""

from typing import Any

import httpx
import pytest

from tests.passing_time import seconds_from_now, work_at
from threadkeep.services.container import Container

EXTRACT = {"type": "extract_memories", "trigger": {"eventCount": 1}, "opts": {"softDelete": False}}
KEEP = {"type": "soft_delete", "trigger": {"never": True}, "opts": None}


@pytest.fixture
async def sessions(http: httpx.AsyncClient) -> str:
    """The path of a space's sessions."""
    space = (await http.post("/memory/new/", json={})).json()["memorySpaceId"]
    return f"/memory/{space}/sessions/"


async def make(http: httpx.AsyncClient, sessions: str, *strategies: dict[str, Any]) -> str:
    made = await http.post(sessions, json={"participants": ["p"], "lifecycleStrategies": list(strategies)})
    assert made.status_code == 201
    return f"{sessions}{made.json()['id']}/"


async def test_a_session_whose_time_has_come_is_404_on_every_route_and_in_no_list(
    http: httpx.AsyncClient, container: Container, sessions: str
) -> None:
    session = await make(http, sessions, {"type": "soft_delete", "trigger": {"ttl": 60}})
    event = {"body": {}, "emitter": {"type": "agent"}}
    assert (await http.post(f"{session}events/", json=event)).status_code == 201

    await work_at(container, seconds_from_now(61))

    for answer in (
        await http.get(session),
        await http.patch(session, json={"description": "x"}),
        await http.delete(session),
        await http.get(f"{session}events/"),
        await http.post(f"{session}events/", json=event),
        await http.patch(f"{session}events/1/", json={"type": "x"}),
    ):
        assert answer.status_code == 404
    assert (await http.get(sessions, params={"participants": "p"})).json()["items"] == []


async def test_a_type_that_has_run_is_closed_and_inert_when_sent_unchanged(
    http: httpx.AsyncClient, container: Container, sessions: str
) -> None:
    session = await make(http, sessions, EXTRACT, KEEP)
    await http.post(f"{session}events/", json={"body": {}, "emitter": {"type": "agent"}})
    await work_at(container, seconds_from_now(0))

    changed = await http.patch(session, json={"lifecycleStrategies": [{**EXTRACT, "trigger": {"eventCount": 2}}, KEEP]})
    stale = await http.patch(session, json={"lifecycleStrategies": [KEEP]}, headers={"If-Match": "7"})
    stored = (await http.get(session)).json()
    same = await http.patch(session, json={"lifecycleStrategies": stored["lifecycleStrategies"]})

    assert changed.status_code == 409
    assert changed.json() == {
        "detail": "extract_memories has run for this session and is closed to change: send its strategies as they are",
        "errorName": "LifecycleStrategyClosed",
    }
    assert stale.status_code == 409
    assert stale.json()["detail"].startswith("Session version mismatch")
    assert stored["lifecycleStrategies"] == [EXTRACT, KEEP]
    assert stored["version"] == 1
    assert (same.status_code, same.json()["version"]) == (200, 2)


@pytest.mark.parametrize("number", ["9" * 5_000, "1e400", "1e99999999999999999999", "-1.50"])
async def test_options_hold_any_number_and_come_back_as_they_were_sent(
    http: httpx.AsyncClient, container: Container, sessions: str, number: str
) -> None:
    opts = f'{{"metadata": {{"n": {number}}} }}'
    strategies = f'[{{"type": "extract_memories", "trigger": {{"eventCount": 1}}, "opts": {opts}}}]'

    made = await http.post(sessions, content=f'{{"participants": ["p"], "lifecycleStrategies": {strategies}}}')
    # Not `json()`: Python's reader refuses the longest of these numbers.
    session = sessions + made.text.split('"id":"')[1][:36] + "/"
    await http.post(f"{session}events/", json={"body": {}, "emitter": {"type": "agent"}})
    await work_at(container, seconds_from_now(0))
    sent_again = await http.patch(session, content=f'{{"lifecycleStrategies": {strategies}}}')

    assert made.status_code == 201
    assert sent_again.status_code == 200
    assert opts in sent_again.text
