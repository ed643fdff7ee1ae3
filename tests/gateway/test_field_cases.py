"""Every field case of the AG-UI layer through the gateway, as raw JSON, on both engines."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from tests.chat_history.cases import load_cases, pick
from tests.chat_history.conformance import errors_of
from tests.chat_history.test_cases import OUR_READING
from tests.gateway.stack import Client, Json, open_client, read_frames, serve
from threadkeep.gateway.agents import agents_of
from threadkeep.services.container import Container
from threadkeep.testing.agents import ScriptedAgent

CASES = load_cases()
TERMINALS = {"RUN_FINISHED", "RUN_ERROR"}
# A process that is killed is in `test_leases.py`, a store that is down in `test_store_down.py`.
ELSEWHERE = {"038-disconnect-then-server-restart", "070-store-down-during-run"}
DELETED = "098-message-deleted-chat-while-running"
NAMES = [name for name in CASES if name not in {*ELSEWHERE, DELETED}]


def raw(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event).encode()


class House:
    """The gateway before an agent that plays one script after the other."""

    def __init__(self, agent: ScriptedAgent, alice: Client) -> None:
        self.agent = agent
        self.alice = alice

    def play(self, events: list[Any], then: Exception | str | None = None) -> None:
        self.agent.events = [event if isinstance(event, asyncio.Event) else raw(event) for event in events]
        self.agent.then = then


@asynccontextmanager
async def house(container: Container, app: Starlette, token: str) -> AsyncIterator[House]:
    agent = ScriptedAgent()
    async with serve(container, app, agents_of(agent)) as gateway, open_client(gateway, token) as alice:
        yield House(agent, alice)


def history_of(messages: list[Json]) -> list[Json]:
    """The answer of the messages route in the shape that cases speak of."""
    return [
        {
            "role": message["role"],
            "content": json.loads(message["content"])
            if message["role"] == "activity"
            else message.get("parts") or message["content"],
            "activity_type": message.get("activityType"),
            "status": message["status"],
            "name": message["name"],
            "step": message["step"],
            "tool_calls": [
                {
                    "id": call["aguiId"],
                    "name": call["name"],
                    "arguments": call["arguments"],
                    "content": call["content"],
                    "status": call["status"],
                    "error": call["error"],
                }
                for call in message["toolCalls"]
            ],
            "reasonings": [
                {
                    "content": step["content"],
                    "status": step["status"],
                    "encrypted_value": step.get("encryptedValue"),
                }
                for step in message["reasonings"]
            ],
        }
        for message in messages
    ]


async def history(alice: Client, case: Json) -> list[Json]:
    thread = quote(case["input"]["run_input"]["threadId"], safe="")
    # Of all branches: what a user has replaced is kept.
    return history_of((await alice.get(f"/threads/{thread}/messages/", all="true"))["items"])


async def run(alice: Client, run_input: Json) -> list[bytes]:
    """The events of a run, which are in its log for those who come later."""
    frames = await alice.run(run_input)
    ids = (quote(run_input[name], safe="") for name in ("threadId", "runId"))
    logged = await alice.http.get("/agui/threads/{}/runs/{}/events/".format(*ids))
    assert read_frames(logged.content) == frames
    return [frame.data for frame in frames]


async def run_and_cancel(alice: Client, run_input: Json, count: int) -> list[bytes]:
    stream = b""
    async with alice.stream(run_input) as chunks:
        while stream.count(b"\n\n") < count:
            stream += await anext(chunks)
        assert await alice.cancel(quote(run_input["threadId"], safe=""), run_input["runId"])
        async for chunk in chunks:
            stream += chunk
    ids = (quote(run_input[name], safe="") for name in ("threadId", "runId"))
    logged = await alice.http.get("/agui/threads/{}/runs/{}/events/".format(*ids))
    assert logged.content == stream
    return [frame.data for frame in read_frames(stream)]


async def run_and_leave(alice: Client, run_input: Json, count: int) -> None:
    async with alice.stream(run_input) as chunks:
        stream = b""
        while stream.count(b"\n\n") < count:
            stream += await anext(chunks)


async def play(case: Json, place: House) -> list[tuple[list[Any], list[bytes]]]:
    """Play a case to its end; each run with the events that its agent sent and those that its client got."""
    given, then = case["input"], case["input"].get("then")
    events, run_input, alice = given["events"], given["run_input"], place.alice
    second = then.get("second_run", {}) if isinstance(then, dict) else {}
    place.play(events)
    if then == "crash":
        place.play(events, RuntimeError("the process died"))
    if then == "cancel" or (isinstance(then, dict) and then.get("cancel")):
        place.play(events, "hang")
        runs = [(events, await run_and_cancel(alice, run_input, len(events)))]
    elif isinstance(then, dict) and "disconnect" in then:
        gate = asyncio.Event()
        place.play([*events[:3], gate, *events[3:]])
        await run_and_leave(alice, run_input, then["disconnect"]["after"] + 1)
        gate.set()
        await until_nothing_runs(place)
        runs = []
    else:
        runs = [(events, await run(alice, run_input))]
    if then == "cancel after the terminal event":
        assert not await alice.cancel()
    if "after_first" in (then if isinstance(then, dict) else {}):
        assert pick(await history(alice, case), then["after_first"]) == then["after_first"]
    if second:
        place.play(second["events"])
        runs.append((second["events"], await run(alice, second["run_input"])))
    return runs


async def until_nothing_runs(place: House) -> None:
    async with asyncio.timeout(20):
        while (await place.alice.get("/threads/t1/"))["activeRunId"] is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize("name", NAMES)
async def test_a_field_case_leaves_the_history_that_a_user_wants(
    container: Container, app: Starlette, token: str, name: str
) -> None:
    case = CASES[name]
    async with house(container, app, token) as place:
        runs = await play(case, place)
        expected = OUR_READING.get(name, lambda same: same)(case["expect"]["messages"])
        actual = await history(place.alice, case)
    assert pick(actual, expected) == expected
    for sent, received in runs:
        assert received[: len(sent)] == [raw(event) for event in sent]
        added = [json.loads(data)["type"] for data in received[len(sent) :]]
        ended_by_itself = bool(sent) and sent[-1]["type"] in TERMINALS
        assert [kind for kind in added if kind in TERMINALS] == added[-1:]
        assert bool(added) is not ended_by_itself
        # An independent judge finds no fault that the agent had not made; a cut stream is closed.
        faults = errors_of(map(json.loads, received))
        assert faults <= errors_of(sent) if ended_by_itself else faults == set()


async def test_a_chat_that_is_deleted_in_the_middle_of_a_run_stays_deleted(
    container: Container, app: Starlette, token: str
) -> None:
    case = CASES[DELETED]
    events, run_input = case["input"]["events"], case["input"]["run_input"]
    async with house(container, app, token) as place:
        place.play([*events[:3], asyncio.Event(), *events[3:]])
        stream = b""
        async with place.alice.stream(run_input) as chunks:
            while stream.count(b"\n\n") < 3:
                stream += await anext(chunks)
            assert (await place.alice.http.delete("/agui/threads/t1/")).status_code == 204
            async for chunk in chunks:
                stream += chunk
        assert read_frames(stream)[-1].type in TERMINALS
        assert (await place.alice.http.get("/agui/threads/t1/messages/")).status_code == 404
