"""The wire of the Memory Service: status codes, shapes, and JSON that comes back as it was sent."""

import json
from typing import Any, get_type_hints

import httpx
import msgspec
import pytest

from threadkeep import contract
from threadkeep.api import mem0_answers, schemas
from threadkeep.contract import events as wire_events
from threadkeep.contract import mem0
from threadkeep.contract import pages as wire_pages
from threadkeep.contract import sessions as wire_sessions
from threadkeep.contract import spaces as wire_spaces
from threadkeep.contract import version as wire_version

USER = "65f000000000000000000001"


class Wire:
    """Calls on one session."""

    def __init__(self, http: httpx.AsyncClient, space_id: str, session_id: str) -> None:
        self.http = http
        self.space = f"memory/{space_id}/"
        self.session = f"{self.space}sessions/{session_id}/"
        self.events = f"{self.session}events/"

    async def send(self, raw: str | bytes, path: str | None = None, method: str = "POST") -> httpx.Response:
        return await self.http.request(
            method, path or self.events, content=raw, headers={"Content-Type": "application/json"}
        )

    async def list(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.http.get(self.events)).json()["items"]
        return items


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> Wire:
    space = (await http.post("memory/new/", json={})).json()
    session = (await http.post(f"memory/{space['memorySpaceId']}/sessions/", json={"participants": [USER]})).json()
    return Wire(http, space["memorySpaceId"], session["id"])


def agent(body: Any) -> dict[str, Any]:
    return {"body": body, "emitter": {"type": "agent"}}


@pytest.mark.parametrize(
    ("struct", "typed"),
    [
        (schemas.NewSpaceIn, wire_spaces.NewSpace),
        (schemas.SpacePatchIn, wire_spaces.SpaceFields),
        (schemas.SpaceOut, wire_spaces.Space),
        (schemas.StrategyIn, wire_sessions.LifecycleStrategy),
        (schemas.NewSessionIn, wire_sessions.NewSession),
        (schemas.SessionPatchIn, wire_sessions.SessionFields),
        (schemas.SessionOut, wire_sessions.Session),
        (schemas.EmitterIn, wire_events.Emitter),
        (schemas.NewEventIn, wire_events.NewEvent),
        (schemas.EventPatchIn, wire_events.EventFields),
        (schemas.EventBatchItemIn, wire_events.EventPatch),
        (schemas.EventOut, wire_events.Event),
        (schemas.SpaceEventOut, wire_events.SpaceEvent),
        (schemas.VersionOut, wire_version.Version),
        (schemas.PageOut, wire_pages.Page),
        (schemas.ItemsOut, wire_pages.Items),
        (mem0_answers.MemoryOut, mem0.Memory),
        (mem0_answers.MemorySourceOut, mem0.MemorySource),
        (mem0_answers.FoundMemoryOut, mem0.FoundMemory),
        (mem0_answers.ScoreBreakdownOut, mem0.ScoreBreakdown),
        (mem0_answers.MemoryPageOut, mem0.MemoryPage),
        (mem0_answers.FoundMemoriesOut, mem0.FoundMemories),
        (mem0_answers.AddedMemoryOut, mem0.AddedMemory),
        (mem0_answers.AddedOut, mem0.Added),
        (mem0_answers.HistoryLineOut, mem0.HistoryLine),
        (mem0_answers.EntityOut, mem0.Entity),
        (mem0_answers.MemoryEventOut, mem0.MemoryEvent),
    ],
)
def test_what_is_parsed_has_the_keys_that_clients_know(struct: type[msgspec.Struct], typed: type) -> None:
    assert set(struct.__struct_encode_fields__) == set(get_type_hints(typed))
    assert contract.__doc__


async def test_the_version_needs_no_token(http: httpx.AsyncClient) -> None:
    answer = await http.get("version/", headers={"Authorization": ""})

    hosted = {"major": 2, "minor": 49, "versionString": "2.49.0", "releasedVersion": "2.49.0"}
    assert answer.json() == {**hosted, "features": ["lookupKeys", "newestEvents", "appendWithChanges", "wholeHistory"]}


