"""The wire of mem0's clients: shapes of all three versions, scopes, filters, and what is wrong said in a sentence."""

import json
from typing import Any

import httpx
import pytest

from threadkeep import ids
from threadkeep.api.routes.mem0_more import NOT_OFFERED
from threadkeep.services.container import Container
from threadkeep.services.memory_finding import NO_MODEL

NOWHERE = "01a22a37-1f9c-7be3-a935-be3b47e3a157"


class Mem0:
    """Calls as a client of mem0 makes them, in one space."""

    def __init__(self, http: httpx.AsyncClient, space_id: str) -> None:
        self.http = http
        self.space_id = space_id

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return await self.http.request(method, f"memory/{self.space_id}/{path}", content=content, params=query or None)

    async def ok(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = await self.call(method, path, body, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def keep(self, *texts: str, **fields: Any) -> list[str]:
        """Keep texts as memories, as they are; gives their ids."""
        body = {"messages": [{"role": "user", "content": text} for text in texts], "infer": False, **fields}
        return [each["id"] for each in (await self.ok("POST", "v3/memories/add/", body))["results"]]

    async def texts(self, filters: Any) -> list[str]:
        listed = await self.ok("POST", "v3/memories/", {"filters": filters})
        return [memory["memory"] for memory in listed["results"]]


@pytest.fixture
async def mem0(http: httpx.AsyncClient) -> Mem0:
    return Mem0(http, (await http.post("memory/new/", json={})).json()["memorySpaceId"])


async def test_a_ping_says_what_clients_ask_for(mem0: Mem0) -> None:
    said = await mem0.ok("GET", "v1/ping/")

    assert said["status"] == "ok"
    assert said["project_id"] == mem0.space_id
    assert ids.is_id(said["org_id"])
    assert said["user_email"]
    # A host that ends in a slash.
    assert await mem0.ok("GET", "/v1/ping/") == said


async def test_both_schemes_of_a_token_are_taken(mem0: Mem0, token: str) -> None:
    for scheme, status in (("Token", 200), ("Bearer", 200), ("Basic", 401)):
        found = await mem0.http.get(f"memory/{mem0.space_id}/v1/ping/", headers={"Authorization": f"{scheme} {token}"})
        assert found.status_code == status


async def test_a_token_that_may_only_read_searches_and_lists_and_adds_nothing(mem0: Mem0, container: Container) -> None:
    _, secret = await container.tokens.create(user="alice", name="reader", scopes=["read"])
    body = {"query": "tea", "filters": {"user_id": "alice"}, "messages": "tea", "user_id": "alice"}
    answers = [
        await mem0.http.post(f"memory/{mem0.space_id}/{path}", json=body, headers={"Authorization": f"Token {secret}"})
        for path in ("v3/memories/search/", "v1/memories/search/", "v3/memories/", "v2/memories/", "v3/memories/add/")
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 403]


async def test_a_memory_over_the_wire(mem0: Mem0) -> None:
    body = {
        "messages": [{"role": "user", "content": "likes\0 tea"}, {"role": "assistant", "content": [{"text": "noted"}]}],
        "user_id": "alice",
        "run_id": "r/1",
        "metadata": {"b": 1.50, "a": None},
        "expiration_date": "2999-12-31",
        "timestamp": 1_796_040_000,
        "infer": False,
        "tags": ["passed over"],
        "org_id": "o",
    }

    added = await mem0.ok("POST", "v3/memories/add/", body)

    assert (added["status"], set(added)) == ("SUCCEEDED", {"status", "results"})
    first, second = added["results"]
    assert first == {"id": first["id"], "memory": "likes\0 tea", "event": "ADD", "data": {"memory": "likes\0 tea"}}
    assert second["memory"] == "noted"
    answer = await mem0.call("GET", f"v1/memories/{first['id']}/")
    assert '"metadata":{"b": 1.5, "a": null}' in answer.text
    assert answer.json() == {
        "id": first["id"],
        "memory": "likes\0 tea",
        "user_id": "alice",
        "agent_id": None,
        "app_id": None,
        "run_id": "r/1",
        "session_id": "r/1",
        "metadata": {"b": 1.5, "a": None},
        "categories": [],
        "expiration_date": "2999-12-31",
        "created_at": "2026-11-30T12:00:00.000000Z",
        "updated_at": "2026-11-30T12:00:00.000000Z",
        "attributed_to": "user",
        "sources": [],
    }


async def test_an_add_of_v1_answers_in_the_format_that_is_asked_for(mem0: Mem0) -> None:
    body = {"messages": "likes tea", "user_id": "alice", "infer": False}

    bare = await mem0.ok("POST", "v1/memories/", body)
    wrapped = await mem0.ok("POST", "v1/memories/", {**body, "output_format": "v1.1"})
    waiting = await mem0.ok("POST", "v1/memories/", {**body, "infer": True, "output_format": "v1.1"})

    assert [each["memory"] for each in bare] == ["likes tea"]
    assert [each["event"] for each in wrapped["results"]] == ["ADD"]
    assert [each["status"] for each in waiting["results"]] == ["PENDING"]
    assert ids.is_id(waiting["results"][0]["event_id"])


async def test_an_add_that_infers_is_kept_and_can_be_asked_for(mem0: Mem0, container: Container) -> None:
    body = {"messages": [{"role": "user", "content": "I moved to Oslo"}], "user_id": "alice", "metadata": {"a": 1}}

    added = await mem0.ok("POST", "v3/memories/add/", body)

    assert added["status"] == "PENDING"
    event = await mem0.ok("GET", f"v1/event/{added['event_id']}/")
    assert (event["id"], event["event_type"], event["status"], event["results"]) == (
        added["event_id"],
        "ADD",
        "PENDING",
        [],
    )
    for path in ("v1/events/", "v1/memories/events/"):
        assert await mem0.ok("GET", path) == {"count": 1, "next": None, "previous": None, "results": [event]}
    alice = await container.tokens.local_principal("alice")
    kept = await container.additions.get(alice, mem0.space_id, added["event_id"])
    assert json.loads(kept.request or "") == {
        "messages": [{"role": "user", "content": "I moved to Oslo"}],
        "scope": {"user_id": "alice", "agent_id": None, "app_id": None, "run_id": None},
        "metadata": {"a": 1},
        "expiration_date": None,
        "timestamp": None,
        "custom_instructions": None,
        "agent_custom_instructions": None,
        "includes": None,
        "excludes": None,
        "custom_categories": None,
        "categories": None,
    }
    assert (await mem0.call("GET", f"v1/event/{NOWHERE}/")).status_code == 404


@pytest.mark.parametrize("infer", [True, False])
async def test_an_add_that_comes_again_is_done_once(mem0: Mem0, infer: bool) -> None:
    body = {"messages": "likes tea", "user_id": "alice", "infer": infer}
    path, headers = f"memory/{mem0.space_id}/v3/memories/add/", {"Idempotency-Key": "k"}

    first, again = [await mem0.http.post(path, json=body, headers=headers) for _ in range(2)]

    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(await mem0.texts({"user_id": "alice"})) == (not infer)
    assert (await mem0.ok("GET", "v1/events/"))["count"] == infer
    other = await mem0.http.post(path, json={**body, "user_id": "bob"}, headers=headers)
    assert other.status_code == 400


async def test_pages_of_all_versions(mem0: Mem0) -> None:
    await mem0.keep("one", "two", "three", user_id="alice")
    await mem0.keep("bob's", user_id="bob")
    filters = {"user_id": "alice"}

    page = await mem0.ok("POST", "v3/memories/", {"filters": filters}, page=2, page_size=2)
    assert ([memory["memory"] for memory in page["results"]], page["count"]) == (["one"], 3)
    assert page["next"] is None
    assert page["previous"].endswith("/v3/memories/?page=1&page_size=2")
    first = await mem0.ok("POST", "v3/memories/", {"filters": filters, "page_size": 2})
    assert first["next"].endswith("/v3/memories/?page=2&page_size=2")

    for bare in (
        await mem0.ok("GET", "v1/memories/", user_id="alice"),
        await mem0.ok("POST", "v2/memories/", {"user_id": "alice"}),
        await mem0.ok("POST", "v2/memories/", {"filters": {"AND": [filters]}}),
    ):
        assert [memory["memory"] for memory in bare] == ["three", "two", "one"]
    wrapped = await mem0.ok("POST", "v2/memories/", {"filters": filters, "output_format": "v1.1"})
    assert set(wrapped) == {"results"}
    paged = await mem0.ok("POST", "v2/memories/", {"filters": filters}, page=1, page_size=1)
    assert (paged["count"], len(paged["results"])) == (3, 1)


async def test_a_list_is_narrowed_by_more_than_the_scope(mem0: Mem0) -> None:
    await mem0.keep("old", user_id="alice", timestamp="2020-01-01T00:00:00Z")
    await mem0.keep("over", user_id="alice", expiration_date="2020-01-01")
    await mem0.keep("likes TEA", user_id="alice", metadata={"topic": "food"})

    async def listed(**body: Any) -> list[str]:
        found = await mem0.ok("POST", "v3/memories/", {"filters": {"user_id": "alice"}, **body})
        return [memory["memory"] for memory in found["results"]]

    assert await listed() == ["likes TEA", "old"]
    assert await listed(show_expired=True) == ["likes TEA", "over", "old"]
    assert await listed(end_date="2021-01-01") == ["old"]
    assert await listed(start_date="2021-01-01") == ["likes TEA"]
    assert await listed(keywords="tea") == ["likes TEA"]
    assert await listed(categories=["food"]) == []
    assert await mem0.texts({"user_id": "alice", "metadata": {"topic": "food"}}) == ["likes TEA"]
    assert len(await mem0.ok("GET", "v1/memories/", user_id="*", show_expired="true")) == 3


async def test_a_search_of_all_versions(mem0: Mem0) -> None:
    await mem0.keep("likes green tea", "has a cat", user_id="alice", metadata={"topic": "food"})
    await mem0.keep("likes green tea", user_id="bob")
    body = {"query": "green tea", "filters": {"user_id": "alice"}, "top_k": 5}

    found = await mem0.ok("POST", "v3/memories/search/", body)

    (only,) = found["results"]
    assert (only["memory"], only["user_id"], only["score"]) == ("likes green tea", "alice", 1.0)
    assert only["score_breakdown"] == {"semantic": None, "keyword": 1.0}
    assert found["note"] == NO_MODEL
    for path in ("v2/memories/search/", "v1/memories/search/"):
        answer = await mem0.call("POST", path, {"query": "green tea", "user_id": "alice"})
        assert [memory["memory"] for memory in answer.json()] == ["likes green tea"]
        assert answer.headers["X-Threadkeep-Search"] == "keywords"
        wrapped = await mem0.ok("POST", path, {**body, "output_format": "v1.1"})
        assert wrapped == found
    nested = {"AND": [{"user_id": "alice"}, {"metadata": {"topic": "food"}}]}
    assert (await mem0.ok("POST", "v3/memories/search/", {**body, "filters": nested}))["results"] == [only]
    for narrower in ({"metadata": {"topic": "x"}}, {"categories": ["x"]}, {"query": "dog"}, {"top_k": 1, "query": "x"}):
        assert (await mem0.ok("POST", "v3/memories/search/", {**body, **narrower}))["results"] == []


async def test_a_search_takes_a_threshold_and_a_day(mem0: Mem0) -> None:
    await mem0.keep("likes green tea", user_id="alice", expiration_date="2030-01-01")
    body = {"query": "green thing elsewhere", "filters": {"user_id": "*"}}

    async def found(**more: Any) -> int:
        return len((await mem0.ok("POST", "v3/memories/search/", {**body, **more}))["results"])

    assert await found() == 1
    assert await found(threshold=0.9) == 0
    assert await found(reference_date="2030-01-01") == 1
    assert await found(reference_date="2030-01-02") == 0
    assert await found(reference_date="2030-01-02", show_expired=True) == 1


async def test_a_memory_is_changed_and_its_history_told(mem0: Mem0) -> None:
    (memory_id,) = await mem0.keep("likes tea", user_id="alice", expiration_date="2999-12-31", metadata={"a": 1})
    path = f"v1/memories/{memory_id}/"

    changed = await mem0.ok("PUT", path, {"text": "likes milk"})
    assert (changed["memory"], changed["metadata"], changed["expiration_date"]) == (
        "likes milk",
        {"a": 1},
        "2999-12-31",
    )
    changed = await mem0.ok("PUT", path, {"metadata": {"b": 2}, "expiration_date": None, "timestamp": 1_796_040_000})
    assert (changed["metadata"], changed["expiration_date"]) == ({"b": 2}, None)
    assert changed["updated_at"] == "2026-11-30T12:00:00.000000Z"
    assert await mem0.ok("DELETE", path, delete_linked="true") == {"message": "Memory deleted successfully!"}

    lines = await mem0.ok("GET", f"{path}history/")
    assert [(line["event"], line["old_memory"], line["new_memory"]) for line in lines] == [
        ("ADD", None, "likes tea"),
        ("UPDATE", "likes tea", "likes milk"),
        ("UPDATE", "likes milk", "likes milk"),
        ("DELETE", "likes milk", None),
    ]
    assert {line["memory_id"] for line in lines} == {memory_id}
    assert {line["user_id"] for line in lines} == {"alice"}
    assert len({line["id"] for line in lines}) == 4
    assert (await mem0.call("GET", path)).status_code == 404


async def test_deleting_all_of_a_scope_leaves_the_others(mem0: Mem0) -> None:
    await mem0.keep("1", user_id="alice", run_id="r")
    await mem0.keep("2", user_id="alice")
    await mem0.keep("3", user_id="bob")

    assert (await mem0.call("DELETE", "v1/memories/")).json() == {
        "detail": "user_id: Give at least one of user_id, agent_id, app_id, run_id; '*' is anybody's"
    }
    # What a client of 2.x makes of a filters option is passed over.
    await mem0.ok("DELETE", "v1/memories/", user_id="alice", run_id="r", filters="{'user_id': 'bob'}")
    assert await mem0.texts({"user_id": "*"}) == ["3", "2"]
    await mem0.ok("DELETE", "v1/memories/", user_id="*")
    assert await mem0.texts({"user_id": "*"}) == []


async def test_entities_are_listed_and_deleted_by_any_name(mem0: Mem0) -> None:
    await mem0.keep("1", user_id="al/ice", agent_id="bot")
    await mem0.keep("2", run_id="r")

    found = await mem0.ok("GET", "v1/entities/")

    assert [(each["type"], each["name"], each["total_memories"]) for each in found["results"]] == [
        ("user", "al/ice", 1),
        ("agent", "bot", 1),
        ("run", "r", 1),
    ]
    assert [found[f"total_{name}s"] for name in ("user", "agent", "app", "run")] == [1, 1, 0, 1]
    assert found["count"] == 3
    # Older clients do not encode the slash of a name, newer ones do.
    await mem0.ok("DELETE", "v2/entities/user/al%2Fice%00/")
    assert (await mem0.ok("GET", "v1/entities/"))["count"] == 3
    assert (await mem0.call("DELETE", "v2/entities/user/al/ice/")).status_code == 200
    assert (await mem0.call("DELETE", "v2/entities/run/r/")).status_code == 200
    assert (await mem0.call("DELETE", "v2/entities/thing/r/")).status_code == 400
    assert (await mem0.ok("GET", "v1/entities/"))["count"] == 0


async def test_batches_are_all_or_nothing(mem0: Mem0) -> None:
    one, two = await mem0.keep("one", "two", user_id="alice")
    edits = [{"memory_id": one, "text": "uno"}, {"memory_id": two, "metadata": {"a": 1}}]

    for broken in ([*edits, {"memory_id": NOWHERE, "text": "x"}], [*edits, {"memory_id": "x", "text": "x"}]):
        assert (await mem0.call("PUT", "v1/batch/", {"memories": broken})).status_code == 404
    assert await mem0.texts({"user_id": "alice"}) == ["two", "one"]
    assert await mem0.ok("PUT", "v1/batch/", {"memories": edits}) == {"message": "Successfully updated 2 memories"}
    assert await mem0.texts({"user_id": "alice"}) == ["two", "uno"]
    gone = {"memories": [{"memory_id": one}, {"memory_id": two}]}
    assert await mem0.ok("DELETE", "v1/batch/", gone) == {"message": "Successfully deleted 2 memories"}
    assert await mem0.texts({"user_id": "alice"}) == []
    for method in ("PUT", "DELETE"):
        assert (await mem0.call(method, "v1/batch/", {"memories": []})).status_code == 400
        assert (await mem0.call(method, "v1/batch/")).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "v3/memories/add/", {"user_id": "a"}, "messages: Give at least one message with a text"),
        ("POST", "v3/memories/add/", {"messages": [{"content": " "}], "user_id": "a"}, "messages: Give at least one"),
        ("POST", "v3/memories/add/", {"messages": "x", "infer": False}, "user_id: A memory is about somebody"),
        ("POST", "v3/memories/add/", {"messages": "x"}, "user_id: A memory is about somebody"),
        ("POST", "v3/memories/add/", {"messages": "x", "user_id": 5}, "user_id: Expected `str | null`, got `int`"),
        (
            "POST",
            "v3/memories/add/",
            {"messages": "x", "user_id": "a", "metadata": [1]},
            "metadata: metadata is a JSON",
        ),
        ("POST", "v3/memories/add/", {"messages": "x", "user_id": "a", "expiration_date": "x"}, "expiration_date: 'x'"),
        ("POST", "v3/memories/add/", {"messages": "x", "user_id": "a", "timestamp": 10**30}, "timestamp: "),
        ("POST", "v3/memories/", {}, "filters: Say whose memories are meant"),
        ("POST", "v3/memories/", {"filters": {"metadata": {"a": 1}}}, "filters: Say whose memories are meant"),
        ("POST", "v3/memories/", {"filters": {"owner": "x"}}, "filters.owner: 'owner' is no field of a memory"),
        (
            "POST",
            "v3/memories/",
            {"filters": {"user_id": {"like": "x"}}},
            "filters.user_id.like: 'like' is no operator",
        ),
        ("POST", "v3/memories/", {"filters": {"user_id": "a"}, "page_size": 201}, "page_size: 201 is not between 1"),
        ("POST", "v3/memories/search/", {"filters": {"user_id": "a"}}, "query: 0 characters; at least 1 is needed"),
        ("POST", "v3/memories/search/", {"query": "x", "user_id": "a", "top_k": 0}, "top_k: 0 is not between 1"),
        (
            "POST",
            "v3/memories/search/",
            {"query": "x", "user_id": "a", "threshold": 2},
            "threshold: 2.0 is not between",
        ),
        ("POST", "v2/memories/search/", {"query": "x"}, "filters: Say whose memories are meant"),
        ("GET", "v1/memories/", None, "user_id: Give at least one of"),
        ("GET", "v1/memories/?user_id=a&page=x", None, "query.page: 'x' is not a whole number"),
    ],
)
async def test_what_is_wrong_is_said_in_a_sentence(mem0: Mem0, method: str, path: str, body: Any, said: str) -> None:
    answer = await mem0.call(method, path, body)

    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(said)


