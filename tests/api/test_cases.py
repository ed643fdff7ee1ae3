"""The field cases of the Memory Service, as they are written down in `tests/cases`, call by call."""

import asyncio
import json
from collections import Counter
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.passing_time import load_case
from threadkeep.services.container import Container

ANN = "65f000000000000000000001"
Calls = list[dict[str, Any]]


def calls_of(name: str) -> Calls:
    calls: Calls = load_case(name)["input"]["calls"]
    return calls


class Scene:
    """A space with one session, in which the calls of a case are made."""

    def __init__(self, http: httpx.AsyncClient, space: str, session: str) -> None:
        self.http = http
        self.names = {"{space}": space, "{s}": session}

    async def call(self, call: dict[str, Any], **changed: Any) -> httpx.Response:
        """Make a call of a case, as it is or with some of its fields changed."""
        call = {**call, **changed}
        path = call["path"].removeprefix("/")
        for name, value in self.names.items():
            path = path.replace(name, value)
        body = call.get("body")
        content = body["$raw"] if isinstance(body, dict) and "$raw" in body else json.dumps(body)
        query = "&".join(f"{name}={quote(value)}" for name, value in call.get("query", {}).items())
        return await self.http.request(
            call["method"],
            f"{path}?{query}" if query else path,
            content=None if body is None else content,
            headers=call.get("headers", {}),
        )

    async def events(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.page())["items"]
        return items

    async def count(self) -> int:
        return int((await self.page())["total"])

    async def page(self) -> Any:
        return (await self.call({"method": "GET", "path": "/memory/{space}/sessions/{s}/events/"})).json()


@pytest.fixture
async def scene(http: httpx.AsyncClient) -> Scene:
    space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
    session = await http.post(f"memory/{space}/sessions/", json={"participants": [ANN]})
    return Scene(http, space, session.json()["id"])


async def test_101_of_writers_that_read_one_version_exactly_one_wins(scene: Scene) -> None:
    create, first, second, get = calls_of("101-stale-if-match-lost-update")
    made = (await scene.call(create)).json()
    scene.names["{s}"] = made["id"]

    won, lost = await scene.call(first), await scene.call(second)
    found = (await scene.call(get)).json()
    racing = await asyncio.gather(*(scene.call(second, headers={"If-Match": "2"}) for _ in range(20)))

    assert (made["version"], made["metadata"]) == (1, {"title": "a"})
    assert (won.status_code, won.json()["version"]) == (200, 2)
    assert lost.status_code == 409
    assert lost.json()["detail"].startswith("Session version mismatch")
    assert (found["metadata"], found["version"]) == ({"title": "b"}, 2)
    assert Counter(answer.status_code for answer in racing) == {200: 1, 409: 19}
    assert (await scene.call(get)).json()["version"] == 3


async def test_106_a_batch_with_one_bad_event_stores_nothing(scene: Scene) -> None:
    post, _ = calls_of("106-batch-all-or-nothing")

    refused = await scene.call(post)
    stored = await scene.events()
    good = [event for event in post["body"]["events"] if event["emitter"]["id"] == ANN]
    after = await scene.call(post, body={"events": good})

    assert refused.status_code == 400
    assert refused.json()["detail"].startswith("events[3]: ")
    assert stored == []
    assert [event["sequenceId"] for event in after.json()["items"]] == [1, 2, 3, 4]


async def test_107_a_batch_has_1_to_200_events(scene: Scene) -> None:
    answers = []
    for call in calls_of("107-batch-size-limits"):
        events = [{"body": {"n": n}, "emitter": {"type": "agent"}} for n in range(call["body"]["events"]["n"])]
        answers.append(await scene.call(call, body={"events": events}))

    assert [answer.status_code for answer in answers] == [422, 201, 422]
    assert [event["body"]["n"] for event in answers[1].json()["items"]] == list(range(200))
    assert [answers[n].json()["detail"][0]["loc"] for n in (0, 2)] == [["body", "events"]] * 2
    assert answers[2].json()["detail"][0]["msg"] == "201 events in one request; the limit is 200"
    assert await scene.count() == 200