async def test_a_space_over_the_wire(http: httpx.AsyncClient) -> None:
    made = await http.post("memory/new/", json={"description": "d", "deduplicationKey": "k"})
    again = await http.post("memory/new/", json={"deduplicationKey": "k"})

    assert made.status_code == 201
    space = made.json()
    assert list(space) == list(get_type_hints(wire_spaces.Space))
    assert (space["description"], space["llmModelName"], space["deduplicationKey"]) == ("d", None, "k")
    assert len(space["userId"]) == 24
    assert space["createdAt"].endswith("Z")
    url = f"http://threadkeep.test/api/v2/memory/{space['memorySpaceId']}/"
    assert again.status_code == 409
    assert again.headers["Location"] == url
    conflict = again.json()
    assert conflict.pop("detail")
    assert conflict == {
        "errorName": "MemorySpaceDeduplicationConflict",
        "existingMemorySpaceId": space["memorySpaceId"],
        "existingMemorySpaceUrl": url,
    }
    assert (await http.get(url)).json() == space
    assert (await http.get("memory/", params={"deduplicationKey": "k"})).json() == {
        "items": [space],
        "total": 1,
        "offset": 0,
        "limit": 100,
    }
    assert (await http.patch(url, json={"description": None})).json() == {**space, "description": None}
    gone = await http.delete(url)
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await http.get(url)).status_code == 404


async def test_nothing_sent_is_an_empty_object(http: httpx.AsyncClient, wire: Wire) -> None:
    """As the published client sends a space without any field."""
    made = await http.post("memory/new/", content=b"", headers={"Content-Type": "application/json"})
    assert (made.status_code, made.json()["description"]) == (201, None)
    refused = await wire.send(b"")
    assert (refused.status_code, refused.json()["detail"][0]["type"]) == (422, "missing")


async def test_a_session_over_the_wire(wire: Wire) -> None:
    body = {"participants": ["a", "b"], "metadata": {"k": [1]}, "description": "d" * 3, "deduplicationKey": "k"}

    made = await wire.http.post(f"{wire.space}sessions/", json=body)
    again = await wire.http.post(f"{wire.space}sessions/", json=body)

    session = made.json()
    assert made.status_code == 201
    assert list(session) == list(get_type_hints(wire_sessions.Session))
    assert {key: session[key] for key in body} == body
    assert session["version"] == 1
    assert session["lifecycleStrategies"] == [{"type": "soft_delete", "trigger": {"ttl": 15_552_000}, "opts": None}]
    conflict = again.json()
    assert again.status_code == 409
    assert conflict["errorName"] == "SessionDeduplicationConflict"
    assert conflict["existingSessionId"] == session["id"]
    assert conflict["existingSessionUrl"] == again.headers["Location"]
    assert (await wire.http.get(again.headers["Location"])).json() == session


async def test_a_stale_if_match_changes_nothing(wire: Wire) -> None:
    async def patch(title: str, if_match: str | None) -> httpx.Response:
        headers = {} if if_match is None else {"If-Match": if_match}
        return await wire.http.patch(wire.session, json={"metadata": {"title": title}}, headers=headers)

    first = await patch("b", "1")
    stale = await patch("c", "1")
    quoted = await patch("d", '"2"')
    blind = await patch("e", None)

    assert (first.status_code, first.json()["version"]) == (200, 2)
    assert stale.status_code == 409
    assert stale.json()["detail"].startswith("Session version mismatch")
    assert (quoted.json()["version"], blind.json()["version"]) == (3, 4)
    assert (await wire.http.get(wire.session)).json()["metadata"] == {"title": "e"}
    for ill_formed in ("x", "1.5", '"', "-1", "9" * 30):
        assert (await patch("f", ill_formed)).status_code == 422
    assert (await wire.http.get(wire.session)).json()["version"] == 4


async def test_an_event_over_the_wire(wire: Wire) -> None:
    made = await wire.http.post(
        wire.events,
        json={"body": {"content": "hi", "n": 1.50}, "emitter": {"type": "user", "id": USER}, "type": "message"},
    )

    event = made.json()
    assert made.status_code == 201
    assert [*event, "deduplicationKey", "lookupKeys"] == list(get_type_hints(wire_events.Event))
    assert {key: event[key] for key in ("sequenceId", "eventType", "emitterType", "emitterId")} == {
        "sequenceId": 1,
        "eventType": "message",
        "emitterType": "user",
        "emitterId": USER,
    }
    listed = (await wire.http.get(wire.events)).json()
    assert listed == {"items": [event], "total": 1, "offset": 0, "limit": 100}
    assert (await wire.http.delete(f"{wire.events}1/")).status_code == 204
    assert await wire.list() == []


