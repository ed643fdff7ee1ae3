"""Runs through the gateway on both engines, with agents in its own process."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.gateway.stack import Client, open_client, read_frames, row, run_body, serve, summary
from threadkeep.demo.script import DemoAgent
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent, Step

STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}


def say(text: str, message: str = "m1") -> list[Step]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": text},
        {"type": "TEXT_MESSAGE_END", "messageId": message},
    ]


HALF: list[Step] = [STARTED, *say("One, two")[:2]]
WHOLE: list[Step] = [STARTED, *say("All of it"), FINISHED]


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent(WHOLE)


@pytest.fixture
async def gateway(container: Container, app: Starlette, agent: ScriptedAgent) -> AsyncIterator[Starlette]:
    async with serve(container, app, agents_of(agent)) as opened:
        yield opened


@pytest.fixture
async def alice(gateway: Starlette, token: str) -> AsyncIterator[Client]:
    async with open_client(gateway, token) as client:
        yield client


async def until(stream: AsyncIterator[bytes], text: bytes) -> bytes:
    """What comes up to and with the text."""
    seen = b""
    while text not in seen:
        seen += await anext(stream)
    return seen


ODD = [
    b'{"type": "RUN_STARTED", "threadId":"t1",  "runId":"r1", "timestamp": 1767225605000.50, "note": null}',
    b'{"type":"QUANTUM_FOAM","x":1e2,"big":12345678901234567890123,"a":1,"a":2}',
    b'{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"f","parentMessageId":null}',
    b'{"type":"TOOL_CALL_END","toolCallId":"c1"}',
    b'{"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c1","content":{"a":1}}',
    b'{"type":"TEXT_MESSAGE_START","messageId":"m2","timestamp":"1767225605000"}',
    '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m2","delta":"ök \\ud83d"}'.encode(),
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m2","delta":"\\ude00"}',
    b'{"type":"TEXT_MESSAGE_END","messageId":"m2"}',
    b'{"type":"CUSTOM"}',
    b'{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"paused"}}',
]


async def test_events_pass_byte_for_byte_each_with_its_id(alice: Client, agent: ScriptedAgent) -> None:
    agent.events = list(ODD)
    frames = await alice.run()
    assert [frame.data for frame in frames] == ODD
    assert [frame.id for frame in frames] == [f"r1:{index}" for index in range(len(ODD))]
    assert summary(await alice.messages()) == [
        row("user", "hi"),
        row("assistant", "", calls=(("f", "", '{"a":1}', "complete"),)),
        row("assistant", "ök 😀"),
    ]


async def test_the_demo_s_history_is_typed_and_whole_when_its_last_event_is_seen(
    container: Container, app: Starlette, token: str
) -> None:
    async with serve(container, app, agents_of(DemoAgent(pause=0))) as gateway, open_client(gateway, token) as alice:
        frames = await alice.run(text="What is the weather in Oslo?")
        stored = await alice.messages()
        (run,) = await alice.runs()
    assert (frames[0].type, frames[-1].type) == ("RUN_STARTED", "RUN_FINISHED")
    result = '{"city": "Oslo", "celsius": 7, "sky": "partly cloudy", "humidity": 69}'
    assert summary(stored) == [
        row("user", "What is the weather in Oslo?"),
        row(
            "assistant",
            "Let me look up the weather in Oslo.",
            calls=(("weather", '{"city": "Oslo"}', result, "complete"),),
            reasonings=(("The question is about Oslo. The weather tool knows. I shall ask it.", "complete"),),
        ),
        row("assistant", "It is 7 °C in Oslo, the sky is partly cloudy, and the humidity is 69 %."),
    ]
    assert {message["runId"] for message in stored} == {"r1"}
    assert [message["inProgress"] for message in stored] == [False, False, False]
    assert (run["runId"], run["status"], run["error"]) == ("r1", "finished", None)
    assert run["startedAt"] < run["finishedAt"]


async def test_the_next_run_is_given_the_whole_history(alice: Client, agent: ScriptedAgent) -> None:
    await alice.run()
    agent.events = [{"type": "RUN_FINISHED", "threadId": "t1", "runId": "r2"}]
    await alice.run(run="r2", text="and then?", user_id="u2")
    given = agent.inputs[1]
    assert [(message.role, message.content) for message in given.messages] == [
        ("user", "hi"),
        ("assistant", "All of it"),
        ("user", "and then?"),
    ]


async def test_what_the_user_wrote_is_stored_before_the_agent_is_called(alice: Client, agent: ScriptedAgent) -> None:
    gate = asyncio.Event()
    agent.events = [STARTED, gate, FINISHED]
    async with alice.stream() as stream:
        await until(stream, b"RUN_STARTED")
        assert summary(await alice.messages()) == [row("user", "hi")]
        (thread,) = (await alice.get("/threads/"))["items"]
        assert thread["activeRunId"] == "r1"
        assert thread["lastMessage"]["content"] == "hi"
        gate.set()
        await until(stream, b"RUN_FINISHED")
    assert (await alice.get("/threads/"))["items"][0]["activeRunId"] is None


async def test_a_second_run_on_a_busy_thread_is_refused_and_names_the_first(
    alice: Client, agent: ScriptedAgent
) -> None:
    gate = asyncio.Event()
    agent.events = [STARTED, gate, FINISHED]
    async with alice.stream() as stream:
        await until(stream, b"RUN_STARTED")
        refused = await alice.http.post("/agui/", json=run_body(run="r2"))
        assert refused.status_code == 409
        assert refused.json() == {
            "detail": "Thread 't1' already has an active run: 'r1'",
            "errorName": "RunActive",
            "activeRunId": "r1",
        }
        assert refused.headers["x-request-id"]
        elsewhere = asyncio.ensure_future(alice.run(thread="t2", run="r3"))
        gate.set()
        await until(stream, b"RUN_FINISHED")
        await elsewhere
    assert (await alice.run(run="r2"))[-1].type == "RUN_FINISHED"


async def test_a_client_that_leaves_does_not_stop_the_run(alice: Client, agent: ScriptedAgent) -> None:
    gate = asyncio.Event()
    agent.events = [*HALF, gate, *say("x")[1:], FINISHED]
    async with alice.stream() as stream:
        await until(stream, b"One, two")
    assert agent.open_runs == 1
    gate.set()
    await ended(alice)
    assert summary(await alice.messages()) == [row("user", "hi"), row("assistant", "One, twox")]
    assert [run["status"] for run in await alice.runs()] == ["finished"]


async def test_a_client_that_does_not_read_does_not_hold_the_agent_up(alice: Client, agent: ScriptedAgent) -> None:
    words: list[Step] = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "word "}] * 2_000
    agent.events = [STARTED, say("")[0], *words, say("")[2], FINISHED]
    async with alice.stream() as stream:
        await ended(alice)
        assert agent.open_runs == 0
        assert (await alice.messages())[1]["content"] == "word " * 2_000
        frames = read_frames(b"".join([chunk async for chunk in stream]))
    assert [frame.id for frame in frames] == [f"r1:{index}" for index in range(2_004)]


async def ended(client: Client, thread: str = "t1") -> None:
    """Wait until nothing runs in the thread."""
    async with asyncio.timeout(20):
        while (await client.get(f"/threads/{thread}/"))["activeRunId"] is not None:
            pass


CANCELLED_1_X: list[dict[str, Any]] = [
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {**FINISHED, "outcome": {"type": "cancelled"}},
]
CANCELLED_0_X: list[dict[str, Any]] = [
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    FINISHED,
]


@pytest.mark.parametrize(
    ("version", "ending"), [({"protocolVersion": "1.0"}, CANCELLED_1_X), ({}, CANCELLED_0_X)], ids=["1.0", "0.x"]
)
async def test_a_cancel_stops_the_agent_and_keeps_what_was_said(
    alice: Client, agent: ScriptedAgent, version: dict[str, str], ending: list[dict[str, Any]]
) -> None:
    agent.events, agent.then = HALF, "hang"
    async with alice.stream(**version) as stream:
        seen = await until(stream, b"One, two")
        assert await alice.cancel() is True
        assert agent.open_runs == 0
        seen += b"".join([chunk async for chunk in stream])
    assert [frame.json for frame in read_frames(seen)][3:] == ending
    assert summary(await alice.messages()) == [row("user", "hi"), row("assistant", "One, two", "interrupted")]
    (run,) = await alice.runs()
    assert (run["status"], run["outcome"], run["error"]) == ("interrupted", {"type": "cancelled"}, None)
    assert await alice.cancel() is False


async def test_a_run_cancelled_in_the_middle_of_a_call_can_be_gone_on_from(alice: Client, agent: ScriptedAgent) -> None:
    call: list[Step] = [
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "slow", "parentMessageId": "m1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"n":1}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    ]
    agent.events, agent.then = [STARTED, *call], "hang"
    async with alice.stream() as stream:
        await until(stream, b"TOOL_CALL_END")
        assert await alice.cancel() is True
    agent.events, agent.then = [*say("Sure.", "m3"), FINISHED], None
    await alice.run(run="r2", text="never mind", user_id="u2")
    assert summary(await alice.messages()) == [
        row("user", "hi"),
        row("assistant", "", "interrupted", calls=(("slow", '{"n":1}', "", "interrupted"),)),
        row("user", "never mind"),
        row("assistant", "Sure."),
    ]
    assert [message.role for message in agent.inputs[1].messages] == ["user", "assistant", "tool", "user"]


async def test_there_is_nothing_to_cancel_in_a_run_that_has_ended(alice: Client) -> None:
    await alice.run()
    assert await alice.cancel() is False
    assert await alice.cancel(run="never was") is False
    assert summary(await alice.messages())[1] == row("assistant", "All of it")


ERRORS: list[tuple[list[Step], Any, str, str]] = [
    (HALF, None, "AGENT_INCOMPLETE", "The agent's stream ended without a terminal event"),
    (HALF, ValueError("no such city"), "AGENT_ERROR", "The agent failed: ValueError: no such city"),
]


@pytest.mark.parametrize(("events", "then", "code", "message"), ERRORS, ids=["stops", "raises"])
async def test_an_agent_that_breaks_off_ends_with_one_error_and_keeps_what_it_said(
    alice: Client, agent: ScriptedAgent, events: list[Step], then: Any, code: str, message: str
) -> None:
    agent.events, agent.then = events, then
    frames = await alice.run()
    assert frames[-1].json == {"type": "RUN_ERROR", "message": message, "code": code}
    assert [frame.type for frame in frames].count("RUN_ERROR") == 1
    assert summary(await alice.messages()) == [row("user", "hi"), row("assistant", "One, two", "errored")]
    (run,) = await alice.runs()
    assert (run["status"], run["error"]) == ("errored", message)


async def test_an_error_in_the_middle_of_a_call_ends_the_call_too(alice: Client, agent: ScriptedAgent) -> None:
    agent.events = [
        STARTED,
        *say("Let me"),
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "bash", "parentMessageId": "m1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"cmd":"ls'},
        {"type": "RUN_ERROR", "message": "upstream 503"},
    ]
    await alice.run()
    agent.events = [FINISHED]
    await alice.run(run="r2", text="again", user_id="u2")
    assert summary(await alice.messages()) == [
        row("user", "hi"),
        row("assistant", "Let me", "errored", calls=(("bash", '{"cmd":"ls', "", "errored"),)),
        row("user", "again"),
    ]
    assert [message.role for message in agent.inputs[1].messages] == ["user", "assistant", "tool", "user"]


async def test_an_agent_s_own_error_passes_as_it_is(alice: Client, agent: ScriptedAgent) -> None:
    agent.events = [b'{"type":"RUN_ERROR","message":"rate limited","code":"429"}']
    frames = await alice.run()
    assert [frame.data for frame in frames] == agent.events
    assert [(run["status"], run["error"]) for run in await alice.runs()] == [("errored", "rate limited")]
    assert (await alice.messages())[0]["content"] == "hi"


async def test_an_agent_s_own_cancellation_counts_as_one(alice: Client, agent: ScriptedAgent) -> None:
    agent.events = [*HALF, {**FINISHED, "outcome": {"type": "cancelled"}, "usage": [{"inputTokens": 3}]}]
    await alice.run()
    (run,) = await alice.runs()
    assert (run["status"], run["outcome"]) == ("interrupted", {"type": "cancelled"})
    assert run["usage"] == [{"inputTokens": 3}]
    assert summary(await alice.messages())[1] == row("assistant", "One, two", "interrupted")


async def test_an_event_that_is_no_json_ends_the_run_with_an_error(alice: Client, agent: ScriptedAgent) -> None:
    agent.events = [STARTED, {"type": "CUSTOM", "name": "n", "value": object()}, FINISHED]
    frames = await alice.run()
    assert [frame.type for frame in frames] == ["RUN_STARTED", "RUN_ERROR"]
    assert frames[1].json["message"] == "The agent sent an event that is no JSON"


async def test_bad_input_is_refused_with_its_place_and_nothing_is_stored(alice: Client, agent: ScriptedAgent) -> None:
    body = run_body(messages=[{"id": "u1", "role": "user", "content": 7}])
    refused = await alice.http.post("/agui/", json=body)
    assert refused.status_code == 422
    assert refused.json() == {
        "detail": [
            {
                "loc": ["body", "messages", 0, "content"],
                "msg": "content is a string or a list of parts, not a number",
                "type": "type_error",
            }
        ]
    }
    not_json = await alice.http.post("/agui/", content=b"{")
    assert not_json.status_code == 422
    assert not_json.json()["detail"][0]["loc"] == ["body"]
    assert await alice.get("/threads/") == {"items": [], "cursor": None}
    assert agent.inputs == []


async def test_a_comment_is_sent_while_nothing_comes_and_has_no_id(
    container: Container, app: Starlette, token: str
) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([STARTED, gate, FINISHED])
    async with (
        serve(container, app, agents_of(agent), keepalive_seconds=0.001) as gateway,
        open_client(gateway, token) as alice,
        alice.stream() as stream,
    ):
        seen = await until(stream, b"\n\n: keepalive\n\n")
        gate.set()
        seen += b"".join([chunk async for chunk in stream])
    assert [frame.id for frame in read_frames(seen)] == ["r1:0", "r1:1"]


async def test_a_thread_deleted_in_mid_run_stops_the_run_and_stays_deleted(alice: Client, agent: ScriptedAgent) -> None:
    agent.events, agent.then = HALF, "hang"
    async with alice.stream() as stream:
        seen = await until(stream, b"One, two")
        deleted = await alice.http.delete("/agui/threads/t1/")
        assert deleted.status_code == 204
        seen += b"".join([chunk async for chunk in stream])
    assert read_frames(seen)[-1].type == "RUN_FINISHED"
    assert agent.open_runs == 0
    assert (await alice.http.get("/agui/threads/t1/messages/")).status_code == 404
    assert await alice.get("/threads/") == {"items": [], "cursor": None}
    agent.events, agent.then = WHOLE, None
    await alice.run(run="r2", text="anew", user_id="u2")
    assert [message["content"] for message in await alice.messages()] == ["anew", "All of it"]


async def test_the_gateway_that_closes_stops_its_runs_and_stores_them(
    container: Container, app: Starlette, token: str
) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with (
        serve(container, app, agents_of(agent)) as gateway,
        open_client(gateway, token) as alice,
        alice.stream() as stream,
    ):
        await until(stream, b"One, two")
    assert agent.open_runs == 0
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        assert summary(await alice.messages()) == [row("user", "hi"), row("assistant", "One, two", "interrupted")]
        (run,) = await alice.runs()
    assert (run["status"], run["error"]) == ("interrupted", "The server was stopped")


async def test_two_users_with_one_thread_id_have_two_threads(gateway: Starlette, token: str) -> None:
    async with open_client(gateway, token, "bob") as bob, open_client(gateway, token, "carol") as carol:
        await asyncio.gather(bob.run(text="I am Bob"), carol.run(text="I am Carol"))
        assert [message["content"] for message in await bob.messages()] == ["I am Bob", "All of it"]
        assert [message["content"] for message in await carol.messages()] == ["I am Carol", "All of it"]


async def test_a_thread_of_somebody_else_is_not_there(gateway: Starlette, alice: Client, token: str) -> None:
    await alice.run()
    async with open_client(gateway, token, "mallory") as mallory:
        calls = [
            ("GET", "/agui/threads/t1/", None),
            ("PATCH", "/agui/threads/t1/", {"name": "mine"}),
            ("DELETE", "/agui/threads/t1/", None),
            ("GET", "/agui/threads/t1/messages/", None),
            ("GET", "/agui/threads/t1/runs/", None),
            ("GET", "/agui/threads/t1/runs/r1/events/", None),
            ("POST", "/agui/threads/t1/runs/r1/cancel/", None),
        ]
        for method, path, body in calls:
            response = await mallory.http.request(method, path, json=body)
            assert response.status_code == 404, (method, path)
            assert response.json() == {"detail": "There is no thread 't1'"}
        assert await mallory.get("/threads/") == {"items": [], "cursor": None}
    assert len(await alice.messages()) == 2


async def test_every_route_wants_a_token(alice: Client) -> None:
    calls = [
        ("POST", "/agui/"),
        ("GET", "/agui/threads/"),
        ("GET", "/agui/threads/t1/"),
        ("PATCH", "/agui/threads/t1/"),
        ("DELETE", "/agui/threads/t1/"),
        ("GET", "/agui/threads/t1/messages/"),
        ("GET", "/agui/threads/t1/runs/"),
        ("GET", "/agui/threads/t1/runs/r1/events/"),
        ("POST", "/agui/threads/t1/runs/r1/cancel/"),
    ]
    for method, path in calls:
        response = await alice.http.request(method, path, headers={"Authorization": "Bearer no"})
        assert response.status_code == 401, (method, path)
        assert response.json() == {"detail": "The token is unknown"}


async def test_forty_threads_run_at_once(alice: Client, agent: ScriptedAgent) -> None:
    streams = await asyncio.gather(*(alice.run(thread=f"t{n}", run=f"r{n}", text=f"{n}") for n in range(40)))
    assert all(frames[-1].type == "RUN_FINISHED" for frames in streams)
    assert len((await alice.get("/threads/"))["items"]) == 40
    assert [message["content"] for message in await alice.messages("t17")] == ["17", "All of it"]
    assert json.loads(streams[3][1].data)["type"] == "TEXT_MESSAGE_START"