async def test_odd_json_is_refused_and_odd_text_kept(mem0: Mem0) -> None:
    path = f"memory/{mem0.space_id}/v3/memories/"
    for raw in (
        b"{",
        b"[]",
        b'{"filters": {"user_id": ' + b"[" * 5_000,
        b'{"filters":{"metadata":{"a":' + b"9" * 5_000,
    ):
        assert (await mem0.http.post(path, content=raw)).status_code == 400
    odd = rb'{"messages":"a\ud83d","user_id":"\u0000\udc00","infer":false,"metadata":{"\ud83d":1}}'
    added = await mem0.http.post(f"{path}add/", content=odd)
    assert added.status_code == 200
    listed = await mem0.http.post(path, content=rb'{"filters":{"user_id":"\u0000\udc00","metadata":{"\ud83d":1}}}')
    assert [json.loads(listed.content)["results"][0][name] for name in ("memory", "user_id")] == ["a\ud83d", "\0\udc00"]


@pytest.mark.parametrize(("method", "path", "name", "sentence"), NOT_OFFERED)
async def test_what_is_not_offered_is_said_in_a_sentence(
    mem0: Mem0, method: str, path: str, name: str, sentence: str
) -> None:
    path = path.replace("{space_id}", mem0.space_id).replace("{", "").replace("}", "")

    answer = await mem0.http.request(method, f"http://threadkeep.test/api/v2{path}", content=b'{"x": [1]}')

    assert (answer.status_code, answer.json()) == (501, {"detail": sentence})