async def test_a_batch_patch_is_all_or_nothing(wire: Wire) -> None:
    made = (await wire.http.post(f"{wire.events}batch/", json={"events": [agent({"n": 1}), agent({"n": 2})]})).json()
    first, second = made["items"]

    async def patch(*items: dict[str, Any]) -> httpx.Response:
        return await wire.http.patch(f"{wire.events}batch/", json={"events": list(items)})

    stale = await patch(
        {"sequenceId": 1, "body": {"n": 10}},
        {"sequenceId": 2, "body": {"n": 20}, "createdAt": "2020-01-01T00:00:00Z"},
    )
    twice = await patch({"sequenceId": 1, "body": {}}, {"sequenceId": 1, "body": {}})
    absent = await patch({"sequenceId": 1, "body": {"n": 10}}, {"sequenceId": 9, "body": {}})
    empty = await patch({"sequenceId": 1})
    after_refusals = await wire.list()
    done = await patch(
        {"sequenceId": 2, "type": "x", "createdAt": second["createdAt"]}, {"sequenceId": 1, "body": {"n": 10}}
    )

    assert [stale.status_code, twice.status_code, absent.status_code, empty.status_code] == [422, 422, 404, 422]
    assert after_refusals == [first, second]
    assert [(item["sequenceId"], item["body"], item["eventType"]) for item in done.json()["items"]] == [
        (2, {"n": 2}, "x"),
        (1, {"n": 10}, None),
    ]


ODD_JSON = [
    r'{"b":1,"a":1.50,"c":1e400,"d":-0.0,"e":12345678901234567890123,"a2":[[[[]]]]}',
    r'{"z":"\u0000","lone":"\ud83d","\ude00":"\ud83d\ude00","plain":"😀 é"}',
    '{ "spaced" :\n[ 1 ,2 ] , "t":true }',
    r'{"twice":1,"twice":2}',
    r'{"slash":"\/","quote":"\"","back":"\\ud83d"}',
    '{"sessionId":"other","sequenceId":99,"createdAt":"2000-01-01"}',
    "{}",
]


@pytest.mark.parametrize("raw", ODD_JSON)
async def test_opaque_json_comes_back_as_the_text_that_came(wire: Wire, raw: str) -> None:
    """As case 112 and case 124, for bodies and metadata."""
    posted = await wire.send(f'{{"body":{raw},"emitter":{{"type":"agent"}}}}')
    patched = await wire.send(f'{{"metadata":{raw}}}', wire.session, "PATCH")
    listed = await wire.http.get(wire.events)
    got = await wire.http.get(wire.session)

    assert (posted.status_code, patched.status_code) == (201, 200)
    for answer in (posted, patched, listed, got):
        assert raw in answer.content.decode()
    assert posted.json()["sequenceId"] == 1


async def test_odd_text_survives_in_every_field(wire: Wire) -> None:
    odd = r"a\u0000b\ud83d \ud83d\ude00"
    posted = await wire.send(
        f'{{"participants":["{odd}"],"description":"{odd}","deduplicationKey":"{odd}"}}', f"{wire.space}sessions/"
    )
    session_events = f"{wire.space}sessions/{posted.json()['id']}/events/"
    event = await wire.send(
        f'{{"body":{{"content":"{odd}"}},"emitter":{{"type":"user","id":"{odd}"}},"type":"{odd}"}}', session_events
    )

    text = "a\0b\ud83d 😀"
    session = (await wire.http.get(f"{wire.space}sessions/{posted.json()['id']}/")).json()
    assert (session["participants"], session["description"], session["deduplicationKey"]) == ([text], text, text)
    found = event.json()
    assert (found["body"], found["emitterId"], found["eventType"]) == ({"content": text}, text, text)


@pytest.mark.parametrize(
    ("raw", "loc"),
    [
        (b"", ["body", "body"]),
        (b"{", ["body"]),
        (b"[]", ["body"]),
        (b"null", ["body"]),
        (b'{"body":{"a":"\xff"},"emitter":{"type":"agent"}}', ["body"]),
        (b'{"body":{"a":NaN},"emitter":{"type":"agent"}}', ["body"]),
        (b'{"body":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b',"emitter":{"type":"agent"}}', ["body"]),
        (b'{"emitter":{"type":"agent"}}', ["body", "body"]),
        (b'{"body":{}}', ["body", "emitter"]),
        (b'{"body":{},"emitter":{}}', ["body", "emitter", "type"]),
        (b'{"body":{},"emitter":{"type":3}}', ["body", "emitter", "type"]),
        (b'{"body":{},"emitter":{"type":"robot"}}', ["body", "emitter", "type"]),
        (b'{"body":[],"emitter":{"type":"agent"}}', ["body", "body"]),
        (b'{"body":null,"emitter":{"type":"agent"}}', ["body", "body"]),
        (b'{"body":{"content":5},"emitter":{"type":"agent"}}', ["body", "body", "content"]),
        (b'{"body":{"content":null},"emitter":{"type":"agent"}}', ["body", "body", "content"]),
        (b'{"body":{"content":""},"emitter":{"type":"agent"}}', ["body", "body", "content"]),
        (b'{"body":{},"emitter":{"type":"agent"},"type":""}', ["body", "type"]),
        (b'{"body":{},"emitter":{"type":"agent"},"type":"' + b"x" * 101 + b'"}', ["body", "type"]),
    ],
)
async def test_a_bad_event_is_refused_with_its_place(wire: Wire, raw: bytes, loc: list[str]) -> None:
    answer = await wire.send(raw)

    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert problem["loc"] == loc
    assert set(problem) == {"loc", "msg", "type"}
    assert await wire.list() == []


