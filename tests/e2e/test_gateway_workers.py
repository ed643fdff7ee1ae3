"""Runs behind a server of several processes: whichever is asked, a run is followed to its end and cancelled."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Server

RUNS = 8
PATIENCE = 60


@pytest.fixture
def fleet(postgres_database: str, valkey_url: str) -> Iterator[Server]:
    options = ("--workers", "2", "--agent", "tests.e2e.talking:agent", "--valkey", valkey_url)
    server = Server(postgres_database, *options, "--no-access-log")
    yield server
    server.kill()


def given(name: str) -> dict[str, Any]:
    said = {"id": f"u-{name}", "role": "user", "content": "Talk."}
    rest: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": f"t-{name}", "runId": name, "messages": [said], **rest}


def events_of(stream: str) -> list[str]:
    return re.findall(r"^data: (.*)$", stream, re.MULTILINE)


async def test_each_run_is_followed_and_cancelled_over_connections_of_their_own(fleet: Server) -> None:
    headers = {"Authorization": f"Bearer {fleet.token}"}

    def a_client() -> httpx.AsyncClient:
        # Each connection goes to whichever process takes it first.
        return httpx.AsyncClient(base_url=f"{fleet.url}/agui/", headers=headers, timeout=PATIENCE)

    async def follow(path: str, spoken: asyncio.Semaphore, body: dict[str, Any] | None = None) -> str:
        seen = ""
        method = "GET" if body is None else "POST"
        async with a_client() as http, http.stream(method, path, json=body) as answer:
            async for chunk in answer.aiter_text():
                had_spoken = "three " in seen
                seen += chunk
                if not had_spoken and "three " in seen:
                    spoken.release()
        return seen

    async def one(name: str) -> None:
        spoken = asyncio.Semaphore(0)
        readers = [asyncio.create_task(follow("", spoken, given(name)))]
        await spoken.acquire()
        path = f"threads/t-{name}/runs/{name}/"
        readers += [asyncio.create_task(follow(f"{path}events/", spoken)) for _ in range(3)]
        for _ in range(3):
            await spoken.acquire()
        async with a_client() as http:
            assert (await http.post(f"{path}cancel/")).json() == {"cancelled": True}

        streams = await asyncio.gather(*readers)

        told = [events_of(stream) for stream in streams]
        assert told == [told[0]] * 4
        assert "RUN_FINISHED" in told[0][-1]
        for stream in streams[1:]:
            indexes = re.findall(rf"^id: {name}:(\d+)$", stream, re.MULTILINE)
            assert indexes[-1] == f"{len(told[0]) - 1}"
            assert sorted(set(map(int, indexes))) == [*map(int, indexes)]
        async with a_client() as http:
            assert (await http.post(f"{path}cancel/")).json() == {"cancelled": False}

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(one(f"r{number}") for number in range(RUNS)))
