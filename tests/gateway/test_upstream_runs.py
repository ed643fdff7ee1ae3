"""Runs of somebody else's AG-UI server through the gateway: servers that say exact bytes, good ones and bad ones."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette

from tests.gateway.raw_server import SSE_HEAD, Exchange, RawServer, Script, raw_server, saying
from tests.gateway.stack import Client, open_client, read_frames, row, run_body, serve, summary
from threadkeep.gateway.upstream import Upstream
from threadkeep.services.container import Container

STARTED = b'{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}'
START = b'{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}'
CONTENT = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"One, two"}'
END = b'{"type":"TEXT_MESSAGE_END","messageId":"m1"}'
FINISHED = b'{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}'


def events(*raws: bytes, end: bytes = b"\n") -> bytes:
    return b"".join(b"data: " + raw + end + end for raw in raws)


class Stack:
    """A scripted upstream, and a client of the gateway before it."""

    def __init__(self, container: Container, app: Starlette, token: str) -> None:
        self._parts = container, app, token

    @asynccontextmanager
    async def before(self, script: Script) -> AsyncIterator[tuple[Client, RawServer]]:
        async with raw_server(script) as server, self.before_url(server.url) as client:
            yield client, server

    @asynccontextmanager
    async def before_url(self, url: str) -> AsyncIterator[Client]:
        container, app, token = self._parts
        async with serve(container, app, Upstream(url)) as gateway, open_client(gateway, token) as client:
            yield client


@pytest.fixture
def stack(container: Container, app: Starlette, token: str) -> Stack:
    return Stack(container, app, token)


ODD = [
    b'{"type": "RUN_STARTED", "threadId":"t1",  "runId":"r1", "timestamp": 1767225605000.50, "note": null}',
    b'{"type":"QUANTUM_FOAM","x":1e2,"big":12345678901234567890123,"a":1,"a":2}',
    b'{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant","futureField":{"a":[1]}}',
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"\\ud83d"}',
    b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"\\ude00 \\u0000"}',
    '{"delta":" né","messageId":"m1","type":"TEXT_MESSAGE_CONTENT"}'.encode(),
    b'{"type":"TEXT_MESSAGE_END","messageId":"m1","rawEvent":{"x":[1.0,-0.0,1E+2]}}',
    b'{"type":"STATE_DELTA","delta":[{"op":"nonsense"}]}',
    b'{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"paused"},"result":null}',
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
async def test_events_pass_byte_for_byte_whatever_ends_their_lines(stack: Stack, end: bytes) -> None:
    async with stack.before(saying(SSE_HEAD, b": hello" + end + events(*ODD, end=end))) as (alice, _):
        response = await alice.http.post("/agui/", json=run_body())
        stored = await alice.messages()
    assert b"\r" not in response.content
    assert [frame.data for frame in read_frames(response.content)] == ODD
    assert summary(stored) == [row("user", "hi"), row("assistant", "😀 \0 né")]


async def test_an_event_of_several_lines_keeps_its_lines(stack: Stack) -> None:
    pretty = b'{\n  "type": "CUSTOM",\n  "name": "n"\n}'
    lines = b"".join(b"data: " + line + b"\r\n" for line in pretty.split(b"\n")) + b"\r\n"
    async with stack.before(saying(SSE_HEAD, lines, events(FINISHED))) as (alice, _):
        frames = await alice.run()
    assert [frame.data for frame in frames] == [pretty, FINISHED]


async def test_the_upstream_gets_the_input_as_it_came_with_the_history_as_its_messages(stack: Stack) -> None:
    async with stack.before(saying(SSE_HEAD, events(STARTED, START, CONTENT, END, FINISHED))) as (alice, server):
        await alice.run()
        second = (
            b'{"threadId":"t1", "runId":"r2", "state":{"n": 1.50}, "x":null, "context":[ ],'
            b'"messages":[{"id":"u2","role":"user","content":[{"type":"text","text":"more"}]}]}'
        )
        await alice.http.post("/agui/", content=second)
    first, again = server.exchanges
    assert json.loads(first.body) == run_body()
    head, _, tail = again.body.partition(b',"messages":')
    assert head == b'{"threadId":"t1","runId":"r2","state":{"n": 1.50},"x":null,"context":[ ]'
    assert json.loads(tail.removesuffix(b"}")) == [
        {"id": "u1", "role": "user", "content": "hi"},
        {"id": "m1", "role": "assistant", "content": "One, two"},
        {"id": "u2", "role": "user", "content": [{"type": "text", "text": "more"}]},
    ]
    assert "authorization" not in again.headers
    assert "x-threadkeep-user" not in again.headers


async def test_a_cancel_closes_the_upstream_s_connection(stack: Stack) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + events(STARTED, START, CONTENT))
        await exchange.left.wait()

    async with stack.before(script) as (alice, server):
        async with alice.stream(protocolVersion="1.0") as stream:
            seen = b""
            while b"One, two" not in seen:
                seen += await anext(stream)
            assert await alice.cancel() is True
            seen += b"".join([chunk async for chunk in stream])
        await asyncio.wait_for(server.exchanges[0].left.wait(), 20)
        stored = await alice.messages()
    assert [frame.json for frame in read_frames(seen)][3:] == [
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "cancelled"}},
    ]
    assert summary(stored) == [row("user", "hi"), row("assistant", "One, two", "interrupted")]


async def test_nothing_follows_the_terminal_event_and_the_thread_is_free_at_once(stack: Stack) -> None:
    done = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + events(STARTED, FINISHED, START, FINISHED))
        await done.wait()

    async with stack.before(script) as (alice, _):
        assert [frame.type for frame in await alice.run()] == ["RUN_STARTED", "RUN_FINISHED"]
        assert [frame.type for frame in await alice.run(run="r2")] == ["RUN_STARTED", "RUN_FINISHED"]
        done.set()


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HTML = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<h1>"
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<h1>"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize(
    ("said", "code", "message", "passed"),
    [
        (b"", "AGENT_UNREACHABLE", "The agent cannot be reached: ", []),
        (BROKEN, "AGENT_REFUSED", "The agent answered 500 Internal Server Error", []),
        (HTML, "AGENT_BAD_STREAM", "The agent answered with text/html instead of text/event-stream", []),
        (SSE_HEAD, "AGENT_INCOMPLETE", "The agent's stream ended without a terminal event", []),
        (SSE_HEAD + events(STARTED, START, CONTENT), "AGENT_INCOMPLETE", "", [STARTED, START, CONTENT]),
        (CHUNKED + chunk(events(STARTED, START)), "AGENT_STREAM_CUT", "The agent's stream was cut", [STARTED, START]),
        (SSE_HEAD + events(STARTED) + CONTENT[:20], "AGENT_INCOMPLETE", "", [STARTED]),
        (SSE_HEAD + events(STARTED) + b"data: " + CONTENT[:20], "AGENT_STREAM_CUT", "The agent's stream", [STARTED]),
        (SSE_HEAD + events(b"[DONE]"), "AGENT_BAD_STREAM", "The agent sent an event that is no JSON object", []),
    ],
    ids=["hangs up", "500", "html", "empty", "no end", "cut", "not an event", "half an event", "no json"],
)
async def test_an_upstream_that_fails_ends_with_one_error_that_says_how(
    stack: Stack, said: bytes, code: str, message: str, passed: list[bytes]
) -> None:
    async with stack.before(saying(said)) as (alice, _):
        frames = await alice.run()
        (run,) = await alice.runs()
        stored = await alice.messages()
    *before, last = frames
    assert [frame.data for frame in before] == passed
    assert (last.json["type"], last.json["code"]) == ("RUN_ERROR", code)
    assert last.json["message"].startswith(message)
    assert (run["status"], run["error"]) == ("errored", last.json["message"])
    assert stored[0]["content"] == "hi"
    assert all(not message["inProgress"] for message in stored)


async def test_an_upstream_that_is_not_there_ends_with_an_error(stack: Stack) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with stack.before_url(f"http://127.0.0.1:{unused.getsockname()[1]}/") as alice:
            (frame,) = await alice.run()
    assert frame.json["code"] == "AGENT_UNREACHABLE"
