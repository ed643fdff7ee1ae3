"""Through the gateway too: a run that is cut short after any event of any field case leaves nothing active."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest

from tests.chat_history.cuts import WAYS, Event, assert_ended, distinct_cuts, terminal_in
from tests.gateway.stack import Client, open_client, read_frames, serve
from threadkeep.api.app import create_app
from threadkeep.chat_history import AGUIAgent, WireEvent, WireInput
from threadkeep.gateway.inputs import RunBody
from threadkeep.services.container import Container
from threadkeep.settings import Settings

AT_ONCE = 8


class Scripts(AGUIAgent):
    """Plays for each thread the script that was put down for it."""

    def __init__(self) -> None:
        super().__init__("scripts")
        self.scripts: dict[str, Sequence[Any]] = {}

    async def run(self, input: Any) -> AsyncGenerator[Any, None]:
        for step in self.scripts[input.thread_id]:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                yield WireEvent.of(step)


class Source:
    """The scripts as an agent that takes any input, as a server in another language would."""

    def __init__(self, agent: Scripts) -> None:
        self._agent = agent

    def prepare(self, body: RunBody) -> tuple[WireInput, AGUIAgent]:
        return WireInput(body.fields), self._agent

    async def aclose(self) -> None:
        pass


class Stand:
    """A gateway on SQLite before the scripts, and its client."""

    def __init__(self, client: Client, agent: Scripts) -> None:
        self.client = client
        self.agent = agent
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def play(self, thread: str, run_input: Any, events: Sequence[Event], count: int, way: str) -> list[Any]:
        """Cut a run after `count` of its events; its messages."""
        async with self._slots:
            script: list[Any] = list(events if way == "disconnect" else events[:count])
            gate = asyncio.Event()
            if way == "crash":
                script.append(RuntimeError("it broke"))
            if way == "cancel":
                script.append(gate)
            if way == "disconnect":
                script.insert(count, gate)
            self.agent.scripts[thread] = script
            body = {**run_input, "threadId": thread, "runId": f"{thread}-run"}
            ended = terminal_in(events[:count]) is not None
            async with self.client.stream(body) as stream:
                seen = b""
                # The terminal event waits for the record, and so does not come while the agent hangs behind it.
                while seen.count(b"\n\n") < count and not ended:
                    seen += await anext(stream)
                if way == "cancel" and not ended:
                    assert await self.client.cancel(thread, f"{thread}-run")
                if way != "disconnect":
                    gate.set()
                    frames = read_frames(seen + b"".join([chunk async for chunk in stream]))
                    terminals = [each.type for each in frames if each.type in ("RUN_FINISHED", "RUN_ERROR")]
                    assert terminals == [frames[-1].type]
            gate.set()
            if way == "disconnect":
                await self._ended(thread)
            return await self.client.messages(thread)

    async def _ended(self, thread: str) -> None:
        async with asyncio.timeout(20):
            while (await self.client.get(f"/threads/{thread}/"))["activeRunId"] is not None:
                pass


@pytest.fixture
async def stand(sqlite_template: Any, tmp_path: Any) -> AsyncIterator[Stand]:
    # What the fold does is the same on each engine, and so one of them is enough for its states.
    path = tmp_path / "threadkeep.db"
    path.write_bytes(sqlite_template.read_bytes())
    container = await Container.open(Settings(database=f"sqlite:///{path}"))
    agent = Scripts()
    _, secret = await container.tokens.create(user="alice", name="test")
    try:
        async with (
            serve(container, create_app(container), Source(agent)) as gateway,
            open_client(gateway, secret) as client,
        ):
            yield Stand(client, agent)
    finally:
        await container.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_that_is_cut_short_behind_the_gateway_leaves_nothing_active(stand: Stand, way: str) -> None:
    cuts = [
        (f"{name}-{count}", run_input, events, count)
        for name, (run_input, cuts) in distinct_cuts().items()
        # A reader that leaves, and an agent that stops, meet the fold in no state that a crash does not.
        for count, events in (cuts if way in ("cancel", "crash") else cuts[::4])
    ]
    found = await asyncio.gather(*(stand.play(*cut, way) for cut in cuts))
    for (thread, run_input, events, count), messages in zip(cuts, found, strict=True):
        seen = events if way == "disconnect" else events[:count]
        own = [message for message in messages if message["role"] != "user"]
        tools = {tool["name"] for tool in run_input["tools"]}
        try:
            assert_ended(records_of(own, seen, tools), seen, way)
        except AssertionError as error:
            raise AssertionError(f"{thread}: {json.dumps(own)}") from error


def records_of(messages: Sequence[Any], seen: Sequence[Event], tools: set[str]) -> list[tuple[str, str, bool, bool]]:
    """The records; a call waits where it may: its tool is the client's, or the run ended with what it waits for."""
    outcome = next((event.get("outcome") for event in seen if event["type"] == "RUN_FINISHED"), None) or {}
    waits = outcome.get("type") == "interrupt" or bool(outcome.get("pendingToolCallIds"))
    found = []
    for message in messages:
        found.append(("message", message["status"], message["inProgress"], False))
        for call in message["toolCalls"]:
            awaiting = call["status"] == "active" and (waits or call["name"] in tools)
            found.append(("call", call["status"], call["inProgress"], awaiting))
        found += [("reasoning", each["status"], each["inProgress"], False) for each in message["reasonings"]]
    return found