@pytest.mark.parametrize("emitter", ['{"type":"user"}', '{"type":"user","id":null}', '{"type":"user","id":"stranger"}'])
async def test_a_user_must_be_a_participant(wire: Wire, emitter: str) -> None:
    assert (await wire.send(f'{{"body":{{}},"emitter":{emitter}}}')).status_code == 400
    assert await wire.list() == []


async def test_limits_of_a_body_are_counted_as_the_contract_says(wire: Wire) -> None:
    """As case 113: characters of the content, bytes of the body, both with 3-byte characters."""

    async def post(content: str, **more: str) -> httpx.Response:
        return await wire.http.post(wire.events, json=agent({"content": content, **more}))

    assert (await post("€" * 999_999)).status_code == 201
    assert (await post("€" * 1_000_000)).status_code == 201
    over = await post("€" * 1_000_001)
    assert over.status_code == 422
    assert over.json()["detail"][0]["msg"] == "1,000,001 characters; the limit is 1,000,000"
    frame = len('{"content":"x","rest":""}')
    fits = (4 * 1024 * 1024 - frame) // 3
    assert (await post("x", rest="€" * fits)).status_code == 201
    too_big = await post("x", rest="€" * (fits + 1))
    assert too_big.status_code == 422
    assert too_big.json()["detail"][0]["loc"] == ["body", "body"]
    assert "the limit is 4,194,304" in too_big.json()["detail"][0]["msg"]
    assert len(await wire.list()) == 3


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=101", 422),
        ("limit=x", 422),
        ("limit=", 422),
        ("offset=-1", 422),
        ("offset=9223372036854775808", 422),
        ("offset=9223372036854775807", 200),
        ("offset=" + "9" * 5000, 422),
        ("lastN=0", 422),
        ("lastN=101", 422),
        ("lastN=1&offset=0", 422),
        ("lastN=1", 200),
        ("unknown=1", 200),
        ("eventType=%00", 200),
    ],
)
async def test_queries_are_checked(wire: Wire, query: str, status: int) -> None:
    answer = await wire.http.get(f"{wire.events}?{query}")

    assert answer.status_code == status
    if status == 422:
        assert answer.json()["detail"][0]["loc"][0] == "query"


@pytest.mark.parametrize("sequence_id", ["0", "-1", "99", "9223372036854775807", "9223372036854775808"])
async def test_a_number_that_was_never_given_is_not_there(wire: Wire, sequence_id: str) -> None:
    assert (await wire.http.delete(f"{wire.events}{sequence_id}/")).status_code == 404
    assert (await wire.send('{"type":"x"}', f"{wire.events}{sequence_id}/", "PATCH")).status_code == 404


async def test_a_patch_that_says_nothing_is_refused(wire: Wire) -> None:
    await wire.http.post(wire.events, json=agent({}))

    for raw in ("{}", '{"unknown":1}', '{"body":null,"type":null,"emitter":null}'):
        assert (await wire.send(raw, f"{wire.events}1/", "PATCH")).status_code == 422
    assert (await wire.send('{"body":3}', f"{wire.events}1/", "PATCH")).status_code == 422
    assert (await wire.send('{"type":"x"}', f"{wire.events}one/", "PATCH")).status_code == 422


async def test_strategies_are_checked_stored_and_returned(wire: Wire) -> None:
    strategies = (
        '[{"type":"extract_memories","trigger":{"idle":300},"opts":{"softDelete":false,"metadata":{"b":1.0,"a":[]}}}]'
    )
    stored = await wire.send(f'{{"lifecycleStrategies":{strategies}}}', wire.session, "PATCH")
    refused = await wire.send(
        '{"lifecycleStrategies":[{"type":"soft_delete","trigger":{"ttl":0}}]}', wire.session, "PATCH"
    )
    cleared = [await wire.send(f'{{"lifecycleStrategies":{x}}}', wire.session, "PATCH") for x in ("null", "[]")]

    assert json.loads(strategies) == stored.json()["lifecycleStrategies"]
    assert '{"b":1.0,"a":[]}' in stored.text
    assert refused.json()["detail"][0]["loc"] == ["body", "lifecycleStrategies", 0, "trigger", "ttl"]
    assert [answer.status_code for answer in cleared] == [422, 422]
    assert (await wire.http.get(wire.session)).json() == stored.json()
