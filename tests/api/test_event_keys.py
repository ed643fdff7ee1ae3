"""Deduplication keys of events on the wire."""

from typing import Any

import httpx
import pytest

from tests.api.test_contract import Wire


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> Wire:
    space = (await http.post("memory/new/", json={})).json()
    session = (await http.post(f"memory/{space['memorySpaceId']}/sessions/", json={"participants": ["ann"]})).json()
    return Wire(http, space["memorySpaceId"], session["id"])


def said(content: str, **fields: Any) -> dict[str, Any]:
    return {"body": {"content": content}, "emitter": {"type": "user", "id": "ann"}, **fields}


async def test_a_key_comes_back_where_there_is_one(wire: Wire) -> None:
    made = (await wire.http.post(wire.events, json=said("a", deduplicationKey="k"))).json()
    without = (await wire.http.post(wire.events, json=said("b", deduplicationKey=None))).json()
    patched = await wire.http.patch(f"{wire.events}1/", json={"type": "t"})

    assert made["deduplicationKey"] == "k"
    assert "deduplicationKey" not in without
    assert await wire.list() == [patched.json(), without]
    assert patched.json() == {**made, "eventType": "t", "createdAt": patched.json()["createdAt"]}


async def test_a_key_that_is_taken_is_409_and_names_the_number(wire: Wire) -> None:
    await wire.http.post(wire.events, json=said("a"))
    await wire.http.post(wire.events, json=said("a", deduplicationKey="k"))

    single = await wire.http.post(wire.events, json=said("b", deduplicationKey="k"))
    batch = await wire.http.post(f"{wire.events}batch/", json={"events": [said("b"), said("b", deduplicationKey="k")]})

    for answer in (single, batch):
        assert answer.status_code == 409
        assert answer.json() == {
            "detail": "Event 2 of this session has the deduplication key 'k'",
            "errorName": "EventDeduplicationConflict",
            "existingSequenceId": 2,
        }
    assert [event["body"]["content"] for event in await wire.list()] == ["a", "a"]


async def test_two_equal_keys_in_one_batch_are_422(wire: Wire) -> None:
    answer = await wire.http.post(
        f"{wire.events}batch/", json={"events": [said("a", deduplicationKey="k"), said("b", deduplicationKey="k")]}
    )

    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "events", 1, "deduplicationKey"]
    assert await wire.list() == []


async def test_a_key_with_half_a_pair_comes_back(wire: Wire) -> None:
    raw = '{"body": {}, "emitter": {"type": "agent"}, "deduplicationKey": "\\ud83d\\u0000"}'

    made = await wire.send(raw)
    again = await wire.send(raw)
    plain = await wire.send('{"body": {}, "emitter": {"type": "agent"}, "type": "\\ud83d"}')

    assert made.json()["deduplicationKey"] == "\ud83d\0"
    assert (again.status_code, again.json()["existingSequenceId"]) == (409, 1)
    assert "deduplicationKey" not in plain.json()
