"""The client of somebody else's AG-UI server, against servers that say exact bytes."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator

import pytest

from tests.gateway.raw_server import SSE_HEAD, Exchange, raw_server, saying
from threadkeep.chat_history.ag_ui.wire import WireEvent
from threadkeep.gateway.agents import BadAgent
from threadkeep.gateway.failures import AgentFailure
from threadkeep.gateway.inputs import parse_body
from threadkeep.gateway.upstream import Upstream

BODY = b'{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"hi"}],"state":{"n":1.50}}'


async def run(url: str, body: bytes = BODY, headers: dict[str, str] | None = None) -> AsyncGenerator[WireEvent, None]:
    upstream = Upstream(url, headers=headers)
    try:
        run_input, agent = upstream.prepare(parse_body(body))
        async for event in agent.run(run_input):
            yield event
    finally:
        await upstream.aclose()


async def raws(url: str) -> list[bytes]:
    return [event.raw async for event in run(url)]


async def failure(url: str) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await raws(url)
    return caught.value


async def test_events_come_with_the_bytes_that_were_sent() -> None:
    odd = [
        b'{"type": "RUN_STARTED",  "threadId": "t", "runId":"r", "x": null}',
        b'{"type":"CUSTOM","name":"n","value":12345678901234567890123,"f":1.0e2}',
        b'{"type":"TEXT_MESSAGE_CONTENT","delta":"\\ud83d"}',
        '{"type":"QUANTUM_FOAM","ü":"ü"}'.encode(),
        b'{"type":"RUN_FINISHED","type":"RUN_FINISHED"}',
    ]
    stream = b"".join(b"data: %b\r\n\r\n" % event for event in odd)
    async with raw_server(saying(SSE_HEAD, stream)) as server:
        assert await raws(server.url) == odd


async def test_the_input_goes_out_as_it_came() -> None:
    async with raw_server(saying(SSE_HEAD)) as server:
        assert await raws(server.url) == []
    (exchange,) = server.exchanges
    assert exchange.body == BODY
    assert exchange.head.startswith("POST /agent HTTP/1.1")
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["accept"] == "text/event-stream"


async def test_only_the_messages_are_replaced() -> None:
    body = b'{ "x" : {"b":1.0, "a":2e400}, "messages":[],"threadId":"t","runId":"r", "t\\u00fc":"\\ud800" }'
    async with raw_server(saying(SSE_HEAD)) as server:
        upstream = Upstream(server.url)
        run_input, agent = upstream.prepare(parse_body(body))
        run_input.messages = [{"id": "u", "role": "user", "content": "\ud83d né"}]
        assert [event async for event in agent.run(run_input)] == []
        await upstream.aclose()
    assert server.exchanges[0].body == (
        b'{"x":{"b":1.0, "a":2e400},'
        b'"messages":[{"id":"u","role":"user","content":"\\ud83d n\\u00e9"}],'
        b'"threadId":"t","runId":"r","t\\u00fc":"\\ud800"}'
    )


async def test_nothing_of_the_caller_goes_upstream_but_what_the_operator_has_set() -> None:
    async with raw_server(
        saying(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nset-cookie: a=b\r\n\r\n")
    ) as server:
        upstream = Upstream(server.url, headers={"Authorization": "Bearer of-the-agent"})
        for _ in range(2):
            run_input, agent = upstream.prepare(parse_body(BODY))
            assert [event async for event in agent.run(run_input)] == []
        await upstream.aclose()
    for exchange in server.exchanges:
        assert exchange.headers["authorization"] == "Bearer of-the-agent"
        assert set(exchange.headers) == {
            *("host", "accept", "accept-encoding", "connection", "content-length", "content-type"),
            *("user-agent", "authorization"),
        }


async def test_an_event_is_given_as_soon_as_it_is_complete() -> None:
    go_on = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + b'data: {"type":"A"}\n\n')
        await go_on.wait()
        await exchange.say(b'data: {"type":"B"}\n\n')

    async with raw_server(script) as server:
        events = run(server.url)
        assert (await anext(events)).type == "A"
        go_on.set()
        assert [event.type async for event in events] == ["B"]


async def test_an_event_of_megabytes_comes_whole() -> None:
    big = json.dumps({"type": "RAW", "event": "z" * 3_000_000}).encode()
    async with raw_server(saying(SSE_HEAD, b"data: ", big, b"\n\n")) as server:
        assert await raws(server.url) == [big]


async def test_a_last_event_without_an_empty_line_counts() -> None:
    async with raw_server(saying(SSE_HEAD, b'data: {"type":"RUN_FINISHED"}')) as server:
        assert await raws(server.url) == [b'{"type":"RUN_FINISHED"}']


async def test_a_reader_that_leaves_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + b'data: {"type":"A"}\n\n')
        await exchange.left.wait()
        gone.set()

    async with raw_server(script) as server:
        events = run(server.url)
        await anext(events)
        await events.aclose()
        await asyncio.wait_for(gone.wait(), 10)


async def test_a_server_may_tidy_up_behind_its_terminal_event() -> None:
    tidied = asyncio.Event()
    go_on = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + b'data: {"type":"RUN_FINISHED"}\n\ndata: {"type":"LATE"}\n\n')
        await go_on.wait()
        if not exchange.left.is_set():
            tidied.set()

    async with raw_server(script) as server:
        upstream = Upstream(server.url)
        run_input, agent = upstream.prepare(parse_body(BODY))
        assert [event.type async for event in agent.run(run_input)] == ["RUN_FINISHED"]
        go_on.set()
        await asyncio.wait_for(tidied.wait(), 10)
        await upstream.aclose()


async def test_a_redirect_of_the_same_request_is_followed() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.head.startswith("POST /agent/ "):
            await exchange.say(SSE_HEAD + b'data: {"type":"A"}\n\n')
        else:
            await exchange.say(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /agent/\r\ncontent-length: 0\r\n\r\n")

    async with raw_server(script) as server:
        assert await raws(server.url) == [b'{"type":"A"}']
    assert server.exchanges[1].body == BODY


async def test_a_refused_connection_is_said() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = await failure(f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert error.code == "AGENT_UNREACHABLE"
    assert str(error) == "The agent cannot be reached: All connection attempts failed"


async def test_a_server_that_hangs_up_without_an_answer_is_said() -> None:
    async with raw_server(saying()) as server:
        error = await failure(server.url)
    assert error.code == "AGENT_UNREACHABLE"
    assert "without sending a response" in str(error)


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/", "http:///agent", "http://127.0.0.1:99999/"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadAgent, match="is no http or https URL"):
        Upstream(url)


def answer(status: str, kind: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


REFUSED, BAD, CUT = "AGENT_REFUSED", "AGENT_BAD_STREAM", "AGENT_STREAM_CUT"
NO_OBJECT = "The agent sent an event that is no JSON object: "


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        (answer("500 Oh No", "text/html", "<h1>"), REFUSED, "The agent answered 500 Oh No"),
        (answer("422 No", "application/json", '{"a":1}'), REFUSED, 'The agent answered 422 No: {"a":1}'),
        (answer("429 Slow", "text/plain", "x" * 999), REFUSED, "The agent answered 429 Slow: " + "x" * 300),
        (answer("200 OK", "text/html; charset=utf-8", "<h1>"), BAD, "The agent answered with text/html"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", BAD, "The agent answered with no content type"),
        (SSE_HEAD + b"data: [DONE]\n\n", BAD, NO_OBJECT + "[DONE]"),
        (SSE_HEAD + b"data: {\n\n", BAD, NO_OBJECT + "{"),
        (SSE_HEAD + b'data: {"type":"A"', CUT, "The agent's stream was cut off in the middle of an event"),
    ],
)
async def test_an_answer_that_is_no_event_stream_is_said(said: bytes, code: str, message: str) -> None:
    async with raw_server(saying(said)) as server:
        error = await failure(server.url)
    assert (error.code, str(error).removesuffix(" instead of text/event-stream")) == (code, message)


async def test_a_stream_cut_in_the_middle_gives_what_came_and_says_so() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    async with raw_server(saying(chunked, b'14\r\ndata: {"type":"A"}\n\n\r\n')) as server:
        events = run(server.url)
        assert (await anext(events)).raw == b'{"type":"A"}'
        with pytest.raises(AgentFailure, match="The agent's stream was cut off") as caught:
            await anext(events)
    assert caught.value.code == "AGENT_STREAM_CUT"


async def test_an_event_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadkeep.gateway.upstream.EVENT_BYTES", 1_000)
    async with raw_server(saying(SSE_HEAD, b"data: " + b"x" * 2_000)) as server:
        error = await failure(server.url)
    assert (error.code, str(error)) == (
        "AGENT_BAD_STREAM",
        "The agent's stream cannot be read: An event is larger than 1,000 bytes",
    )
