"""Runs that one process carries out and others follow and cancel: with Valkey, and with nothing but the database."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from tests.gateway.fleet import Station, fleet
from tests.gateway.following import FINISHED, HALF, STARTED, WHOLE, cut, follow, read, rest, say, until
from tests.gateway.stack import Client, read_frames, row, run_body, summary
from threadkeep.api.app import create_app
from threadkeep.chat_history import ChatCreate
from threadkeep.gateway.histories import Histories
from threadkeep.testing.agents import ScriptedAgent, Step
from threadkeep.testing.valkey import ValkeyProcess


@pytest.fixture(params=["with Valkey", "database alone"])
def bus(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of the way in which processes wake each other."""
    return {"valkey": request.getfixturevalue("valkey_url")} if request.param == "with Valkey" else {}


async def test_a_run_is_followed_from_another_process_byte_for_byte(database: str, bus: dict[str, Any]) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*WHOLE[:3], gate, *WHOLE[3:]])
    async with fleet(database, agent, **bus) as (one, two):
        async with one.alice.stream() as stream:
            seen = await until(stream, b"All of it")
            async with follow(two.alice) as elsewhere, follow(two.alice, "r1:1") as later:
                assert await until(elsewhere, b"All of it") == seen
                gate.set()
                whole = seen + await rest(stream)
                assert seen + await rest(elsewhere) == whole
                assert await rest(later) == b"".join(cut(whole)[2:])
        for after in range(4):
            assert await read(two.alice, after=f"r1:{after}") == b"".join(cut(whole)[after + 1 :])


@pytest.mark.parametrize(
    ("version", "ending"),
    [
        ({"protocolVersion": "1.0"}, {**FINISHED, "outcome": {"type": "cancelled"}}),
        ({}, FINISHED),
    ],
    ids=["1.0", "0.x"],
)
async def test_a_cancel_from_another_process_stops_the_agent_and_ends_all_readers(
    database: str, bus: dict[str, Any], version: dict[str, str], ending: dict[str, Any]
) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with fleet(database, agent, **bus) as (one, two):
        async with one.alice.stream(**version) as stream, follow_when_there(two.alice) as elsewhere:
            seen = await until(stream, b"One, two")
            assert agent.open_runs == 1
            assert await two.alice.cancel() is True
            assert agent.open_runs == 0
            seen += await rest(stream)
            assert await rest(elsewhere) == seen
        assert [frame.json for frame in read_frames(seen)][3:] == [say("")[2], ending]
        for station in (one, two):
            assert summary(await station.alice.messages())[1] == row("assistant", "One, two", "interrupted")
            assert await station.alice.cancel() is False
        (run,) = await two.alice.runs()
        assert (run["status"], run["outcome"], run["error"]) == ("interrupted", {"type": "cancelled"}, None)


@asynccontextmanager
async def follow_when_there(client: Client) -> AsyncIterator[AsyncIterator[bytes]]:
    """The bytes of a run that may not have begun yet."""
    async with asyncio.timeout(20):
        while await active_run(client) is None:
            pass
    async with follow(client) as stream:
        yield stream


async def active_run(client: Client, thread: str = "t1") -> str | None:
    answer = await client.http.get(f"/agui/threads/{quote(thread)}/")
    return str(found) if answer.is_success and (found := answer.json()["activeRunId"]) else None


async def test_a_thread_that_is_deleted_in_another_process_stops_its_run(database: str, bus: dict[str, Any]) -> None:
    """Field case 098."""
    agent = ScriptedAgent(HALF, then="hang")
    async with fleet(database, agent, **bus) as (one, two):
        async with one.alice.stream() as stream:
            await until(stream, b"One, two")
            assert (await two.alice.http.delete("/agui/threads/t1/")).status_code == 204
            assert agent.open_runs == 0
            assert read_frames(await rest(stream))[-1].type == "RUN_FINISHED"
        assert (await one.alice.http.get("/agui/threads/t1/messages/")).status_code == 404


async def test_a_second_run_in_another_process_is_refused_and_names_the_first(database: str) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with fleet(database, agent) as (one, two), one.alice.stream() as stream:
        await until(stream, b"One, two")
        refused = await two.alice.http.post("/agui/", json=run_body(run="r2"))
        assert (refused.status_code, refused.json()["activeRunId"]) == (409, "r1")
        await one.alice.cancel()


async def test_the_same_run_asked_for_in_another_process_is_joined(database: str, bus: dict[str, Any]) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([*WHOLE[:3], gate, *WHOLE[3:]])
    async with fleet(database, agent, **bus) as (one, two), one.alice.stream() as first:
        seen = await until(first, b"All of it")
        async with two.alice.stream() as second:
            assert await until(second, b"All of it") == seen
            gate.set()
            assert await rest(second) == await rest(first)
        assert len(agent.inputs) == 1


