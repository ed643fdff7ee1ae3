"""The database has done what it was asked and its answer is lost: nothing is left behind that nobody carries out."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.gateway.fleet import fleet
from tests.gateway.following import FINISHED, HALF, WHOLE, read, rest, until
from tests.gateway.stack import open_client, read_frames, run_body, serve
from tests.gateway.test_leases import leave_a_dead_run
from tests.gateway.test_policies import Turns, body, statuses, until_in_line
from tests.services.run_stage import lose_answer
from threadkeep.domain.run import Run
from threadkeep.errors import Unavailable
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.services.runs import Runs
from threadkeep.testing.agents import ScriptedAgent

HI = run_body(run="r1", text="hi", user_id="u1")
NEXT = run_body(run="r2", text="and now?", user_id="u2")


async def test_a_run_that_began_unheard_is_carried_out_when_it_is_asked_for_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ScriptedAgent(WHOLE)
    lose_answer(monkeypatch, "begin")
    async with fleet(database, agent, count=1) as (one,):
        assert (await one.alice.http.post("/agui/", json=HI)).status_code == 503
        assert await statuses(one.alice) == {"r1": "active"}
        other = await one.alice.http.post("/agui/", json=run_body(run="r1", text="something else", user_id="u1"))
        assert other.status_code == 409
        assert "began with another input" in other.json()["detail"]
        assert agent.inputs == []
        async with asyncio.timeout(60):
            both = await asyncio.gather(one.alice.run(HI), one.alice.run(HI))
        assert [frames[-1].type for frames in both] == ["RUN_FINISHED", "RUN_FINISHED"]
        assert len(agent.inputs) == 1
        assert await statuses(one.alice) == {"r1": "finished"}


@pytest.mark.parametrize("is_busy", [False, True], ids=["alone", "beside another run"])
async def test_a_run_that_began_unheard_does_not_keep_its_thread_busy(
    database: str, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    agent = ScriptedAgent(HALF, then="hang")
    async with fleet(database, agent, count=1, run_lease=1) as (one,):
        async with one.alice.stream(run_body(thread="t2", run="other")) as other:
            await until(other, b"One, two")
            if not is_busy:
                assert await one.alice.cancel(thread="t2", run="other")
                await rest(other)
            lose_answer(monkeypatch, "begin")
            assert (await one.alice.http.post("/agui/", json=HI)).status_code == 503
            agent.events, agent.then = [{**FINISHED, "runId": "r2"}], None
            # The number is there so that a loss of the feature ends the test.
            async with asyncio.timeout(60):
                (last,) = read_frames(await read(one.alice, run="r1"))
            assert (last.type, last.json["message"]) == ("RUN_ERROR", "The process that ran it has gone")
            assert (await one.alice.run(NEXT))[-1].type == "RUN_FINISHED"
        assert await statuses(one.alice) == {"r1": "interrupted", "r2": "finished"}


async def test_a_run_in_line_whose_turn_came_unheard_begins_all_the_same(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Turns()
    agent.open("r2")
    lost = lose_answer(monkeypatch, "promote")
    async with fleet(database, agent, count=1, run_policy="enqueue") as (one,):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            second = asyncio.create_task(one.alice.run(body("r2")))
            await until_in_line(one.alice, "r2")
            agent.open("r1")
            await rest(first)
        async with asyncio.timeout(60):
            assert (await second)[-1].type == "RUN_FINISHED"
        assert lost == [True]
        assert await statuses(one.alice) == {"r1": "finished", "r2": "finished"}


async def test_a_lost_run_that_was_taken_over_unheard_is_ended_all_the_same(
    container: Container, app: Starlette, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    principal = await container.tokens.authenticate(f"Bearer {token}", None)
    await leave_a_dead_run(container, app, principal, lease=-1)
    lost = lose_answer(monkeypatch, "take_over")
    quick = replace(container, settings=replace(container.settings, run_lease=1))
    agent = ScriptedAgent([{**FINISHED, "runId": "r2"}])
    async with serve(quick, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        assert lost == [True]
        async with asyncio.timeout(60):
            assert read_frames(await read(alice, run="r1"))[-1].type == "RUN_ERROR"
        assert (await alice.run(NEXT))[-1].type == "RUN_FINISHED"
        assert await statuses(alice) == {"r1": "interrupted", "r2": "finished"}


async def test_a_run_in_line_that_was_taken_over_unheard_does_not_stop_the_line(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Turns()
    agent.open("r2", "r3")
    async with fleet(database, agent, keepalive_seconds=0.01, run_lease=1, run_policy="enqueue") as (one, two):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            async with two.alice.stream(body("r2")) as second:
                await anext(second)
            lost = lose_answer(monkeypatch, "take_over")
            await two.leave()
            third = asyncio.create_task(one.alice.run(body("r3")))
            await until_in_line(one.alice, "r2", "r3")
            async with asyncio.timeout(20):
                while not lost:
                    await statuses(one.alice)
            agent.open("r1")
            await rest(first)
            async with asyncio.timeout(60):
                assert (await third)[-1].type == "RUN_FINISHED"
        assert agent.order == ["r1", "r2", "r3"]


async def test_a_run_that_is_being_ended_as_lost_is_not_carried_out_any_more(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ScriptedAgent(WHOLE)
    ending, gate, looked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def bring_up_slowly(*_: Any) -> None:
        ending.set()
        await gate.wait()

    get = Runs.get

    async def tell(*given: Any) -> Run:
        found = await get(*given)
        looked.set()
        return found

    async def carry_out(*_: Any) -> None:
        raise AssertionError("it is carried out")

    async with fleet(database, agent, count=1, run_lease=1) as (one,):
        monkeypatch.setattr("threadkeep.gateway.recovery._bring_history_up", bring_up_slowly)
        with monkeypatch.context() as unheard:
            lose_answer(unheard, "begin")
            assert (await one.alice.http.post("/agui/", json=HI)).status_code == 503
        async with asyncio.timeout(60):
            await ending.wait()
            monkeypatch.setattr(Runs, "get", tell)
            monkeypatch.setattr("threadkeep.gateway.local_runs.LocalRuns.carry_out", carry_out)
            again = asyncio.create_task(one.alice.run(HI))
            await looked.wait()
            gate.set()
            assert [frame.type for frame in await again] == ["RUN_ERROR"]
        assert agent.inputs == []


def refuse_the_end_of(monkeypatch: pytest.MonkeyPatch, run_id: str) -> asyncio.Event:
    """The store is down where a run is to end. Set when that was tried."""
    finish, tried = Runs.finish, asyncio.Event()

    async def refuse(self: Runs, run: Run, **ending: Any) -> bool:
        if run.run_id != run_id:
            return await finish(self, run, **ending)
        tried.set()
        raise Unavailable("The database gives no answer")

    monkeypatch.setattr(Runs, "finish", refuse)
    return tried


async def test_a_run_that_can_neither_begin_nor_end_holds_nobody_up(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Turns()
    agent.open("r3")

    async def fail(*_: Any) -> None:
        raise RuntimeError("no room")

    async with fleet(database, agent, count=1, run_lease=1, run_policy="enqueue") as (one,):
        async with one.alice.stream(body("r1")) as first:
            await until(first, b"I am r1")
            with monkeypatch.context() as broken:
                broken.setattr("threadkeep.gateway.local_runs.LocalRuns.carry_out", fail)
                second = asyncio.create_task(one.alice.run(body("r2")))
                await until_in_line(one.alice, "r2")
                tried = refuse_the_end_of(broken, "r2")
                agent.open("r1")
                await rest(first)
                await asyncio.wait_for(tried.wait(), 60)
            async with asyncio.timeout(60):
                assert (await second)[-1].type == "RUN_ERROR"
                assert (await one.alice.run(body("r3")))[-1].type == "RUN_FINISHED"
        assert await statuses(one.alice) == {"r1": "finished", "r2": "interrupted", "r3": "finished"}
