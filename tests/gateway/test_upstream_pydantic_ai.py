"""The proof on real input: a pydantic-ai agent in a process of its own, Threadkeep in another, a client before both."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.conftest import Server
from tests.gateway.stack import Client, Frame, row, run_body, summary

_START = 60


@pytest.fixture(scope="module")
def upstream_port() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "tests.gateway.pydantic_ai_app:app", "--port", str(port)]
    process = subprocess.Popen([*command, "--log-level", "warning"], cwd=Path(__file__).parents[2])
    try:
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline:
            assert process.poll() is None, "the upstream has ended"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                continue
            break
        yield port
    finally:
        process.terminate()
        process.wait()


@dataclass
class Tee:
    """A wire between the gateway and its upstream that remembers what went over it."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def tee(port: int) -> AsyncIterator[Tee]:
    recorded = Tee()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(recorded.requests)
        recorded.requests.append(b"")
        recorded.answers.append(b"")
        upstream, to_upstream = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, record: list[bytes]) -> None:
            try:
                while data := await source.read(65_536):
                    record[number] += data
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, to_upstream, recorded.requests), pump(upstream, writer, recorded.answers))

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    recorded.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/agent"
    try:
        yield recorded
    finally:
        listener.close()


def sent_events(answer: bytes) -> list[bytes]:
    """The data of the events in an HTTP answer, read by other means than the gateway's own."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        whole = b""
        while body:
            size, _, rest = body.partition(b"\r\n")
            whole, body = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        body = whole
    return re.findall(rb"^data: ?(.*?)\r?$", body, re.MULTILINE)


async def test_a_pydantic_ai_agent_keeps_its_bytes_and_gets_a_history(database: str, upstream_port: int) -> None:
    async with tee(upstream_port) as wire:
        server = await asyncio.to_thread(Server, database, "--upstream", wire.url)
        try:
            headers = {"Authorization": f"Bearer {server.token}"}
            async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
                client = Client(http)
                first = await client.run(text="How warm is it in Oslo?")
                second = await client.run(
                    run_body(run="r2", text="And now?", user_id="u2", state={"n": 1.0}, forwardedProps={"a": [1]})
                )
                stored = await client.messages()
                runs = await client.runs()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.restart)
                assert await client.messages() == stored
        finally:
            await asyncio.to_thread(server.kill)
    assert [frame.data for frame in first] == sent_events(wire.answers[0])
    assert [frame.data for frame in second] == sent_events(wire.answers[1])
    check_stream(first)
    asked_again = json.loads(wire.requests[1].partition(b"\r\n\r\n")[2])
    assert (asked_again["state"], asked_again["forwardedProps"]) == ({"n": 1.0}, {"a": [1]})
    # The reasoning has no signature, and is left out of what the model is given.
    assert [message["role"] for message in asked_again["messages"]] == [
        *("user", "assistant", "tool", "assistant", "user")
    ]
    assert b"authorization" not in wire.requests[1].lower()

    def turn(question: str, number: int) -> list[object]:
        return [
            row("user", question),
            row(
                "assistant",
                "Let me look.",
                calls=(("temperature", '{"city": "Oslo"}', "4", "complete"),),
                reasonings=(("The tool knows.", "complete"),),
            ),
            row("assistant", f"It is 4 degrees (question {number})."),
        ]

    assert summary(stored) == [*turn("How warm is it in Oslo?", 1), *turn("And now?", 2)]
    assert [(run["runId"], run["status"]) for run in runs] == [("r2", "finished"), ("r1", "finished")]


def check_stream(frames: list[Frame]) -> None:
    """It was the whole thing: reasoning, text, a call with its result, a streamed answer."""
    types = [frame.type for frame in frames]
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert {"REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"} <= set(types)
    assert types.count("TEXT_MESSAGE_CONTENT") == 5
    assert [frame.id for frame in frames] == [f"r1:{index}" for index in range(len(frames))]
