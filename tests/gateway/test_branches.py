"""Edits, regenerated answers and runs that go on from an earlier one: each branch is read by itself, in pages."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.gateway.stack import Client, Json, open_client, run_body, serve
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent


class Answering(ScriptedAgent):
    """Answers each run with messages that name it, and remembers what it was given."""

    def __init__(self) -> None:
        super().__init__([])
        self.given: dict[str, list[str]] = {}
        self.answers = 1

    async def run(self, input: Any) -> AsyncIterator[Any]:
        self.given[input.run_id] = [message.content for message in input.messages]
        self.events = [
            {"type": "RUN_STARTED", "threadId": input.thread_id, "runId": input.run_id},
            *(
                {
                    "type": "TEXT_MESSAGE_CHUNK",
                    "messageId": f"{input.run_id}-{number}",
                    "delta": f"{input.run_id}.{number}",
                }
                for number in range(self.answers)
            ),
            {"type": "RUN_FINISHED", "threadId": input.thread_id, "runId": input.run_id},
        ]
        async for event in super().run(input):
            yield event


@pytest.fixture
def agent() -> Answering:
    return Answering()


@pytest.fixture
async def alice(container: Container, app: Starlette, token: str, agent: Answering) -> AsyncIterator[Client]:
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as client:
        yield client


async def ask(client: Client, run: str, text: str, parent: str | None = None) -> None:
    await client.run(run_body(run=run, text=text, user_id=f"u-{run}", parentRunId=parent))


async def said(client: Client, **params: Any) -> list[str]:
    return [message["content"] for message in await client.messages(**params)]


async def two_branches(client: Client) -> None:
    await ask(client, "r1", "one")
    await ask(client, "r2", "two", "r1")
    await ask(client, "r3", "other", "r1")


async def test_a_run_goes_on_from_its_parent_and_both_branches_stay_readable(alice: Client, agent: Answering) -> None:
    await two_branches(alice)
    await ask(alice, "r4", "more of two", "r2")
    assert agent.given["r3"] == ["one", "r1.0", "other"]
    assert agent.given["r4"] == ["one", "r1.0", "two", "r2.0", "more of two"]
    assert await said(alice) == ["one", "r1.0", "two", "r2.0", "more of two", "r4.0"]
    assert await said(alice, run="r4") == await said(alice)
    assert await said(alice, run="r3") == ["one", "r1.0", "other", "r3.0"]
    assert await said(alice, run="r2") == ["one", "r1.0", "two", "r2.0"]
    assert await said(alice, run="r1") == ["one", "r1.0"]
    everything = ["one", "r1.0", "two", "r2.0", "other", "r3.0", "more of two", "r4.0"]
    assert await said(alice, all="true") == everything
    runs = {run["runId"]: run["parentRunId"] for run in await alice.runs()}
    assert runs == {"r1": None, "r2": "r1", "r3": "r1", "r4": "r2"}


async def test_a_run_that_names_a_run_of_another_thread_goes_on_where_its_own_thread_is(
    alice: Client, agent: Answering
) -> None:
    await two_branches(alice)
    await alice.run(run_body(thread="t2", run="s1", text="spawned", parentRunId="r1"))
    assert agent.given["s1"] == ["spawned"]
    assert (await alice.runs("t2"))[0]["parentRunId"] == "r1"


async def test_091_an_edited_message_and_092_a_regenerated_answer_keep_what_they_replace(
    alice: Client, agent: Answering
) -> None:
    one = {"id": "u1", "role": "user", "content": "one"}
    first = {"id": "r1-0", "role": "assistant", "content": "r1.0"}
    await alice.run(run_body(run="r1", messages=[one]))
    await alice.run(run_body(run="r2", messages=[one, first, {"id": "u2", "role": "user", "content": "two"}]))
    await alice.run(run_body(run="r3", messages=[one, first, {"id": "u3", "role": "user", "content": "edited"}]))
    await alice.run(run_body(run="r4", messages=[one]))
    assert agent.given["r3"] == ["one", "r1.0", "edited"]
    assert agent.given["r4"] == ["one"]
    assert await said(alice) == ["one", "r4.0"]
    assert await said(alice, run="r3") == ["one", "r1.0", "edited", "r3.0"]
    assert await said(alice, run="r2") == ["one", "r1.0", "two", "r2.0"]


async def pages(client: Client, limit: int, **params: Any) -> list[list[str]]:
    """All pages, the newest first."""
    found: list[list[str]] = []
    before: dict[str, str] = {}
    while True:
        page: Json = await client.get("/threads/t1/messages/", limit=limit, **(before or params))
        found.append([message["content"] for message in page["items"]])
        if page["before"] is None:
            return found
        before = {"before": page["before"]}


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
async def test_the_pages_of_a_branch_are_the_branch(alice: Client, limit: int) -> None:
    await two_branches(alice)
    branch = ["one", "r1.0", "other", "r3.0"]
    for params in ({}, {"run": "r3"}):
        found = await pages(alice, limit, **params)
        assert [text for page in reversed(found) for text in page] == branch
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert found[-1] or len(found) == 1
    found = await pages(alice, limit, run="r2")
    assert [text for page in reversed(found) for text in page] == ["one", "r1.0", "two", "r2.0"]


async def test_a_branch_that_leaves_far_back_is_found_in_few_queries(
    container: Container, alice: Client, agent: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(alice, "r1", "one")
    agent.answers = 150
    await ask(alice, "r2", "two", "r1")
    agent.answers = 1
    await ask(alice, "r3", "other", "r1")
    queries: list[str] = []
    for name in ("scan", "read"):
        original = getattr(container.database, name)

        async def counted(*args: Any, original: Any = original) -> Any:
            queries.append("query")
            return await original(*args)

        monkeypatch.setattr(type(container.database), name, staticmethod(counted))
    assert await said(alice) == ["one", "r1.0", "other", "r3.0"]
    # The session, the newest window, where the followed message is, the window there; an engine may count some twice.
    assert len(queries) <= 8
    queries.clear()
    assert (await said(alice, run="r2"))[-2:] == ["r2.148", "r2.149"]
    assert len(queries) <= 12
    monkeypatch.undo()
    found = await pages(alice, 40, run="r2")
    assert [text for page in reversed(found) for text in page] == [
        *("one", "r1.0", "two"),
        *(f"r2.{number}" for number in range(150)),
    ]


async def test_a_conversation_that_began_anew_has_nothing_before_it_however_long_the_thread(
    alice: Client, agent: Answering
) -> None:
    agent.answers = 130
    await ask(alice, "r1", "one")
    agent.answers = 1
    await ask(alice, "r2", "one, and more")
    assert agent.given["r2"] == ["one, and more"]
    assert await pages(alice, 100) == [["one, and more", "r2.0"]]


async def test_a_branch_of_a_run_that_is_not_there_is_none(alice: Client) -> None:
    await two_branches(alice)
    response = await alice.http.get("/agui/threads/t1/messages/", params={"run": "r9"})
    assert (response.status_code, response.json()["detail"]) == (404, "There is no run 'r9' in the thread 't1'")
    response = await alice.http.get("/agui/threads/t1/messages/", params={"all": "perhaps"})
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["query", "all"]
