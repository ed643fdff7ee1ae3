"""CopilotKit's routes of agents, on both engines: by path, and by the one path with an envelope."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.gateway.copilotkit.stack import Frontend, until
from tests.gateway.stack import open_client, read_frames, run_body, serve
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent

STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
HALF = [
    STARTED,
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Yes"},
]
ANSWER = [
    *HALF,
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"},
]


@pytest.fixture
def agent() -> ScriptedAgent:
    # One with a name would sign what it says in the thread.
    return ScriptedAgent(ANSWER, name="")


@pytest.fixture
async def alice(container: Container, app: Starlette, token: str, agent: ScriptedAgent) -> AsyncIterator[Frontend]:
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as client:
        yield Frontend(client)


async def test_a_frontend_is_told_of_the_agent_and_of_what_can_be_done_with_threads(alice: Frontend) -> None:
    info = await alice.ask("GET", "/info")
    assert list(info["agents"]) == ["default"]
    assert info["agents"]["default"] == {"name": "default", "description": "", "className": "AGUIAgent"}
    assert (info["mode"], info["version"], info["suggestions"]) == ("sse", "1.75.0", True)
    assert info["threadEndpoints"] == {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False}
    assert await alice.ask("POST", "", json={"method": "info"}) == info


async def test_nothing_is_told_without_a_token(alice: Frontend) -> None:
    alice.http.headers.pop("authorization")
    for method, path in (
        ("GET", "/info"),
        ("POST", "/agent/default/run"),
        ("POST", "/agent/default/connect"),
        ("POST", "/agent/default/suggest"),
        ("POST", "/agent/default/stop/t1"),
        ("POST", ""),
        ("GET", "/threads"),
        ("GET", "/threads/t1/messages"),
        ("DELETE", "/threads/t1"),
    ):
        await alice.ask(method, path, 401)


async def test_a_run_streams_what_the_agent_says_and_is_kept(alice: Frontend) -> None:
    first, *rest = await alice.run()
    assert first.json["input"] == run_body()
    assert [frame.json for frame in rest] == ANSWER[1:]
    assert [frame.id for frame in (first, *rest)] == [f"r1:{n}" for n in range(5)]
    kept = (await alice.http.get("/agui/threads/t1/messages/")).json()["items"]
    assert [(message["role"], message["content"]) for message in kept] == [("user", "hi"), ("assistant", "Yes")]


async def test_a_frontend_that_knows_another_agent_is_told_which_one_there_is(alice: Frontend) -> None:
    for path in ("/agent/other/run", "/agent/other/connect", "/agent/other/suggest", "/agent/other/stop/t1"):
        answer = await alice.ask("POST", path, 404, json=run_body())
        assert answer["detail"] == "There is no agent 'other'; the one here is 'default'"


async def test_an_input_that_is_none_is_refused_by_its_place(alice: Frontend) -> None:
    answer = await alice.ask("POST", "/agent/default/run", 422, json={"threadId": "t1"})
    assert answer["detail"][0]["loc"] == ["body", "runId"]
    assert await alice.threads() == []


async def test_a_second_run_on_a_busy_thread_is_refused_by_name(alice: Frontend, agent: ScriptedAgent) -> None:
    gate = asyncio.Event()
    agent.events = [*HALF, gate, *ANSWER[3:]]
    async with alice.running() as stream:
        await until(stream, b"TEXT_MESSAGE_CONTENT")
        answer = await alice.ask("POST", "/agent/default/run", 409, json=run_body(run="r2"))
        gate.set()
    assert answer["activeRunId"] == "r1"


@pytest.mark.parametrize("named", [{}, {"runId": "r1"}])
@pytest.mark.parametrize("way", ["path", "envelope"])
async def test_a_run_that_is_stopped_ends_closed_for_its_reader(
    alice: Frontend, agent: ScriptedAgent, named: dict[str, str], way: str
) -> None:
    agent.events, agent.then = HALF, "hang"
    async with alice.running() as stream:
        await until(stream, b"TEXT_MESSAGE_CONTENT")
        if way == "path":
            answer = await alice.ask("POST", "/agent/default/stop/t1", json=named or None)
        else:
            params = {"agentId": "default", "threadId": "t1"}
            answer = await alice.ask("POST", "", json={"method": "agent/stop", "params": params, "body": named})
        rest = read_frames(b"".join([chunk async for chunk in stream]))
    assert answer == {
        "stopped": True,
        "interrupt": {"type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED"},
    }
    assert [frame.type for frame in rest] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert agent.open_runs == 0
    (run,) = (await alice.http.get("/agui/threads/t1/runs/")).json()["items"]
    assert run["status"] == "interrupted"


async def test_where_nothing_runs_nothing_is_stopped(alice: Frontend) -> None:
    assert await alice.ask("POST", "/agent/default/stop/none") == {
        "stopped": False,
        "message": "No active run for thread 'none'.",
    }
    await alice.run()
    assert (await alice.ask("POST", "/agent/default/stop/t1"))["stopped"] is False
    answer = await alice.ask("POST", "/agent/default/stop/t1", json={"runId": "r1"})
    assert answer == {"stopped": False, "message": "Run 'r1' is not the active run."}


async def test_a_run_that_is_not_the_one_named_goes_on(alice: Frontend, agent: ScriptedAgent) -> None:
    gate = asyncio.Event()
    agent.events = [*HALF, gate, *ANSWER[3:]]
    async with alice.running() as stream:
        await until(stream, b"TEXT_MESSAGE_CONTENT")
        answer = await alice.ask("POST", "/agent/default/stop/t1", json={"runId": "r0"})
        assert agent.open_runs == 1
        gate.set()
    assert answer == {"stopped": False, "message": "Run 'r0' is not the active run."}


async def test_the_run_of_another_user_is_not_stopped(
    alice: Frontend, agent: ScriptedAgent, container: Container
) -> None:
    agent.events, agent.then = HALF, "hang"
    _, bobs = await container.tokens.create(user="bob", name="test")
    async with alice.running() as stream:
        await until(stream, b"TEXT_MESSAGE_CONTENT")
        answer = await alice.ask(
            "POST", "/agent/default/stop/t1", json={"runId": "r1"}, headers={"Authorization": f"Bearer {bobs}"}
        )
        assert answer["stopped"] is False
        assert agent.open_runs == 1


async def test_a_thread_that_has_said_nothing_opens_as_nothing(alice: Frontend) -> None:
    assert await alice.stream("/agent/default/connect", run_body(messages=[])) == []
    assert await alice.threads() == []


@pytest.mark.parametrize("way", ["path", "envelope"])
async def test_a_thread_opens_with_all_that_was_said(alice: Frontend, way: str) -> None:
    await alice.run()
    asked = run_body(run="x", messages=[])
    if way == "envelope":
        frames = await _bare(alice, "", {"method": "agent/connect", "params": {"agentId": "default"}, "body": asked})
    else:
        frames = await _bare(alice, "/agent/default/connect", asked)
    assert frames == [
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [
                {"id": "u1", "role": "user", "content": "hi"},
                {"id": "m1", "role": "assistant", "content": "Yes"},
            ],
        },
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"},
    ]


async def test_a_thread_opens_while_it_streams_and_goes_on_to_its_end(alice: Frontend, agent: ScriptedAgent) -> None:
    gate = asyncio.Event()
    agent.events = [*HALF, gate, *ANSWER[3:]]
    async with alice.running() as stream:
        await until(stream, b"TEXT_MESSAGE_CONTENT")
        asked = run_body(run="x", messages=[])
        async with alice.http.stream("POST", "/copilotkit/agent/default/connect", json=asked) as opened:
            events = opened.aiter_bytes()
            await until(events, b"TEXT_MESSAGE_START")
            gate.set()
            rest = read_frames(b"".join([chunk async for chunk in events]))
    assert [frame.type for frame in rest] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert [frame.id for frame in rest] == ["r1:3", "r1:4"]


async def test_suggestions_are_made_by_the_agent_and_leave_nothing_behind(
    alice: Frontend, agent: ScriptedAgent
) -> None:
    frames = await _bare(alice, "/agent/default/suggest", run_body(thread="s1"))
    assert frames == ANSWER
    assert len(agent.inputs) == 1
    assert await alice.threads() == []


async def test_an_agent_that_fails_at_suggestions_ends_with_an_error(alice: Frontend, agent: ScriptedAgent) -> None:
    agent.events, agent.then = HALF, RuntimeError("boom")
    frames = await _bare(alice, "/agent/default/suggest", run_body())
    assert (frames[-1]["type"], frames[-1]["message"]) == ("RUN_ERROR", "The agent failed: RuntimeError: boom")


async def test_a_run_by_the_envelope_is_a_run(alice: Frontend) -> None:
    asked = {"method": "agent/run", "params": {"agentId": "default"}, "body": run_body()}
    frames = await alice.stream("", asked)
    assert [frame.type for frame in frames] == [event["type"] for event in ANSWER]
    assert [thread["id"] for thread in await alice.threads()] == ["t1"]


@pytest.mark.parametrize("method", ["nope", "agent/nope", "threads/run", "agent/", ""])
async def test_an_envelope_with_an_unknown_method_is_refused(alice: Frontend, method: str) -> None:
    answer = await alice.ask("POST", "", 422, json={"method": method, "body": run_body()})
    assert answer["detail"][0]["loc"] == ["body", "method"]


async def test_an_envelope_for_another_agent_is_refused(alice: Frontend) -> None:
    asked = {"method": "agent/run", "params": {"agentId": "other"}, "body": run_body()}
    await alice.ask("POST", "/", 404, json=asked)


async def _bare(frontend: Frontend, path: str, body: Any) -> list[Any]:
    """The events of a stream whose frames have no ids."""
    response = await frontend.http.post(f"/copilotkit{path}", json=body)
    assert response.status_code == 200, response.text
    assert b"id: " not in response.content
    return [frame.json for frame in read_frames(response.content.replace(b"data: ", b"id: -\ndata: "))]
