"""CopilotKit's routes of threads, on both engines."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from tests.gateway.copilotkit.stack import Frontend
from tests.gateway.stack import open_client, serve
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent

ANSWER = [
    {"type": "RUN_STARTED", "threadId": "-", "runId": "-"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Y"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "es"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
    {"type": "RUN_FINISHED", "threadId": "-", "runId": "-"},
]


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent(ANSWER)


@pytest.fixture
async def alice(container: Container, app: Starlette, token: str, agent: ScriptedAgent) -> AsyncIterator[Frontend]:
    async with (
        serve(container, app, agents_of(agent)) as gateway,
        open_client(gateway, token) as client,
    ):
        yield Frontend(client)


async def ids(frontend: Frontend, **params: str) -> list[str]:
    return [thread["id"] for thread in await frontend.threads(**params)]


async def test_threads_are_listed_by_newest_activity_as_the_clients_show_them(alice: Frontend) -> None:
    await alice.run(thread="t1", run="r1")
    await alice.run(thread="t2", run="r2")
    newest, oldest = await alice.threads()
    assert (newest["id"], oldest["id"]) == ("t2", "t1")
    assert set(newest) == {
        *("id", "name", "agentId", "organizationId", "createdById", "archived", "createdAt", "updatedAt")
    }
    assert (newest["name"], newest["agentId"], newest["archived"]) == ("hi", "default", False)
    assert newest["createdAt"] < newest["updatedAt"]


async def test_a_long_list_comes_in_pages(alice: Frontend) -> None:
    for n in range(3):
        await alice.run(thread=f"t{n}", run=f"r{n}")
    page = await alice.ask("GET", "/threads", params={"limit": "2"})
    assert [thread["id"] for thread in page["threads"]] == ["t2", "t1"]
    rest = await alice.ask("GET", "/threads", params={"limit": "2", "cursor": page["nextCursor"]})
    assert ([thread["id"] for thread in rest["threads"]], rest["nextCursor"]) == (["t0"], None)


async def test_another_agent_has_no_threads_here(alice: Frontend) -> None:
    await alice.run()
    assert await ids(alice, agentId="other") == []


async def test_an_archived_thread_leaves_the_list_and_comes_back(alice: Frontend) -> None:
    for n in (1, 2):
        await alice.run(thread=f"t{n}", run=f"r{n}")
    archived = await alice.ask("POST", "/threads/t1/archive", json={"agentId": "default"})
    assert (archived["id"], archived["archived"]) == ("t1", True)
    assert await ids(alice) == ["t2"]
    assert await ids(alice, includeArchived="true") == ["t2", "t1"]
    assert [thread["archived"] for thread in await alice.threads(includeArchived="true")] == [False, True]

    await alice.run(thread="t1", run="r3", user_id="u2")
    assert await ids(alice) == ["t2"]

    back = await alice.ask("PATCH", "/threads/t1", json={"agentId": "default", "archived": False})
    assert back["archived"] is False
    assert await ids(alice) == ["t1", "t2"]


async def test_a_page_without_archived_threads_is_as_long_as_asked_for(alice: Frontend) -> None:
    for n in range(6):
        await alice.run(thread=f"t{n}", run=f"r{n}")
    for n in (5, 3, 2):
        await alice.ask("POST", f"/threads/t{n}/archive")
    page = await alice.ask("GET", "/threads", params={"limit": "2"})
    assert [thread["id"] for thread in page["threads"]] == ["t4", "t1"]
    rest = await alice.ask("GET", "/threads", params={"limit": "2", "cursor": page["nextCursor"]})
    assert ([thread["id"] for thread in rest["threads"]], rest["nextCursor"]) == (["t0"], None)


async def test_a_renamed_thread_keeps_its_name_and_stays_where_it_was(alice: Frontend) -> None:
    await alice.run()
    await alice.ask("POST", "/threads/t1/archive")
    renamed = await alice.ask("PATCH", "/threads/t1", content=rb'{"agentId":"default","name":"A \ud83d name"}')
    assert (renamed["name"], renamed["archived"]) == ("A \ud83d name", True)
    await alice.ask("PATCH", "/threads/t1", json={"archived": False})
    (thread,) = await alice.threads()
    assert thread["name"] == "A \ud83d name"
    assert (await alice.http.get("/agui/threads/t1/")).json()["name"] == "A \ud83d name"


async def test_a_name_that_is_too_long_is_refused(alice: Frontend) -> None:
    await alice.run()
    answer = await alice.ask("PATCH", "/threads/t1", 422, json={"name": "x" * 201})
    assert answer["detail"][0]["loc"] == ["body", "name"]


async def test_a_deleted_thread_is_gone(alice: Frontend) -> None:
    await alice.run()
    assert await alice.ask("DELETE", "/threads/t1", 204, json={"agentId": "default"}) is None
    assert await ids(alice, includeArchived="true") == []
    await alice.ask("DELETE", "/threads/t1", 404)


async def test_a_thread_is_looked_into(alice: Frontend) -> None:
    odd = "a/b c"
    await alice.run(thread=odd)
    path = f"/threads/{quote(odd, safe='')}"
    assert (await alice.ask("GET", f"{path}/messages"))["messages"] == [
        {"id": "u1", "role": "user", "content": "hi"},
        {"id": "m1", "role": "assistant", "content": "Yes"},
    ]
    assert await alice.ask("GET", f"{path}/state") == {"state": {"n": 1}}
    assert await alice.ask("GET", f"{path}/events") == {"events": ANSWER}


async def test_the_events_of_all_runs_come_in_the_order_of_the_runs(alice: Frontend, agent: ScriptedAgent) -> None:
    await alice.run(run="r1")
    # More than is read from the log at once.
    long = [{"type": "CUSTOM", "name": f"long {n}", "value": "x" * 600_000} for n in range(4)]
    agent.events = [ANSWER[0], *long, ANSWER[-1]]
    await alice.run(run="r2", user_id="u2")
    found = (await alice.ask("GET", "/threads/t1/events"))["events"]
    assert found == [*ANSWER, ANSWER[0], *long, ANSWER[-1]]


async def test_a_thread_that_is_none_is_empty_to_whoever_looks_into_it(alice: Frontend) -> None:
    assert await alice.ask("GET", "/threads/none/messages") == {"messages": []}
    assert await alice.ask("GET", "/threads/none/events") == {"events": []}
    assert await alice.ask("GET", "/threads/none/state") == {"state": None}


async def test_messages_beyond_a_page_are_shown_too(alice: Frontend) -> None:
    messages = [{"id": f"u{n}", "role": "user", "content": f"{n}"} for n in range(150)]
    await alice.run(messages=messages)
    shown = (await alice.ask("GET", "/threads/t1/messages"))["messages"]
    assert [message["content"] for message in shown] == [*map(str, range(150)), "Yes"]


async def test_a_thread_of_somebody_else_is_none(alice: Frontend, container: Container) -> None:
    await alice.run()
    _, bobs = await container.tokens.create(user="bob", name="test")
    alice.http.headers["authorization"] = f"Bearer {bobs}"
    assert await ids(alice) == []
    assert await alice.ask("GET", "/threads/t1/messages") == {"messages": []}
    assert await alice.ask("GET", "/threads/t1/events") == {"events": []}
    assert await alice.ask("GET", "/threads/t1/state") == {"state": None}
    await alice.ask("PATCH", "/threads/t1", 404, json={"name": "mine"})
    await alice.ask("POST", "/threads/t1/archive", 404)
    await alice.ask("DELETE", "/threads/t1", 404)
