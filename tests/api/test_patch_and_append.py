"""Changes and appends in one request: all of it, or nothing."""

from typing import Any

import httpx
import pytest

from tests.api.test_contract import Wire


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> Wire:
    space = (await http.post("memory/new/", json={})).json()
    session = (await http.post(f"memory/{space['memorySpaceId']}/sessions/", json={"participants": ["ann"]})).json()
    wire = Wire(http, space["memorySpaceId"], session["id"])
    await http.post(f"{wire.events}batch/", json={"events": [said("a"), said("b")]})
    return wire


def said(content: str, **fields: Any) -> dict[str, Any]:
    return {"body": {"content": content}, "emitter": {"type": "user", "id": "ann"}, **fields}


def changed(number: int, content: str, **fields: Any) -> dict[str, Any]:
    return {"sequenceId": number, "body": {"content": content}, **fields}


async def test_what_is_appended_comes_after_what_is_there(wire: Wire) -> None:
    body = {"events": [changed(2, "B")], "append": [said("c", type="t", deduplicationKey="k"), said("d")]}
    answer = await wire.http.patch(f"{wire.events}batch/", json=body)

    assert answer.status_code == 200
    stored = await wire.list()
    assert [(event["sequenceId"], event["body"]["content"]) for event in stored] == [
        (1, "a"),
        (2, "B"),
        (3, "c"),
        (4, "d"),
    ]
    assert answer.json() == {"items": [stored[1]], "appended": stored[2:]}
    assert (stored[2]["eventType"], stored[2]["deduplicationKey"]) == ("t", "k")


async def test_the_answer_to_changes_alone_is_as_ever(wire: Wire) -> None:
    answer = await wire.http.patch(f"{wire.events}batch/", json={"events": [changed(1, "A")]})

    assert list(answer.json()) == ["items"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"events": [changed(1, "A", createdAt="2026-01-01T00:00:00Z")], "append": [said("c")]}, 422, "incorrect"),
        ({"events": [changed(9, "A")], "append": [said("c")]}, 404, "9"),
        ({"events": [changed(1, "A")], "append": [said("c", emitter={"type": "user", "id": "ben"})]}, 400, "append[0]"),
        ({"events": [changed(1, "A")], "append": [said("")]}, 422, "append"),
        ({"events": [changed(1, "A")], "append": [said("c", deduplicationKey="taken")]}, 409, "taken"),
        ({"events": [changed(1, "A")], "append": [said("c")] * 200}, 422, "201 events"),
    ],
)
async def test_where_one_part_fails_nothing_is_done(wire: Wire, body: dict[str, Any], status: int, words: str) -> None:
    await wire.http.post(wire.events, json=said("keyed", deduplicationKey="taken"))
    answer = await wire.http.patch(f"{wire.events}batch/", json=body)

    assert answer.status_code == status
    assert words in answer.text
    assert [event["body"]["content"] for event in await wire.list()] == ["a", "b", "keyed"]
    assert (await wire.http.post(wire.events, json=said("next"))).json()["sequenceId"] == 4
