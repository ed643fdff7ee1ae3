"""Gateways that are killed or asleep while others go on: real processes on one database, on both engines."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.conftest import Server
from tests.e2e.following import Json, Reader, client_of
from tests.e2e.talking_agent import AGENT

LEASE = 3
"""Seconds within which the runs of a process that has died are ended."""


@pytest.fixture
def servers(database: str) -> Iterator[list[Server]]:
    running: list[Server] = []
    try:
        while len(running) < 2:
            running.append(Server(database, "--agent", AGENT, "--run-lease", str(LEASE)))
        yield running
    finally:
        for server in running:
            server.kill()


@pytest.fixture
async def clients(servers: list[Server]) -> AsyncIterator[list[httpx.AsyncClient]]:
    opened = [client_of(server.url, server.token) for server in servers]
    yield opened
    for client in opened:
        await client.aclose()


async def items(client: httpx.AsyncClient, what: str) -> list[Json]:
    answer = await client.get(f"/agui/threads/t1/{what}/")
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["items"]
    return found


async def brief(client: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    return [(each["role"], each["content"], each["status"]) for each in await items(client, "messages")]


LOST = {"type": "RUN_ERROR", "message": "The process that ran it has gone", "code": "SERVER_STOPPED"}


async def test_readers_of_a_run_whose_process_is_killed_get_its_end_and_the_thread_goes_on(
    servers: list[Server], clients: list[httpx.AsyncClient]
) -> None:
    first, reader = Reader("t1", "r1"), Reader("t1", "r1")
    assert await first.begin(clients[0], "3 hang", frames=5) == 200
    following = asyncio.create_task(reader.go_on(clients[1]))
    servers[0].kill()

    assert await following == 200
    assert reader.terminal == LOST
    assert [reader.seen[index] for index in first.seen] == [*first.seen.values()]
    assert await first.go_on(clients[1]) == 200
    assert first.seen == reader.seen
    assert await brief(clients[1]) == [("user", "3 hang", "complete"), ("assistant", "r1.0 r1.1 r1.2 ", "interrupted")]

    second = Reader("t1", "r2")
    assert await second.begin(clients[1], "2 0") == 200
    assert second.terminal == {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r2"}
    servers[0].start()
    assert [(run["runId"], run["status"]) for run in await items(clients[0], "runs")] == [
        ("r2", "finished"),
        ("r1", "interrupted"),
    ]
    again = Reader("t1", "r1")
    assert await again.go_on(clients[0]) == 200
    assert again.seen == reader.seen


async def test_a_process_that_was_asleep_comes_back_and_changes_nothing(
    servers: list[Server], clients: list[httpx.AsyncClient]
) -> None:
    here, there = Reader("t1", "r1"), Reader("t1", "r1")
    asleep = asyncio.create_task(here.begin(clients[0], "100000 0.02"))
    while not there.seen:
        await there.go_on(clients[1], frames=10)
    following = asyncio.create_task(there.go_on(clients[1]))
    servers[0].signal(signal.SIGSTOP)
    try:
        assert await following == 200
        assert there.terminal == LOST
        second = Reader("t1", "r2")
        assert await second.begin(clients[1], "2 0") == 200
        messages, runs = await items(clients[1], "messages"), await items(clients[1], "runs")
    finally:
        servers[0].signal(signal.SIGCONT)
    # Its agent goes on, and nothing of it comes through: its own reader is told what everybody was told.
    assert await asleep == 200
    assert here.terminal == LOST
    assert here.seen == there.seen
    for client in clients:
        assert await items(client, "messages") == messages
        assert await items(client, "runs") == runs
    words = [f"r1.{place} " for place in range(len(there.seen) - 3)]
    assert (await brief(clients[0]))[1] == ("assistant", "".join(words), "interrupted")
