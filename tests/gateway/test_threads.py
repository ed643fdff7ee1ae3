"""The routes of threads, on both engines."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from tests.gateway.stack import Client, open_client, run_body, serve
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent

ANSWER = [
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "Yes"},
    {"type": "RUN_FINISHED", "threadId": "-", "runId": "-"},
]


@pytest.fixture
async def alice(container: Container, app: Starlette, token: str) -> AsyncIterator[Client]:
    async with (
        serve(container, app, agents_of(ScriptedAgent(ANSWER))) as gateway,
        open_client(gateway, token) as client,
    ):
        yield client


async def refusal(client: Client, method: str, path: str, status: int, **options: Any) -> Any:
    response = await client.http.request(method, f"/agui{path}", **options)
    assert response.status_code == status, response.text
    assert response.headers["x-request-id"]
    return response.json()["detail"]


async def test_threads_are_listed_by_newest_activity_with_their_last_message(alice: Client) -> None:
    for n in (1, 2, 3):
        await alice.run(thread=f"t{n}", run=f"r{n}")
    await alice.run(thread="t1", run="r4", text="again", user_id="u2")
    page = await alice.get("/threads/")
    assert [thread["threadId"] for thread in page["items"]] == ["t1", "t3", "t2"]
    assert page["cursor"] is None
    thread = page["items"][0]
    assert set(thread) == {"threadId", "name", "createdAt", "updatedAt", "lastMessage", "activeRunId"}
    assert (thread["name"], thread["activeRunId"]) == ("hi", None)
    assert (thread["lastMessage"]["role"], thread["lastMessage"]["content"]) == ("assistant", "Yes")
    assert thread["createdAt"] < thread["updatedAt"]
    assert thread == await alice.get("/threads/t1/")


async def test_a_long_list_of_threads_comes_in_pages(alice: Client) -> None:
    for n in range(5):
        await alice.run(thread=f"t{n}", run=f"r{n}")
    seen, cursor = [], None
    while True:
        page = await alice.get("/threads/", limit=2, **({"cursor": cursor} if cursor else {}))
        seen.append([thread["threadId"] for thread in page["items"]])
        if (cursor := page["cursor"]) is None:
            break
    assert seen == [["t4", "t3"], ["t2", "t1"], ["t0"]]


async def test_a_list_of_threads_is_one_query_whatever_their_number(
    container: Container, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        await alice.run(thread=f"t{n}", run=f"r{n}")
    queries: list[str] = []
    # An engine may do a scan by a read; the read is then the same query.
    for name in ("scan", "write", "append"):
        original = getattr(container.database, name)

        async def counted(*args: Any, name: str = name, original: Any = original) -> Any:
            queries.append(name)
            return await original(*args)

        monkeypatch.setattr(type(container.database), name, staticmethod(counted))
    page = await alice.get("/threads/")
    assert [thread["lastMessage"]["content"] for thread in page["items"]] == ["Yes", "Yes", "Yes"]
    assert queries == ["scan"]
    reads: list[str] = []
    read = container.database.read

    async def counted_read(operation: Any) -> Any:
        reads.append("read")
        return await read(operation)

    monkeypatch.setattr(type(container.database), "read", staticmethod(counted_read))
    await alice.get("/threads/")
    assert len(reads) <= 1


async def test_a_thread_is_renamed(alice: Client) -> None:
    await alice.run()
    renamed = await alice.http.patch("/agui/threads/t1/", json={"name": "Söme name \U0001f600"})
    assert renamed.status_code == 200
    assert renamed.json()["name"] == "Söme name \U0001f600"
    assert (await alice.get("/threads/"))["items"][0]["name"] == "Söme name \U0001f600"


@pytest.mark.parametrize(
    ("body", "place"),
    [({}, ["body", "name"]), ({"name": ""}, ["body", "name"]), ({"name": 3}, ["body", "name"]), ([], ["body"])],
)
async def test_a_name_that_is_none_is_refused(alice: Client, body: Any, place: list[str]) -> None:
    await alice.run()
    (error,) = await refusal(alice, "PATCH", "/threads/t1/", 422, json=body)
    assert error["loc"] == place
    (error,) = await refusal(alice, "PATCH", "/threads/t1/", 422, json={"name": "x" * 201})
    assert error["msg"] == "201 characters; the limit is 200"


async def test_a_deleted_thread_is_gone_and_its_id_is_free(alice: Client) -> None:
    await alice.run()
    assert (await alice.http.delete("/agui/threads/t1/")).status_code == 204
    assert await refusal(alice, "GET", "/threads/t1/", 404) == "There is no thread 't1'"
    assert await refusal(alice, "DELETE", "/threads/t1/", 404) == "There is no thread 't1'"
    await alice.run(text="anew")
    assert [message["content"] for message in await alice.messages()] == ["anew", "Yes"]


async def test_messages_are_served_newest_first_and_each_page_oldest_first(alice: Client) -> None:
    for n in range(3):
        await alice.run(run=f"r{n}", text=f"question {n}", user_id=f"u{n}")
    newest = await alice.get("/threads/t1/messages/", limit=4)
    assert [message["content"] for message in newest["items"]] == ["question 1", "Yes", "question 2", "Yes"]
    older = await alice.get("/threads/t1/messages/", limit=4, before=newest["before"])
    assert [message["content"] for message in older["items"]] == ["question 0", "Yes"]
    assert older["before"] is None
    exact = await alice.get("/threads/t1/messages/", limit=6)
    assert exact["before"] is None


async def test_a_message_has_the_shape_of_the_contract(alice: Client) -> None:
    await alice.run()
    user, answer = await alice.messages()
    assert user == {
        "messageUuid": user["messageUuid"],
        "aguiId": "u1",
        "role": "user",
        "name": None,
        "content": "hi",
        "step": None,
        "status": "complete",
        "inProgress": False,
        "error": None,
        "timestamp": user["timestamp"],
        "sequenceId": 1,
        "runId": "r1",
        "toolCalls": [],
        "reasonings": [],
    }
    assert (answer["aguiId"], answer["sequenceId"], answer["runId"]) == ("m1", 2, "r1")
    assert user["timestamp"] < answer["timestamp"]
    assert len(user["timestamp"]) == len("2026-11-29T12:00:00.123456Z")


async def test_content_in_parts_is_shown_with_its_parts(alice: Client) -> None:
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": {"type": "url", "value": "http://x"}}]
    await alice.run(run_body(messages=[{"id": "u1", "role": "user", "content": parts}]))
    (user, _) = await alice.messages()
    assert (user["content"], user["parts"]) == ("What is it?", parts)


async def test_long_data_and_long_texts_are_shown_whole(alice: Client) -> None:
    image = {"type": "image", "source": {"type": "data", "value": "A" * 3_000_000, "mimeType": "image/png"}}
    content = [{"type": "text", "text": "see"}, image]
    await alice.run(run_body(messages=[{"id": "u1", "role": "user", "content": content}]))
    (message, *_) = await alice.messages()
    assert (message["content"], message["parts"], message["error"]) == ("see", content, None)


async def test_runs_are_listed_newest_first_in_pages(alice: Client) -> None:
    for n in range(3):
        await alice.run(run=f"r{n}", user_id=f"u{n}", **({"parentRunId": f"r{n - 1}"} if n else {}))
    page = await alice.get("/threads/t1/runs/", limit=2)
    assert [(run["runId"], run["parentRunId"]) for run in page["items"]] == [("r2", "r1"), ("r1", "r0")]
    assert set(page["items"][0]) == {
        *("runId", "parentRunId", "status", "outcome", "usage", "error", "startedAt", "finishedAt")
    }
    rest = await alice.get("/threads/t1/runs/", limit=2, cursor=page["cursor"])
    assert [run["runId"] for run in rest["items"]] == ["r0"]
    assert rest["cursor"] is None


HOSTILE = ["t/1|:ü%20", "a b", "...", "?x=1#y", "%2F", "\0", "a\nb", "T1", "t1", "\ud800", "😀" * 70, "x" * 900]


async def test_ids_of_any_kind_come_back_as_they_were(alice: Client) -> None:
    for n, thread in enumerate(HOSTILE):
        frames = await alice.run(thread=thread, run=f"r/{n}%:", text=thread)
        assert frames[0].id == f"r/{n}%25::0"
    listed = [thread["threadId"] for thread in (await alice.get("/threads/"))["items"]]
    assert listed == HOSTILE[::-1]
    for n, thread in enumerate(HOSTILE):
        path = quote(thread, safe="", errors="surrogatepass")
        assert (await alice.get(f"/threads/{path}/"))["threadId"] == thread
        assert [message["content"] for message in await alice.messages(path)] == [thread, "Yes"]
        assert [run["runId"] for run in await alice.runs(path)] == [f"r/{n}%:"]
        assert await alice.cancel(path, quote(f"r/{n}%:", safe="")) is False


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/threads/?limit=0", ["query", "limit"]),
        ("/threads/?limit=101", ["query", "limit"]),
        ("/threads/?limit=x", ["query", "limit"]),
        ("/threads/?cursor=x", ["query", "cursor"]),
        ("/threads/t1/messages/?limit=0", ["query", "limit"]),
        ("/threads/t1/messages/?before=-1", ["query", "before"]),
        ("/threads/t1/runs/?cursor=x", ["query", "cursor"]),
    ],
)
async def test_a_bad_parameter_is_refused_with_its_name(alice: Client, path: str, place: list[str]) -> None:
    await alice.run()
    (error,) = await refusal(alice, "GET", path, 422)
    assert error["loc"] == place


async def test_a_path_without_its_slash_is_not_there_and_the_right_one_is_named(alice: Client) -> None:
    assert await refusal(alice, "GET", "/threads", 404) == (
        "There is nothing at /agui/threads; every path ends in a slash: /agui/threads/"
    )
    assert await refusal(alice, "GET", "/nonsense/", 404) == "There is nothing at /agui/nonsense/"
    assert await refusal(alice, "PUT", "/threads/", 405) == "PUT is not served at /agui/threads/"


async def test_a_body_over_the_limit_is_refused(alice: Client) -> None:
    body = run_body(text="x" * (16 * 1024 * 1024))
    assert (
        await refusal(alice, "POST", "/", 413, json=body) == "The request is too large; the limit is 16,777,216 bytes"
    )


async def test_a_service_token_serves_many_people(container: Container, alice: Client) -> None:
    await alice.run()
    response = await alice.http.get("/agui/threads/", headers={"X-Threadkeep-User": "somebody"})
    assert response.json() == {"items": [], "cursor": None}
    _, plain = await container.tokens.create(user="dave", name="plain")
    headers = {"Authorization": f"Bearer {plain}", "X-Threadkeep-User": "somebody"}
    assert (await alice.http.get("/agui/threads/", headers=headers)).status_code == 401