async def test_110_a_token_is_exact_and_every_change_gives_another(scene: Scene) -> None:
    exact, older, cut = calls_of("110-event-token-stale-or-equal")
    post = {"method": "POST", "path": "/memory/{space}/sessions/{s}/events/"}
    made = (await scene.call(post, body={"body": {"content": "0"}, "emitter": {"type": "agent"}})).json()
    tokens = [made["createdAt"]]

    for _ in range(5):
        answer = await scene.call(exact, query={"createdAt": tokens[-1]})
        assert answer.status_code == 200
        tokens.append(answer.json()["createdAt"])
    with_offset = await scene.call(exact, query={"createdAt": tokens[-1].replace("Z", "+00:00")})
    tokens.append(with_offset.json()["createdAt"])
    # A client that forgets to encode the plus sends a space.
    unencoded = f"{exact['path']}?createdAt={tokens[-1].replace('Z', '+00:00')}"
    spaced = await scene.call(exact, path=unencoded, query={})
    tokens.append(spaced.json()["createdAt"])
    nonsense = await scene.call(exact, query={"createdAt": "yesterday"})
    refused = [
        await scene.call(older, query={"createdAt": tokens[-2]}),
        await scene.call(cut, query={"createdAt": tokens[-1][:19] + "Z"}),
    ]

    assert tokens == sorted(set(tokens))
    for answer in refused:
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith("Patch of incorrect version of event")
    assert nonsense.json()["detail"][0]["loc"] == ["query", "createdAt"]
    assert [event["body"] for event in await scene.events()] == [exact["body"]["body"]]


async def test_112_nul_and_half_a_surrogate_pair_come_back(scene: Scene) -> None:
    post, get = calls_of("112-nul-and-surrogates-over-http")
    odd = r"a\u0000b\ud83d"

    made = await scene.call(post)
    patched = await scene.call(
        {"method": "PATCH", "path": "/memory/{space}/sessions/{s}/"},
        body={"$raw": f'{{"description":"{odd}","metadata":{{"{odd}":1}}}}'},
    )
    listed = await scene.call(get)

    assert (made.status_code, patched.status_code, listed.status_code) == (201, 200, 200)
    assert listed.content.decode("utf-8")
    assert listed.json()["items"] == [made.json()]
    assert listed.json()["items"][0]["body"] == {"content": "a\0b\ud83d"}
    assert (patched.json()["description"], patched.json()["metadata"]) == ("a\0b\ud83d", {"a\0b\ud83d": 1})


async def test_113_the_limit_is_told_to_whom_it_stops(scene: Scene) -> None:
    (post,) = calls_of("113-body-size-limit")
    piece, count = post["body"]["$repeat"]
    room = (4 * 1024 * 1024 - len('{"rest":""}')) // len(piece.encode())

    async def send(body: dict[str, str]) -> httpx.Response:
        raw = json.dumps({"body": body, "emitter": {"type": "agent"}}, ensure_ascii=False, separators=(",", ":"))
        return await scene.call(post, body={"$raw": raw})

    under = await send({"content": piece * count})
    at = await send({"rest": piece * room})
    over = await send({"rest": piece * (room + 1)})
    far_over = await send({"rest": piece * room * 5})

    assert [answer.status_code for answer in (under, at, over, far_over)] == [201, 201, 422, 413]
    assert "the limit is 4,194,304" in over.json()["detail"][0]["msg"]
    assert over.json()["detail"][0]["type"] == "too_long"
    assert far_over.json() == {"detail": "The request is too large; the limit is 16,777,216 bytes"}
    assert len(await scene.events()) == 2


async def test_124_names_inside_opaque_objects_change_nothing_outside(scene: Scene) -> None:
    post, patch = calls_of("124-metadata-cannot-change-identity")

    made = (await scene.call(post)).json()
    patched = (await scene.call(patch)).json()

    assert made["sequenceId"] == 1
    assert made["body"] == post["body"]["body"]
    assert made["createdAt"] > "2026"
    assert patched["metadata"] == {"userId": "bob", "version": 7}
    assert (patched["version"], patched["id"]) == (2, scene.names["{s}"])


async def test_125_a_key_of_another_user_is_as_good_as_free(
    scene: Scene, http: httpx.AsyncClient, container: Container
) -> None:
    """That every route with her ids is 404 is asked in `test_routes`; here, each verb as the case names them."""
    (every,) = calls_of("125-cross-tenant-ids")
    _, bobs = await container.tokens.create(user=every["user"], name="bob")
    headers = {"Authorization": f"Bearer {bobs}"}
    hers = (await http.post("memory/new/", json={"deduplicationKey": "k"})).json()["memorySpaceId"]

    verbs = [
        await scene.call(
            {"method": method, "path": "/memory/{space}/sessions/{s}/" + ("events/" if method == "POST" else "")},
            body=None if method in ("GET", "DELETE") else {"body": {}, "emitter": {"type": "agent"}},
            headers=headers,
        )
        for method in every["method"].split("/")
    ]
    made = await http.post("memory/new/", json={"deduplicationKey": "k"}, headers=headers)
    again = await http.post("memory/new/", json={"deduplicationKey": "k"}, headers=headers)

    assert [answer.status_code for answer in verbs] == [404] * 4
    assert made.status_code == 201
    assert again.json()["existingMemorySpaceId"] == made.json()["memorySpaceId"]
    assert hers not in again.text
    assert (await http.get("memory/?deduplicationKey=k", headers=headers)).json()["total"] == 1
