"""Requests that are sent again: `Idempotency-Key`, and the field cases of answers that were lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_contract import Wire
from threadkeep.api.app import create_app
from threadkeep.services import idempotency
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.transport.in_process import InProcessTransport

CASES = Path(__file__).parent.parent / "cases"
ANN = "65f000000000000000000001"


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> Wire:
    space = (await http.post("memory/new/", json={})).json()
    session = (await http.post(f"memory/{space['memorySpaceId']}/sessions/", json={"participants": [ANN]})).json()
    return Wire(http, space["memorySpaceId"], session["id"])


@pytest.fixture
async def elsewhere(database: str, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a second server on the same database."""
    services = await Container.open(Settings(database=database))
    async with httpx.AsyncClient(
        transport=InProcessTransport(create_app(services)),
        timeout=60,
        base_url="http://threadkeep.test/api/v2",
        headers={"Authorization": f"Bearer {token}"},
    ) as opened:
        yield opened
    await services.close()


def said(content: str, **fields: Any) -> dict[str, Any]:
    return {"body": {"content": content}, "emitter": {"type": "user", "id": ANN}, **fields}


def keyed(key: str = "key-1", **headers: str) -> dict[str, dict[str, str]]:
    return {"headers": {"Idempotency-Key": key, **headers}}


@pytest.mark.parametrize("what", ["space", "session", "event", "batch"])
async def test_a_post_that_comes_again_gets_the_first_answer_and_does_nothing(wire: Wire, what: str) -> None:
    path, body = {
        "space": ("memory/new/", {"description": "d"}),
        "session": (f"{wire.space}sessions/", {"participants": ["p"]}),
        "event": (wire.events, said("once")),
        "batch": (f"{wire.events}batch/", {"events": [said("one"), said("two")]}),
    }[what]

    first = await wire.http.post(path, json=body, **keyed())
    again = await wire.http.post(path, json=body, **keyed())

    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Content-Type"] == "application/json"
    counts = [
        (await wire.http.get(listed)).json()["total"] for listed in ("memory/", f"{wire.space}sessions/", wire.events)
    ]
    assert counts == {"space": [2, 1, 0], "session": [1, 2, 0], "event": [1, 1, 1], "batch": [1, 1, 2]}[what]


async def test_without_a_key_the_same_request_acts_again(wire: Wire) -> None:
    answers = [await wire.http.post(wire.events, json=said("x")) for _ in range(2)]

    assert [answer.json()["sequenceId"] for answer in answers] == [1, 2]


async def test_a_key_stands_for_one_request(wire: Wire) -> None:
    await wire.http.post(wire.events, json=said("first"), **keyed())

    other_body = await wire.http.post(wire.events, json=said("second"), **keyed())
    other_path = await wire.http.post(f"{wire.events}batch/", json={"events": [said("first")]}, **keyed())

    for answer in (other_body, other_path):
        assert answer.status_code == 422
        assert answer.json()["detail"] == [
            {
                "loc": ["header", "Idempotency-Key"],
                "msg": "This key was used for another request: a key stands for one request, its path and its body",
                "type": "idempotency_key_reused",
            }
        ]
    assert [event["body"]["content"] for event in await wire.list()] == ["first"]


async def test_a_key_is_its_users_own_within_a_space(wire: Wire) -> None:
    other = (await wire.http.post("memory/new/", json={})).json()["memorySpaceId"]
    body = {"participants": ["p"]}

    here = await wire.http.post(f"{wire.space}sessions/", json=body, **keyed())
    there = await wire.http.post(f"memory/{other}/sessions/", json=body, **keyed())
    made = [
        await wire.http.post("memory/new/", json={}, **keyed(**{"X-Threadkeep-User": user})) for user in ("bob", "eve")
    ]

    assert here.json()["id"] != there.json()["id"]
    assert made[0].json()["memorySpaceId"] != made[1].json()["memorySpaceId"]
    assert not any("Idempotency-Replayed" in answer.headers for answer in (here, there, *made))


@pytest.mark.parametrize("key", ["", '""', "k" * 256, "tab\tinside", "ä"])
async def test_a_key_that_is_none_is_refused(wire: Wire, key: str) -> None:
    answer = await wire.http.post(wire.events, json=said("x"), headers=[("Idempotency-Key", key.encode())])

    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["header", "Idempotency-Key"]
    assert await wire.list() == []


async def test_a_key_may_be_long_and_in_quotes(wire: Wire) -> None:
    key = "~ k!" + "k" * 251

    plain = await wire.http.post(wire.events, json=said("x"), **keyed(key))
    quoted = await wire.http.post(wire.events, json=said("x"), **keyed(f'"{key}"'))

    assert (plain.status_code, quoted.headers["Idempotency-Replayed"]) == (201, "true")