async def test_readers_go_on_when_valkey_is_killed_and_when_it_is_back(
    database: str, valkey_process: ValkeyProcess
) -> None:
    """Pitfall 7: nothing that counts is in Valkey."""
    gates = [asyncio.Event() for _ in range(3)]
    agent = ScriptedAgent([STARTED, gates[0], *say("a", "m1"), gates[1], *say("b", "m2"), gates[2], FINISHED])
    async with fleet(database, agent, valkey=valkey_process.url) as (one, two), one.alice.stream() as stream:
        whole = await until(stream, b"RUN_STARTED")
        async with follow(two.alice) as elsewhere:
            seen = await until(elsewhere, b"RUN_STARTED")
            valkey_process.kill()
            gates[0].set()
            seen += await until(elsewhere, b"id: r1:3")
            await asyncio.to_thread(valkey_process.restart)
            gates[1].set()
            seen += await until(elsewhere, b"id: r1:6")
            gates[2].set()
            seen += await rest(elsewhere)
        whole += await rest(stream)
        assert seen == whole


async def leave_a_dead_run(station: Station, *, lease: int) -> None:
    """What a process leaves behind that was killed when its agent had begun to talk."""
    secret = station.alice.http.headers["Authorization"]
    principal = await station.container.tokens.authenticate(secret, None)
    history = await Histories(create_app(station.container)).of(principal)
    chat = await history.chats.create_chat(ChatCreate(user_uuid=history.user_uuid, thread_id="t1"))
    row = await station.container.runs.begin(
        principal,
        history.space_id,
        chat.id,
        run_id="r1",
        parent_run_id=None,
        owner="dead",
        lease_seconds=lease,
        input=json.dumps(run_body(protocolVersion="1.0")),
    )
    await station.container.run_log.append(row, 0, [json.dumps(event).encode() for event in HALF])


async def test_a_run_whose_process_is_dead_is_cancelled_at_once_by_whoever_is_asked(database: str) -> None:
    async with fleet(database, ScriptedAgent(WHOLE), count=1) as (one,):
        await leave_a_dead_run(one, lease=-1)
        async with follow(one.alice) as stream:
            assert await one.alice.cancel() is True
            frames = read_frames(await rest(stream))
        assert [frame.json for frame in frames] == [
            *HALF,
            say("")[2],
            {**FINISHED, "outcome": {"type": "cancelled"}},
        ]
        (run,) = await one.alice.runs()
        assert (run["status"], run["outcome"]) == ("interrupted", {"type": "cancelled"})
        assert await one.alice.cancel() is False


async def test_a_reader_of_a_run_whose_process_died_ends_with_a_terminal_event(database: str) -> None:
    """Pitfall 8."""
    async with fleet(database, ScriptedAgent(WHOLE), count=1, run_lease=1) as (one,):
        await leave_a_dead_run(one, lease=0)
        async with follow(one.alice) as stream:
            frames = read_frames(await rest(stream))
        assert [frame.json for frame in frames[:3]] == HALF
        assert [frame.type for frame in frames[3:]] == ["RUN_ERROR"]
        assert [frame.id for frame in frames] == [f"r1:{n}" for n in range(4)]


async def test_a_cancel_that_comes_when_the_run_has_its_end_cancels_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 088, from another process."""
    gate = asyncio.Event()
    async with fleet(database, ScriptedAgent([*WHOLE[:-1], gate, WHOLE[-1]])) as (one, two):
        finish, at_end, asked = type(one.container.runs).finish, asyncio.Event(), asyncio.Event()

        async def finish_when_asked(self: Any, *args: Any, **fields: Any) -> bool:
            at_end.set()
            await asked.wait()
            return await finish(self, *args, **fields)

        want_cancel = type(two.container.runs).want_cancel

        async def ask(self: Any, *args: Any) -> bool:
            wanted = await want_cancel(self, *args)
            asked.set()
            return wanted

        monkeypatch.setattr(type(one.container.runs), "finish", finish_when_asked)
        monkeypatch.setattr(type(two.container.runs), "want_cancel", ask)
        async with one.alice.stream() as stream:
            await until(stream, b"TEXT_MESSAGE_END")
            gate.set()
            await at_end.wait()
            assert await two.alice.cancel() is False
            assert read_frames(await rest(stream))[-1].json == FINISHED
        assert [run["status"] for run in await two.alice.runs()] == ["finished"]


async def test_many_runs_are_cancelled_from_elsewhere_at_once(database: str, bus: dict[str, Any]) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with fleet(database, agent, **bus) as (one, two):

        async def carry(number: int) -> bytes:
            async with one.alice.stream(thread=f"t{number}", run=f"r{number}") as stream:
                seen = await until(stream, b"One, two")
                assert await two.alice.cancel(f"t{number}", f"r{number}") is True
                return seen + await rest(stream)

        streams = await asyncio.gather(*(carry(number) for number in range(20)))
        assert [read_frames(stream)[-1].type for stream in streams] == ["RUN_FINISHED"] * 20
        assert agent.open_runs == 0


async def test_two_runs_at_once_on_two_threads_keep_apart(database: str) -> None:
    """Field case 040, where the gateway lets both run: on threads of their own."""
    steps: list[Step] = [STARTED, *say("A1A2"), FINISHED]
    async with fleet(database, ScriptedAgent(steps)) as (one, two):
        await asyncio.gather(one.alice.run(thread="a", run="ra"), two.alice.run(thread="b", run="rb"))
        for thread in ("a", "b"):
            assert [message["content"] for message in await two.alice.messages(thread)] == ["hi", "A1A2"]
