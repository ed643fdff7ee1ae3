"""`threadkeep serve` with an agent behind it, over real sockets: clients that leave, a process that is killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.conftest import Server
from tests.gateway.raw_server import SSE_HEAD, Exchange, raw_server
from tests.gateway.stack import Client, Json, row, summary

HALF = (
    b'data: {"type":"RUN_STARTED","threadId":"t1","runId":"r1"}\n\n'
    b'data: {"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}\n\n'
    b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"One "}\n\n'
    b'data: {"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"f"}\n\n'
)
REST = (
    b'data: {"type":"TOOL_CALL_END","toolCallId":"c1"}\n\n'
    b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"two"}\n\n'
    b'data: {"type":"TEXT_MESSAGE_END","messageId":"m1"}\n\n'
    b'data: {"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}\n\n'
)


@asynccontextmanager
async def serving(database: str, *options: str) -> AsyncIterator[tuple[Server, Client]]:
    server = await asyncio.to_thread(Server, database, *options)
    try:
        headers = {"Authorization": f"Bearer {server.token}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
            yield server, Client(http)
    finally:
        await asyncio.to_thread(server.kill)


async def until_idle(client: Client) -> Json:
    async with asyncio.timeout(60):
        while (thread := await client.get("/threads/t1/"))["activeRunId"] is not None:
            pass
    return dict(thread)


async def test_a_client_that_hangs_up_in_mid_stream_does_not_stop_the_run(database: str) -> None:
    go_on = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + HALF)
        await go_on.wait()
        await exchange.say(REST)

    async with raw_server(script) as upstream, serving(database, "--upstream", upstream.url) as (_, client):
        async with client.stream() as stream:
            seen = b""
            while b"TOOL_CALL_START" not in seen:
                seen += await anext(stream)
        assert (await client.get("/threads/t1/"))["activeRunId"] == "r1"
        go_on.set()
        await until_idle(client)
        assert summary(await client.messages()) == [
            row("user", "hi"),
            row("assistant", "One two", calls=(("f", "", "", "complete"),)),
        ]
        assert [run["status"] for run in await client.runs()] == ["finished"]


async def test_nothing_is_left_active_after_the_process_was_killed_in_mid_run(database: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + (HALF if len(upstream.exchanges) == 1 else REST))
        await exchange.left.wait()

    async with (
        raw_server(script) as upstream,
        serving(database, "--upstream", upstream.url, "--run-lease", "1") as (server, client),
    ):
        async with client.stream() as stream:
            seen = b""
            while b"TOOL_CALL_START" not in seen:
                seen += await anext(stream)
            async with asyncio.timeout(60):
                while len(await client.messages()) < 2:
                    pass
            await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        await until_idle(client)
        stored = await client.messages()
        assert summary(stored) == [
            row("user", "hi"),
            row("assistant", "One ", "interrupted", calls=(("f", "", "", "interrupted"),)),
        ]
        assert stored[1]["error"] == "The process that ran it has gone"
        assert [(run["status"], run["error"]) for run in await client.runs()] == [
            ("interrupted", "The process that ran it has gone")
        ]
        assert (await client.run(run="r2", text="again", user_id="u2"))[-1].type == "RUN_FINISHED"


async def test_the_demo_is_served_and_its_history_survives_a_kill(database: str) -> None:
    async with serving(database, "--agent", "threadkeep.demo:agent") as (server, client):
        frames = await client.run(text="What is the weather in Oslo?")
        stored = await client.messages()
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        assert await client.messages() == stored
    assert frames[-1].type == "RUN_FINISHED"
    assert [(message["role"], len(message["toolCalls"])) for message in stored] == [
        ("user", 0),
        ("assistant", 1),
        ("assistant", 0),
    ]


async def test_a_server_that_is_asked_to_stop_ends_its_runs_first(database: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.say(SSE_HEAD + HALF)
        await exchange.left.wait()

    async with raw_server(script) as upstream, serving(database, "--upstream", upstream.url) as (server, client):
        async with client.stream() as stream:
            seen = b""
            while b"TOOL_CALL_START" not in seen:
                seen += await anext(stream)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.restart)
        assert [(run["status"], run["error"]) for run in await client.runs()] == [
            ("interrupted", "The server was stopped")
        ]
        assert (await client.messages())[1]["status"] == "interrupted"