async def test_a_refusal_is_not_remembered(wire: Wire) -> None:
    sessions = f"{wire.space}sessions/"
    holder = (await wire.http.post(sessions, json={"participants": ["p"], "deduplicationKey": "k"})).json()
    body = {"participants": ["q"], "deduplicationKey": "k"}

    refused = await wire.http.post(sessions, json=body, **keyed())
    await wire.http.delete(f"{sessions}{holder['id']}/")
    retried = await wire.http.post(sessions, json=body, **keyed())

    assert (refused.status_code, retried.status_code) == (409, 201)
    assert refused.headers["Location"].endswith(f"{holder['id']}/")


async def test_a_stranger_in_a_request_with_a_key_is_refused(wire: Wire) -> None:
    event = {"body": {}, "emitter": {"type": "user", "id": "nobody"}}

    single = await wire.http.post(wire.events, json=event, **keyed())
    batch = await wire.http.post(f"{wire.events}batch/", json={"events": [said("x"), event]}, **keyed())

    assert (single.status_code, batch.status_code) == (400, 400)
    assert batch.json()["detail"].startswith("events[1]: The emitter 'nobody'")
    assert await wire.list() == []


async def test_the_first_answer_comes_even_when_what_it_made_is_gone(wire: Wire) -> None:
    first = await wire.http.post(wire.events, json=said("x"), **keyed())
    await wire.http.delete(wire.session)

    again = await wire.http.post(wire.events, json=said("x"), **keyed())
    other = await wire.http.post(wire.events, json=said("x"), **keyed("another"))

    assert (again.status_code, again.content) == (201, first.content)
    assert other.status_code == 404


async def test_an_answer_comes_again_to_the_byte(wire: Wire) -> None:
    raw = '{"body": {"b": 1.50, "a": "\\ud83d \\u0000 é"}, "emitter": {"type": "agent"}, "type": "\\udc00"}'
    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}

    first, again = [await wire.http.post(wire.events, content=raw.encode(), headers=headers) for _ in range(2)]

    assert first.content == again.content
    assert b'{"b": 1.50, "a": "\\ud83d' in again.content


async def test_of_many_at_once_one_acts_and_the_others_get_its_answer(wire: Wire, elsewhere: httpx.AsyncClient) -> None:
    async def post(n: int) -> httpx.Response:
        return await (wire.http, elsewhere)[n % 2].post(wire.events, json=said("x"), **keyed())

    answers = await asyncio.gather(*[post(n) for n in range(16)])

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert [event["sequenceId"] for event in await wire.list()] == [1]


async def test_what_was_done_and_the_key_come_together_or_not_at_all(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        # Kept last: what fails here would leave the event behind if the two were not one transaction.
        broken.setattr(idempotency.idempotency, "keep", lambda *_: 1 / 0)
        failed = await wire.http.post(wire.events, json=said("x"), **keyed())
        assert (failed.status_code, await wire.list()) == (500, [])

    retried = await wire.http.post(wire.events, json=said("x"), **keyed())

    assert (retried.status_code, retried.json()["sequenceId"]) == (201, 1)
    assert "Idempotency-Replayed" not in retried.headers


@pytest.mark.parametrize("name", ["103-retry-after-lost-response", "104-dedup-key-reused-with-other-body"])
async def test_a_field_case(wire: Wire, name: str) -> None:
    case = json.loads((CASES / f"{name}.json").read_text())
    answers = []
    for call in case["input"]["calls"]:
        path = call["path"].removeprefix("/").replace("{space}/sessions/{s}/events/", "")
        assert path == "memory/"
        answers.append(await wire.http.request(call["method"], wire.events, json=call.get("body")))

    assert [answer.status_code for answer in answers[:2]] == [201, 409]
    conflict = answers[1].json()
    assert (conflict["errorName"], conflict["existingSequenceId"]) == ("EventDeduplicationConflict", 1)
    assert await wire.list() == [answers[0].json()]
    assert answers[0].json()["body"] == {"content": "hello"}


async def test_a_lost_answer_is_asked_for_again_with_a_key(wire: Wire) -> None:
    case = json.loads((CASES / "103-retry-after-lost-response.json").read_text())
    body = case["input"]["calls"][0]["body"]

    lost, retried = [await wire.http.post(wire.events, json=body, **keyed("run1")) for _ in range(2)]

    assert (lost.json(), retried.json()["sequenceId"]) == (retried.json(), 1)
    assert len(await wire.list()) == 1
