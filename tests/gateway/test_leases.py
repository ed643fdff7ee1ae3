"""Leases: kept while a run goes on, and what happens to runs whose process has gone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from starlette.applications import Starlette

from tests.gateway.stack import Client, Json, open_client, row, run_body, serve, summary
from threadkeep.api.app import create_app
from threadkeep.chat_history import (
    ChatCreate,
    MessageCreate,
    MessageReasoningCreate,
    MessageStatus,
    MessageToolCallCreate,
)
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.errors import Unavailable
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.histories import Histories
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.testing.agents import ScriptedAgent, Step

STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}
WHY = "The process that ran it has gone"


@pytest.fixture
async def principal(container: Container, token: str) -> Principal:
    return await container.tokens.authenticate(f"Bearer {token}", None)


async def leave_a_dead_run(container: Container, app: Starlette, principal: Principal, *, lease: int) -> UUID:
    """What a process leaves behind that was killed while its agent talked, thought and called a tool."""
    history = await Histories(app).of(principal)
    chat = await history.chats.create_chat(ChatCreate(user_uuid=history.user_uuid, thread_id="t1"))
    await container.runs.begin(
        principal, history.space_id, chat.id, run_id="r1", parent_run_id=None, owner="dead", lease_seconds=lease
    )
    await history.messages.create_message(
        MessageCreate(
            chat_uuid=chat.chat_uuid, role="user", content="hi", status="complete", in_progress=False, run_id="r1"
        )
    )
    message = await history.messages.create_message(
        MessageCreate(
            role="assistant",
            chat_uuid=chat.chat_uuid,
            content="One ",
            run_id="r1",
            in_progress=True,
            status=MessageStatus.ACTIVE,
        )
    )
    await history.messages.create_message_tool_call(
        MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1", name="f", arguments="{")
    )
    await history.messages.create_message_reasoning(
        MessageReasoningCreate(message_uuid=message.message_uuid, content="hm")
    )
    return chat.chat_uuid


INTERRUPTED = [
    row("user", "hi"),
    row("assistant", "One ", "interrupted", (("f", "{", "", "interrupted"),), (("hm", "interrupted"),)),
]


async def test_a_run_whose_lease_has_run_out_is_ended_when_a_gateway_opens(
    container: Container, app: Starlette, token: str, principal: Principal
) -> None:
    await leave_a_dead_run(container, app, principal, lease=-1)
    async with (
        serve(container, app, agents_of(ScriptedAgent([FINISHED]))) as gateway,
        open_client(gateway, token) as alice,
    ):
        assert summary(await alice.messages()) == INTERRUPTED
        assert (await alice.messages())[1]["error"] == WHY
        (run,) = await alice.runs()
        assert (run["status"], run["error"], run["outcome"]) == ("interrupted", WHY, None)
        assert run["finishedAt"] is not None
        assert (await alice.get("/threads/t1/"))["activeRunId"] is None


async def test_a_run_that_dies_beside_an_open_gateway_is_ended_before_the_next_one_begins(
    container: Container, app: Starlette, token: str, principal: Principal
) -> None:
    agent = ScriptedAgent([{**FINISHED, "runId": "r2"}])
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        await leave_a_dead_run(container, app, principal, lease=-1)
        await alice.run(run="r2", text="and now?", user_id="u2")
        assert summary(await alice.messages()) == [*INTERRUPTED, row("user", "and now?")]
        assert [run["status"] for run in await alice.runs()] == ["finished", "interrupted"]
    assert [message.role for message in agent.inputs[0].messages] == ["user", "assistant", "tool", "user"]


async def test_a_run_of_another_process_is_left_alone_while_its_lease_holds(
    container: Container, app: Starlette, token: str, principal: Principal
) -> None:
    await leave_a_dead_run(container, app, principal, lease=3_600)
    async with (
        serve(container, app, agents_of(ScriptedAgent([FINISHED]))) as gateway,
        open_client(gateway, token) as alice,
    ):
        refused = await alice.http.post("/agui/", json=run_body(run="r2"))
        assert (refused.status_code, refused.json()["activeRunId"]) == (409, "r1")
        assert summary(await alice.messages())[1]["status"] == "active"


async def test_a_dead_run_of_a_deleted_thread_is_ended_too(
    container: Container, app: Starlette, token: str, principal: Principal
) -> None:
    chat_uuid = await leave_a_dead_run(container, app, principal, lease=-1)
    await (await Histories(app).of(principal)).chats.delete_chat(chat_uuid)
    async with serve(container, app, agents_of(ScriptedAgent([FINISHED]))):
        assert await container.runs.expired() == []


async def test_a_process_that_was_asleep_does_not_end_its_own_runs(
    container: Container, app: Starlette, token: str, principal: Principal
) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([STARTED, gate, FINISHED])
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        async with alice.stream() as stream:
            await anext(stream)
            await container.runs.renew((await run_row(container, app, principal)).owner, -1)
            async with alice.stream(thread="t2", run="r2") as other:
                await anext(other)
                gate.set()
                assert b"RUN_FINISHED" in b"".join([chunk async for chunk in stream])
        assert [run["status"] for run in await alice.runs()] == ["finished"]


@pytest.fixture
async def brief(database: str) -> AsyncIterator[Container]:
    """Services with the shortest lease."""
    opened = await Container.open(Settings(database=database, run_lease=1))
    yield opened
    await opened.close()


async def test_a_lease_is_renewed_while_its_run_goes_on(brief: Container) -> None:
    _, token = await brief.tokens.create(user="alice", name="test")
    principal = await brief.tokens.authenticate(f"Bearer {token}", None)
    app = create_app(brief)
    gate = asyncio.Event()
    agent = ScriptedAgent([STARTED, gate, FINISHED])
    async with serve(brief, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        async with alice.stream() as stream:
            await anext(stream)
            first = await run_row(brief, app, principal)
            async with asyncio.timeout(30):
                while (await run_row(brief, app, principal)).lease_until == first.lease_until:
                    pass
            gate.set()
            assert b"RUN_FINISHED" in b"".join([chunk async for chunk in stream])
        assert [run["status"] for run in await alice.runs()] == ["finished"]


async def run_row(container: Container, app: Starlette, principal: Principal) -> Run:
    history = await Histories(app).of(principal)
    chat = await history.chats.get_chat_by_thread_id(history.user_uuid, "t1")
    assert chat is not None
    (run,) = await container.runs.page(principal, history.space_id, chat.id)
    return run


async def test_a_store_that_fails_at_the_end_delays_the_last_event_but_not_for_ever(
    container: Container, app: Starlette, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = container.runs.finish
    recovered = asyncio.Event()
    attempts: list[Run] = []

    async def fail_until_recovered(run: Run, **result: Any) -> bool:
        attempts.append(run)
        if not recovered.is_set():
            raise Unavailable("The database gives no answer")
        return await finish(run, **result)

    monkeypatch.setattr(type(container.runs), "finish", staticmethod(fail_until_recovered))
    monkeypatch.setattr("threadkeep.chat_history.logged_stream.SETTLE_SECONDS", 0.01)
    monkeypatch.setattr("threadkeep.chat_history.logged_stream._FIRST_RETRY", 0.001)
    async with (
        serve(container, app, agents_of(ScriptedAgent([STARTED, FINISHED]))) as gateway,
        open_client(gateway, token) as alice,
    ):
        assert [frame.type for frame in await alice.run()] == ["RUN_STARTED", "RUN_FINISHED"]
        assert (await alice.runs())[0]["status"] == "active"
        recovered.set()
        await until_finished(alice)
    assert len(attempts) > 1


async def test_what_an_agent_said_of_its_end_never_keeps_a_run_from_ending(
    container: Container, app: Starlette, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = container.runs.finish

    async def refuse_outcomes(run: Run, **result: Any) -> bool:
        if result.get("outcome") is not None:
            raise TypeError("no JSON")
        return await finish(run, **result)

    monkeypatch.setattr(type(container.runs), "finish", staticmethod(refuse_outcomes))
    monkeypatch.setattr("threadkeep.chat_history.logged_stream._FIRST_RETRY", 0.001)
    agent = ScriptedAgent([STARTED, {**FINISHED, "outcome": {"type": "success"}}])
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        await alice.run()
        (run,) = await alice.runs()
    assert (run["status"], run["outcome"]) == ("finished", None)


async def until_finished(client: Client) -> Json:
    async with asyncio.timeout(30):
        while (run := (await client.runs())[0])["status"] == "active":
            pass
    return run


async def test_open_streams_hold_no_connection_of_the_database(database: str) -> None:
    container = await Container.open(Settings(database=database, database_connections=1))
    _, token = await container.tokens.create(user="alice", name="test")
    gate = asyncio.Event()
    events: list[Step] = [STARTED, gate, FINISHED]
    app = create_app(container)

    async def stay(client: Client, number: int) -> None:
        async with client.stream(thread=f"t{number}", run=f"r{number}") as stream:
            await anext(stream)
            opened.release()
            async for _ in stream:
                pass

    opened = asyncio.Semaphore(0)
    async with (
        serve(container, app, agents_of(ScriptedAgent(events))) as gateway,
        open_client(gateway, token) as alice,
        asyncio.TaskGroup() as group,
    ):
        for number in range(20):
            group.create_task(stay(alice, number))
        for _ in range(20):
            await opened.acquire()
        listed = (await alice.get("/threads/"))["items"]
        assert sorted(thread["activeRunId"] for thread in listed) == sorted(f"r{n}" for n in range(20))
        gate.set()
    await container.close()
