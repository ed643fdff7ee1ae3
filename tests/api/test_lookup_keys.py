"""Lookup keys of events on the wire, and the routes that read events of a whole space."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.test_contract import Wire


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> Wire:
    space = (await http.post("memory/new/", json={})).json()
    session = (await http.post(f"memory/{space['memorySpaceId']}/sessions/", json={"participants": ["ann"]})).json()
    return Wire(http, space["memorySpaceId"], session["id"])


def said(*keys: str, **fields: Any) -> dict[str, Any]:
    return {"body": {"content": "x"}, "emitter": {"type": "agent"}, "lookupKeys": list(keys), **fields}


async def test_keys_come_back_where_there_are_some_and_find_the_event(wire: Wire) -> None:
    made = (await wire.http.post(wire.events, json=said("a", "b", "a", type="message"))).json()
    without = (await wire.http.post(wire.events, json=said())).json()
    nulls = (await wire.http.post(wire.events, json=said(lookupKeys=None))).json()
    patched = (await wire.http.patch(f"{wire.events}1/", json={"lookupKeys": ["c", "a"]})).json()

    assert made["lookupKeys"] == ["a", "b"]
    assert "lookupKeys" not in without
    assert patched == {**made, "lookupKeys": ["a", "b", "c"], "createdAt": patched["createdAt"]}
    assert await wire.list() == [patched, without, nulls]
    page = (await wire.http.get(f"{wire.space}events/?lookupKey=c&lookupKey=x&lookupKey=a&eventType=message")).json()
    session_id = wire.session.split("/")[-2]
    assert page == {"items": [{**patched, "sessionId": session_id}], "total": 1, "offset": 0, "limit": 100}
    empty = (await wire.http.get(f"{wire.space}events/?lookupKey=c&eventType=status&limit=7&offset=2")).json()
    assert empty == {"items": [], "total": 0, "offset": 2, "limit": 7}


async def test_a_key_that_is_taken_is_409_and_names_what_has_it(wire: Wire) -> None:
    await wire.http.post(f"{wire.events}batch/", json={"events": [said(), said("k"), said()]})

    single = await wire.http.post(wire.events, json=said("k"))
    batch = await wire.http.post(f"{wire.events}batch/", json={"events": [said("new"), said("k")]})
    patch = await wire.http.patch(f"{wire.events}1/", json={"lookupKeys": ["k"]})
    changes = [{"sequenceId": 1, "lookupKeys": ["new"]}, {"sequenceId": 3, "lookupKeys": ["k"]}]
    patches = await wire.http.patch(f"{wire.events}batch/", json={"events": changes})

    session_id = wire.session.split("/")[-2]
    for answer in (single, batch, patch, patches):
        assert answer.status_code == 409
        assert answer.json() == {
            "detail": f"Event 2 of session {session_id} has the lookup key 'k', and its type",
            "errorName": "EventLookupConflict",
            "existingSessionId": session_id,
            "existingSequenceId": 2,
        }
    assert [event.get("lookupKeys") for event in await wire.list()] == [None, ["k"], None]
    assert (await wire.http.get(f"{wire.space}events/?lookupKey=new")).json()["total"] == 0


async def test_a_repeated_request_with_keys_is_answered_once_more(wire: Wire) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await wire.http.post(wire.events, json=said("k"), headers=headers)
    again = await wire.http.post(wire.events, json=said("k"), headers=headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert len(await wire.list()) == 1


@pytest.mark.parametrize(
    ("keys", "loc"),
    [([""], ["body", "lookupKeys", 0]), (["x" * 129], ["body", "lookupKeys", 0]), ([7], ["body", "lookupKeys", 0])],
)
async def test_keys_that_break_a_rule_are_422_and_name_their_place(wire: Wire, keys: list[Any], loc: list[Any]) -> None:
    await wire.http.post(wire.events, json=said())

    for answer in (
        await wire.http.post(wire.events, json=said(lookupKeys=keys)),
        await wire.http.patch(f"{wire.events}1/", json={"lookupKeys": keys}),
    ):
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == loc
    nothing = await wire.http.patch(f"{wire.events}1/", json={"lookupKeys": []})
    assert "Nothing to change" in nothing.text


MANY = "&".join(["lookupKey=a"] * 101)


@pytest.mark.parametrize("query", ["", "?lookupKey=", "?lookupKey=a&limit=0", "?lookupKey=a&offset=x", f"?{MANY}"])
async def test_a_look_up_without_a_usable_key_is_422(wire: Wire, query: str) -> None:
    answer = await wire.http.get(f"{wire.space}events/{query}")

    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][0] == "query"


async def test_a_key_with_half_a_pair_comes_back_and_is_found(wire: Wire) -> None:
    made = await wire.send('{"body": {}, "emitter": {"type": "agent"}, "lookupKeys": ["\\ud83d\\u0000"]}')

    assert made.json()["lookupKeys"] == ["\ud83d\0"]
    key = quote("\ud83d\0", errors="surrogatepass")
    found = (await wire.http.get(f"{wire.space}events/?lookupKey={key}")).json()
    assert [event["lookupKeys"] for event in found["items"]] == [["\ud83d\0"]]


async def test_the_newest_events_of_sessions_on_the_wire(wire: Wire) -> None:
    await wire.http.post(f"{wire.events}batch/", json={"events": [said(type="a"), said(type="a"), said(type="b")]})
    session_id = wire.session.split("/")[-2]

    newest = (await wire.http.get(f"{wire.space}events/newest/?sessionId={session_id}&sessionId=x")).json()
    of_type = (await wire.http.get(f"{wire.space}events/newest/?sessionId={session_id}&eventType=a")).json()

    events = await wire.list()
    assert newest == {"items": [{**events[2], "sessionId": session_id}], "total": 1, "offset": 0, "limit": 100}
    assert of_type["items"] == [{**events[1], "sessionId": session_id}]
    for ids in ([], ["a"] * 101):
        refused = await wire.http.get(f"{wire.space}events/newest/", params={"sessionId": ids})
        assert refused.status_code == 422
