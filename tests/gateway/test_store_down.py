"""A database that gives no answer while a run goes on, and comes back."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.chat_history.cases import load_cases, pick
from tests.gateway.fleet import fleet
from tests.gateway.following import WHOLE, cut, follow, read, rest, until
from tests.gateway.stack import Client, open_client, read_frames, serve
from tests.gateway.test_field_cases import history
from threadkeep.errors import Unavailable
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent

CASE = load_cases()["070-store-down-during-run"]
WANTED = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello", "status": "complete"}]


class Outage:
    """The database of a container, away whenever a test says so. `refused` counts the calls that failed."""

    def __init__(self, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = False
        self.refused = 0
        for name in ("read", "scan", "write", "note", "append"):
            monkeypatch.setattr(container.database, name, self._verb(getattr(container.database, name)))

    def _verb(self, verb: Any) -> Any:
        async def call(wish: Any) -> Any:
            if self.is_away:
                self.refused += 1
                raise Unavailable("The database gives no answer")
            return await verb(wish)

        return call


async def until_it_is_stored(client: Client) -> None:
    async with asyncio.timeout(20):
        while (await client.get("/threads/t1/"))["activeRunId"] is not None:
            pass


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent()


@pytest.fixture
async def alice(container: Container, app: Starlette, token: str, agent: ScriptedAgent) -> AsyncIterator[Client]:
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as client:
        yield client


@pytest.fixture
def outage(container: Container, alice: Client, monkeypatch: pytest.MonkeyPatch) -> Outage:
    monkeypatch.setattr("threadkeep.chat_history.logged_stream.SETTLE_SECONDS", 0.5)
    return Outage(container, monkeypatch)


async def test_a_store_that_goes_down_in_mid_run_holds_no_event_back_and_loses_none(
    alice: Client, agent: ScriptedAgent, outage: Outage
) -> None:
    """Field case 070: the client gets all of it; the log and the history have all of it when the store is back."""
    events = [json.dumps(event).encode() for event in CASE["input"]["events"]]
    gate = asyncio.Event()
    agent.events = [events[0], gate, *events[1:]]
    async with alice.stream(CASE["input"]["run_input"]) as stream:
        seen = await until(stream, b"RUN_STARTED")
        outage.is_away = True
        gate.set()
        seen += await rest(stream)
    frames = read_frames(seen)
    assert [frame.data for frame in frames] == events
    # Nobody can resume after what is not in the log.
    assert [frame.id for frame in frames] == ["r1:0", "", "", "", ""]
    assert outage.refused > 0

    outage.is_away = False
    await until_it_is_stored(alice)
    whole = read_frames(await read(alice))
    assert [frame.data for frame in whole] == events
    assert [frame.id for frame in whole] == [f"r1:{n}" for n in range(5)]
    assert pick(await history(alice, CASE), WANTED) == WANTED
    assert [run["status"] for run in await alice.runs()] == ["finished"]
    assert read_frames(await read(alice, after="r1:0")) == whole[1:]


async def test_a_reader_cut_while_the_store_is_down_resumes_without_a_gap(
    alice: Client, agent: ScriptedAgent, outage: Outage
) -> None:
    events = [json.dumps(event).encode() for event in CASE["input"]["events"]]
    gates = [asyncio.Event(), asyncio.Event()]
    agent.events = [*events[:2], gates[0], events[2], gates[1], *events[3:]]
    async with alice.stream(CASE["input"]["run_input"]) as stream:
        seen = await until(stream, b"TEXT_MESSAGE_START")
        outage.is_away = True
        gates[0].set()
        seen += await until(stream, b"Hello")
    last = read_frames(seen)[1].id
    assert (last, read_frames(seen)[2].id) == ("r1:1", "")
    outage.is_away = False
    async with follow(alice, last) as again:
        gates[1].set()
        rest_of_it = await rest(again)
    assert [frame.data for frame in read_frames(b"".join(cut(seen)[:2]) + rest_of_it)] == events


async def test_a_store_that_is_down_at_the_start_refuses_the_run_before_the_agent_is_asked(
    alice: Client, agent: ScriptedAgent, outage: Outage
) -> None:
    agent.events = [json.dumps(event).encode() for event in CASE["input"]["events"]]
    await alice.get("/threads/")
    outage.is_away = True
    refused = await alice.http.post("/agui/", json=CASE["input"]["run_input"])
    assert refused.status_code == 503
    assert agent.inputs == []
    outage.is_away = False
    await alice.run(CASE["input"]["run_input"])
    assert pick(await history(alice, CASE), WANTED) == WANTED


async def test_a_run_is_cancelled_at_once_though_the_store_is_down(
    alice: Client, agent: ScriptedAgent, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago the token was looked up."""
    monkeypatch.setattr("threadkeep.services.tokens._CACHE_US", -1)
    events = [json.dumps(event).encode() for event in CASE["input"]["events"]]
    agent.events, agent.then = events[:3], "hang"
    async with alice.stream(CASE["input"]["run_input"]) as stream:
        seen = await until(stream, b"Hello")
        outage.is_away = True
        assert await alice.cancel() is True
        assert agent.open_runs == 0
        seen += await rest(stream)
    assert [frame.type for frame in read_frames(seen)][3:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    outage.is_away = False
    await until_it_is_stored(alice)
    whole = read_frames(await read(alice))
    assert [frame.data for frame in whole] == [frame.data for frame in read_frames(seen)]
    assert [frame.id for frame in whole] == [f"r1:{n}" for n in range(5)]
    assert [run["outcome"] for run in await alice.runs()] == [{"type": "cancelled"}]


async def test_a_reader_in_another_process_goes_on_when_its_store_is_back(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.services.run_following._FIRST_RETRY", 0.001)
    gate = asyncio.Event()
    agent = ScriptedAgent([*WHOLE[:2], gate, *WHOLE[2:]])
    async with fleet(database, agent) as (one, two), one.alice.stream() as stream:
        whole = await until(stream, b"TEXT_MESSAGE_START")
        outage = Outage(two.container, monkeypatch)
        async with follow(two.alice) as elsewhere:
            seen = await until(elsewhere, b"TEXT_MESSAGE_START")
            outage.is_away = True
            gate.set()
            whole += await rest(stream)
            while outage.refused < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
            outage.is_away = False
            assert seen + await rest(elsewhere) == whole
