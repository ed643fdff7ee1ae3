"""Runs that lose their process while somebody reads: what the history, the log and the readers have in the end.

A process that is asleep, or cut off from everybody, is a gateway whose lease has run out though it lives.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.chat_history.cases import load_cases
from tests.gateway.stack import Client, Json, open_client, read_frames, row, serve, summary
from threadkeep.api.app import create_app
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import Unavailable
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.histories import Histories, find_session
from threadkeep.gateway.runs import Runs
from threadkeep.services.container import Container
from threadkeep.services.run_writer import RunWriter
from threadkeep.settings import Settings
from threadkeep.streams.run_log import RunEnding
from threadkeep.testing.agents import ScriptedAgent, Step

WHY = "The process that ran it has gone"
STARTED: Json = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED: Json = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}
LOST: Json = {"type": "RUN_ERROR", "message": WHY, "code": "SERVER_STOPPED"}
TALK: list[Step] = [
    STARTED,
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "One "},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "f", "parentMessageId": "m1"},
]
LATE: list[Step] = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "too late"}, FINISHED]
KEPT = [row("user", "hi"), row("assistant", "One ", "interrupted", (("f", "", "", "interrupted"),))]


class Stage:
    """Processes on one database: `died` is the one that had the run, and all others come later."""

    def __init__(self, container: Container, app: Starlette, token: str) -> None:
        self.container, self.app, self.token = container, app, token
        self.gate = asyncio.Event()
        self.agent = ScriptedAgent([*TALK, self.gate, *LATE])
        self.reader: asyncio.Task[bytes] | None = None

    @asynccontextmanager
    async def died(self, **fields: Any) -> AsyncIterator[Client]:
        """A process that has a run, whose four first events a reader has, and whose lease has run out."""
        async with (
            serve(self.container, self.app, agents_of(self.agent)) as gateway,
            open_client(gateway, self.token) as client,
            client.stream(**fields) as stream,
        ):
            seen = b""
            while seen.count(b"\n\n") < len(TALK):
                seen += await anext(stream)
            self.reader = asyncio.create_task(rest_of(stream, seen))
            await self.container.runs.renew((await self.run()).owner, -1)
            yield client
            self.gate.set()
            await self.reader

    @asynccontextmanager
    async def another(self, *events: Step) -> AsyncIterator[Client]:
        """A process that opens now, and ends what it finds."""
        async with (
            serve(self.container, self.app, agents_of(ScriptedAgent([*events]))) as gateway,
            open_client(gateway, self.token) as client,
        ):
            yield client

    async def principal(self) -> Principal:
        return await self.container.tokens.authenticate(f"Bearer {self.token}", None)

    async def run(self) -> Run:
        history = await Histories(self.app).of(await self.principal())
        session = await find_session(self.container.sessions, history, "t1")
        assert session is not None
        return await self.container.runs.get(history.principal, history.space_id, session.id, "r1")


async def rest_of(stream: AsyncIterator[bytes], seen: bytes) -> bytes:
    return b"".join([seen, *[chunk async for chunk in stream]])


async def logged(client: Client, run: str = "r1") -> list[Json]:
    """The log of a run, as a reader on that process gets it; its ids have no gap."""
    response = await client.http.get(f"/agui/threads/t1/runs/{run}/events/")
    assert response.status_code == 200, response.text
    frames = read_frames(response.content)
    assert [frame.id for frame in frames] == [f"{run}:{index}" for index in range(len(frames))]
    return [frame.json for frame in frames]


@pytest.fixture
async def stage(database: str) -> AsyncIterator[Stage]:
    """With leases that are so long that nobody renews any in the time of a test, as one that is asleep does not."""
    async with open_stage(database, run_lease=36_000) as opened:
        yield opened


@asynccontextmanager
async def open_stage(database: str, **settings: Any) -> AsyncIterator[Stage]:
    container = await Container.open(Settings(database=database, **settings))
    try:
        _, token = await container.tokens.create(user="alice", name="test")
        yield Stage(container, create_app(container), token)
    finally:
        await container.close()


async def test_what_a_reader_has_seen_is_in_the_history_though_the_process_had_stored_none_of_it(stage: Stage) -> None:
    async with stage.died(), stage.another() as other:
        assert summary(await other.messages()) == KEPT
        assert (await other.messages())[1]["error"] == WHY
        (run,) = await other.runs()
        assert (run["status"], run["error"], run["outcome"]) == ("interrupted", WHY, None)
        assert await logged(other) == [*TALK, LOST]


async def test_a_process_that_comes_back_can_write_neither_events_nor_messages_nor_the_end(stage: Stage) -> None:
    async with stage.died() as back, stage.another({**FINISHED, "runId": "r2"}) as other:
        await other.run(run="r2", text="and now?", user_id="u2")
        stage.gate.set()
        assert stage.reader is not None
        frames = read_frames(await stage.reader)
        # Its own reader is told what everybody is told.
        assert [frame.json for frame in frames] == [*TALK, LOST]
        for client in (back, other):
            assert summary(await client.messages()) == [*KEPT, row("user", "and now?")]
            assert [(run["runId"], run["status"]) for run in await client.runs()] == [
                ("r2", "finished"),
                ("r1", "interrupted"),
            ]
            assert await logged(client) == [*TALK, LOST]
    assert stage.agent.open_runs == 0


async def test_a_process_whose_agent_is_silent_finds_out_by_itself_that_its_run_is_lost(database: str) -> None:
    async with open_stage(database, run_lease=1) as stage:
        await lose_a_silent_run(stage)


async def lose_a_silent_run(stage: Stage) -> None:
    container, stage.agent = stage.container, ScriptedAgent(TALK, then="hang")
    async with (
        serve(container, stage.app, agents_of(stage.agent)) as gateway,
        open_client(gateway, stage.token) as client,
        client.stream() as stream,
    ):
        await anext(stream)
        taken = None
        while taken is None:
            taken = await take_over(stage)
        length = await container.run_log.length(taken.key)
        end = RunEnding("interrupted", error=WHY)
        await RunWriter(container.runs, container.run_log, taken).finish(length, [json.dumps(LOST).encode()], end)
        async for chunk in stream:
            assert b"RUN_FINISHED" not in chunk
        assert (await logged(client))[-1] == LOST
    assert stage.agent.open_runs == 0


async def take_over(stage: Stage) -> Run | None:
    """Another process becomes the owner, unless the run was renewed in this moment."""
    run = await stage.run()
    return replace(run, owner="other") if await stage.container.runs.take_over(run, "other", 60) else None


async def test_a_run_that_somebody_wanted_to_end_ends_as_cancelled(stage: Stage) -> None:
    async with stage.died(protocolVersion="1.0.0"):
        run = await stage.run()
        assert await stage.container.runs.want_cancel(await stage.principal(), run.space_id, run.session_id, "r1")
        async with stage.another() as other:
            events = await logged(other)
            (listed,) = await other.runs()
    assert events == [
        *TALK,
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {**FINISHED, "outcome": {"type": "cancelled"}},
    ]
    assert (listed["status"], listed["outcome"]) == ("interrupted", {"type": "cancelled"})


async def test_a_log_that_has_its_end_gets_no_second_one(stage: Stage) -> None:
    ended = {**FINISHED, "outcome": {"type": "success"}, "usage": [{"inputTokens": 3}]}
    async with stage.died():
        await stage.container.run_log.append(await stage.run(), len(TALK), [json.dumps(ended).encode()])
        async with stage.another() as other:
            assert await logged(other) == [*TALK, ended]
            (run,) = await other.runs()
            assert summary(await other.messages())[1] == row(
                "assistant", "One ", "complete", (("f", "", "", "complete"),)
            )
    assert (run["status"], run["outcome"], run["usage"]) == ("finished", {"type": "success"}, [{"inputTokens": 3}])


async def test_a_process_that_dies_while_it_ends_a_lost_run_leaves_it_to_the_next(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, is_at_the_end = RunWriter.finish, asyncio.Event()

    async def hang(self: RunWriter, *args: Any) -> None:
        is_at_the_end.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(RunWriter, "finish", hang)
    async with stage.died():
        opening = asyncio.create_task(open_and_close(stage, is_at_the_end))
        await is_at_the_end.wait()
        await opening
        monkeypatch.setattr(RunWriter, "finish", finish)
        assert (await stage.run()).is_open
        async with stage.another() as other:
            assert summary(await other.messages()) == KEPT
            assert await logged(other) == [*TALK, LOST]


async def open_and_close(stage: Stage, is_at_the_end: asyncio.Event) -> None:
    """A process that begins to end the lost run, and stops before it has."""
    runs = Runs(stage.container, Histories(stage.app), agents_of(ScriptedAgent()))
    await runs._leases.recover()
    await is_at_the_end.wait()
    await runs.close()


@pytest.mark.parametrize("where", ["read", "finish"])
async def test_a_store_that_is_down_is_waited_for(stage: Stage, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr("threadkeep.gateway.recovery._FIRST_RETRY", 0.001)
    owner: Any = RunWriter if where == "finish" else type(stage.container.run_log)
    call = getattr(owner, where)
    fails = iter([True] * 5)

    async def fail_five_times(self: Any, *args: Any, **options: Any) -> Any:
        if next(fails, False):
            raise Unavailable("The database gives no answer")
        return await call(self, *args, **options)

    async with stage.died():
        monkeypatch.setattr(owner, where, fail_five_times)
        async with stage.another() as other:
            assert next(fails, None) is None
            assert summary(await other.messages()) == KEPT
            assert await logged(other) == [*TALK, LOST]


async def test_a_history_that_cannot_be_brought_up_never_keeps_a_thread_closed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*args: Any) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr("threadkeep.gateway.recovery._FIRST_RETRY", 0.001)
    monkeypatch.setattr("threadkeep.gateway.recovery._bring_history_up", fail)
    async with stage.died(), stage.another({**FINISHED, "runId": "r2"}) as other:
        assert [frame.type for frame in await other.run(run="r2", text="and now?", user_id="u2")] == ["RUN_FINISHED"]
        assert [run["status"] for run in await other.runs()] == ["finished", "interrupted"]
        assert "no idea" in caplog.text


async def test_many_lost_runs_are_each_ended_once(stage: Stage) -> None:
    count = 12
    stage.agent = ScriptedAgent(TALK, then="hang")
    async with (
        serve(stage.container, stage.app, agents_of(stage.agent)) as gateway,
        open_client(gateway, stage.token) as client,
    ):
        for n in range(count):
            async with client.stream(thread=f"t{n}", run="r1") as stream:
                seen = b""
                while seen.count(b"\n\n") < len(TALK):
                    seen += await anext(stream)
        (owner,) = {await stage.container.runs.owner_of(await key_of(stage, n)) for n in range(count)}
        assert owner is not None
        await stage.container.runs.renew(owner, -1)
        async with stage.another() as other, stage.another() as third:
            for n in range(count):
                events = (await other.http.get(f"/agui/threads/t{n}/runs/r1/events/")).content
                assert [frame.json for frame in read_frames(events)] == [*TALK, LOST]
                assert summary(await third.messages(f"t{n}")) == KEPT


async def key_of(stage: Stage, number: int) -> RunKey:
    history = await Histories(stage.app).of(await stage.principal())
    session = await find_session(stage.container.sessions, history, f"t{number}")
    assert session is not None
    return RunKey(history.space_id, session.id, "r1")


CUT_OFF = [
    "019-chunk-stream-cut",
    "032-stream-ends-without-terminal",
    "038-disconnect-then-server-restart",
    "056-backend-tool-never-answered",
    "079-step-never-finished",
    "082-raw-and-custom-inside-message",
]


@pytest.mark.parametrize("name", CUT_OFF)
async def test_a_field_case_whose_process_is_killed_keeps_all_that_came_and_leaves_nothing_open(
    stage: Stage, name: str
) -> None:
    case = load_cases()[name]
    events = [event for event in case["input"]["events"] if event["type"] not in ("RUN_FINISHED", "RUN_ERROR")]
    stage.agent = ScriptedAgent([json.dumps(event).encode() for event in events], then="hang")
    async with serve(stage.container, stage.app, agents_of(stage.agent)) as gateway:
        async with open_client(gateway, stage.token) as client, client.stream(case["input"]["run_input"]) as stream:
            seen = b""
            while seen.count(b"\n\n") < len(events):
                seen += await anext(stream)
        # The client has gone, and then the process goes.
        await stage.container.runs.renew((await stage.run()).owner, -1)
        async with stage.another() as other:
            assert await logged(other) == [*events, LOST]
            messages = await other.messages()
    said = [message for message in messages if message["role"] == "assistant"]
    expected = [message for message in case["expect"]["messages"] if message["role"] == "assistant"]
    assert [message["content"] for message in said] == [message["content"] for message in expected]
    assert said[-1]["status"] == "interrupted"
    records = [record for message in messages for record in (message, *message["toolCalls"], *message["reasonings"])]
    assert {record["status"] for record in records} <= {"complete", "interrupted"}
    assert not any(record["inProgress"] for record in records)
