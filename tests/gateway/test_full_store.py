"""The gateway before a store that is full, or too slow for what an agent says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.full_disk import fill_disk, free_disk
from tests.gateway.stack import Client, open_client, read_frames, row, run_body, serve, summary
from threadkeep.api.app import create_app
from threadkeep.chat_history import logged_stream
from threadkeep.gateway import local_runs
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.testing.agents import ScriptedAgent, Step

LONG = "word " * 20_000
STARTED: Step = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED: Step = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}


def say(message: str, *deltas: str) -> list[Step]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": message},
    ]


@pytest.fixture
def settings(sqlite_template: Path, tmp_path: Path) -> Settings:
    path = tmp_path / "threadkeep.db"
    path.write_bytes(sqlite_template.read_bytes())
    return Settings(database=f"sqlite:///{path}", run_bytes=400_000, run_lease=1)


@pytest.fixture
async def container(settings: Settings) -> AsyncIterator[Container]:
    opened = await Container.open(settings)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def agent(gate: asyncio.Event) -> ScriptedAgent:
    return ScriptedAgent([STARTED, *say("m1", "Let me look"), gate, *say("m2", LONG), FINISHED])


@pytest.fixture
async def alice(container: Container, agent: ScriptedAgent) -> AsyncIterator[Client]:
    _, secret = await container.tokens.create(user="alice", name="test")
    async with (
        serve(container, create_app(container), agents_of(agent)) as gateway,
        open_client(gateway, secret) as client,
    ):
        yield client


async def read_to(stream: AsyncIterator[bytes], text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += await anext(stream)
    return seen


async def test_a_disk_that_fills_up_in_mid_run_holds_no_event_up_and_costs_nothing_once_it_has_room(
    container: Container, alice: Client, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_stream, "SETTLE_SECONDS", 0.0)
    async with alice.stream() as stream:
        seen = await read_to(stream, b"TEXT_MESSAGE_END")
        await fill_disk(container)
        gate.set()
        seen += b"".join([chunk async for chunk in stream])
    assert [frame.type for frame in read_frames(seen)][-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert (await alice.get("/threads/t1/"))["activeRunId"] == "r1"
    await free_disk(container)
    async with asyncio.timeout(30):
        while (await alice.get("/threads/t1/"))["activeRunId"] is not None:
            pass
    assert summary(await alice.messages()) == [
        row("user", "hi"),
        row("assistant", "Let me look"),
        row("assistant", LONG),
    ]
    assert [run["status"] for run in await alice.runs()] == ["finished"]


async def test_a_run_whose_question_cannot_be_stored_is_refused_before_its_agent_is_called_and_may_be_tried_again(
    container: Container, alice: Client, agent: ScriptedAgent, gate: asyncio.Event
) -> None:
    gate.set()
    await alice.run(thread="t0", run="r0")
    await fill_disk(container)
    refused = await alice.http.post("/agui/", json=run_body(text=LONG))
    assert refused.status_code == 503
    assert "database or disk is full" in refused.json()["detail"]
    assert len(agent.inputs) == 1
    await free_disk(container)
    assert (await alice.run(text=LONG))[-1].type == "RUN_FINISHED"
    assert [message["content"] for message in await alice.messages()] == [LONG, "Let me look", LONG]


async def test_an_agent_that_says_more_than_may_wait_for_the_store_waits_for_it_and_nothing_is_lost(
    container: Container, alice: Client, agent: ScriptedAgent, gate: asyncio.Event
) -> None:
    agent.events = [STARTED, *say("m1", "Let me look"), gate, *say("m2", *[LONG] * 6), FINISHED]
    async with alice.stream() as stream:
        seen = await read_to(stream, b"TEXT_MESSAGE_END")
        await fill_disk(container)
        gate.set()
        # Four deltas are as much as may wait; the fifth is not asked for.
        while seen.count(LONG.encode()) < 4:
            seen += await anext(stream)
        for _ in range(100):
            await asyncio.sleep(0)
        assert agent.open_runs == 1
        await free_disk(container)
        seen += b"".join([chunk async for chunk in stream])
    assert [frame.type for frame in read_frames(seen)] == [event["type"] for event in agent.events if event is not gate]
    assert summary(await alice.messages()) == [
        row("user", "hi"),
        row("assistant", "Let me look"),
        row("assistant", LONG * 6),
    ]


async def test_what_a_gateway_could_not_store_before_it_stopped_is_logged_and_ended_by_the_next_one(
    settings: Settings,
    agent: ScriptedAgent,
    gate: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(logged_stream, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(local_runs, "STOP_SECONDS", 0.0)
    agent.events = [STARTED, *say("m2", "One, ")[:2], gate, *say("m2", LONG)[1:], FINISHED]
    first = await Container.open(settings)
    try:
        _, secret = await first.tokens.create(user="alice", name="test")
        async with (
            serve(first, create_app(first), agents_of(agent)) as gateway,
            open_client(gateway, secret) as alice,
            alice.stream() as stream,
        ):
            await read_to(stream, b"One, ")
            while len(await alice.messages()) < 2:
                pass
            await fill_disk(first)
            gate.set()
            await read_to(stream, b"RUN_FINISHED")
    finally:
        await first.close()
    assert "the records of 1 runs are not stored after 0.0 s: r1; what is missing of them is lost" in caplog.text
    second = await Container.open(settings)
    try:
        async with (
            serve(second, create_app(second), agents_of(agent)) as gateway,
            open_client(gateway, secret) as alice,
        ):
            async with asyncio.timeout(30):
                while (await alice.get("/threads/t1/"))["activeRunId"] is not None:
                    await alice.http.post("/agui/", json=run_body(thread="t2", run="r2", messages=[]))
            assert summary(await alice.messages()) == [row("user", "hi"), row("assistant", "One, ", "interrupted")]
            assert (await alice.messages())[1]["error"] == "The process that ran it has gone"
    finally:
        await second.close()
