"""Several processes that serve one socket: nothing is lost or skipped, what dies is replaced, and all stop together."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Server

WORKERS = 2
PATIENCE = 120
SAID: dict[str, Any] = {"body": {"content": "hi"}, "emitter": {"type": "agent"}}


class Fleet:
    """A server of several processes, and a session on it."""

    def __init__(self, server: Server, http: httpx.AsyncClient) -> None:
        self.server = server
        self.http = http
        self.events = ""

    async def get(self, url: str) -> httpx.Response:
        """Ask as HTTP clients do: once more where an idle connection was closed just then (RFC 9112, section 9.3.1)."""
        try:
            return await self.http.get(url)
        except (httpx.RemoteProtocolError, httpx.ReadError):
            return await self.http.get(url)

    async def metrics(self) -> str:
        return (await self.get(f"{self.server.url}/metrics")).text

    async def appended(self) -> float:
        """The events that the processes have counted, all together."""
        (found,) = re.findall(r"^threadkeep_events_appended_total (\S+)$", await self.metrics(), re.MULTILINE)
        return float(found)

    async def pids(self) -> set[int]:
        """The processes that serve."""
        found = re.findall(r'^threadkeep_worker_start_time_seconds{pid="(\d+)"', await self.metrics(), re.MULTILINE)
        return set(map(int, found))

    async def until_whole(self) -> set[int]:
        """Wait until as many processes serve as there should be."""
        async with asyncio.timeout(PATIENCE):
            while len(pids := await self.pids()) != WORKERS:
                pass
        return pids

    async def until_refused(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self.http.get(f"{self.server.url}/healthz")
                except httpx.ConnectError:
                    return
                except httpx.TransportError:
                    continue

    async def append(self, times: int) -> list[int]:
        """Append on connections of their own, and return the numbers of what was acknowledged."""
        numbers = []
        for _ in range(times):
            async with httpx.AsyncClient(headers=self.http.headers, timeout=PATIENCE) as http:
                try:
                    answer = await http.post(self.events, json=SAID)
                except httpx.TransportError:
                    continue
                assert answer.status_code == 201
                numbers.append(answer.json()["sequenceId"])
        return numbers

    async def stored(self) -> list[int]:
        found: list[int] = []
        while True:
            page = (await self.http.get(self.events, params={"offset": len(found)})).json()
            found += [event["sequenceId"] for event in page["items"]]
            if len(found) == page["total"]:
                return found


@pytest.fixture(scope="module")
def running(postgres_database: str) -> Iterator[Server]:
    """One server for all tests; what a test has ended starts again."""
    server = Server(postgres_database, "--workers", f"{WORKERS}", "--log-level", "warning", "--no-access-log")
    yield server
    server.kill()


@pytest.fixture
async def fleet(running: Server) -> AsyncIterator[Fleet]:
    if running.returncode is not None:
        await asyncio.to_thread(running.start)
    headers = {"Authorization": f"Bearer {running.token}"}
    async with httpx.AsyncClient(base_url=f"{running.url}/api/v2/", headers=headers, timeout=PATIENCE) as http:
        found = Fleet(running, http)
        await found.until_whole()
        space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
        made = await http.post(f"memory/{space}/sessions/", json={"participants": ["ann"]})
        found.events = f"{running.url}/api/v2/memory/{space}/sessions/{made.json()['id']}/events/"
        yield found


async def test_any_process_may_be_asked_and_all_count_together(fleet: Fleet) -> None:
    before = await fleet.appended()
    appended = await asyncio.gather(*(fleet.append(10) for _ in range(6)))

    assert sorted(number for numbers in appended for number in numbers) == list(range(1, 61))
    assert await fleet.stored() == list(range(1, 61))
    assert await fleet.appended() - before == 60


async def test_a_process_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(fleet: Fleet) -> None:
    before = await fleet.until_whole()
    writing = asyncio.gather(*(fleet.append(15) for _ in range(4)))
    victim = min(before)

    os.kill(victim, signal.SIGKILL)
    acknowledged = sorted(number for numbers in await writing for number in numbers)
    async with asyncio.timeout(PATIENCE):
        while victim in (after := await fleet.until_whole()):
            pass

    assert len(after & before) == WORKERS - 1
    stored = await fleet.stored()
    assert stored == list(range(1, len(stored) + 1))
    assert set(acknowledged) <= set(stored)
    assert await fleet.append(1) == [len(stored) + 1]


async def test_all_are_replaced_one_after_the_other_when_asked_to(fleet: Fleet) -> None:
    before = await fleet.until_whole()

    fleet.server.signal(signal.SIGHUP)
    async with asyncio.timeout(PATIENCE):
        while before & await fleet.pids():
            assert (await fleet.get("memory/")).status_code == 200

    assert len(await fleet.until_whole()) == WORKERS


async def test_all_stop_at_a_signal_and_answer_what_they_accepted(fleet: Fleet) -> None:
    batch = {"events": [{"body": {"content": "x" * 20_000}, "emitter": {"type": "agent"}}] * 100}
    posts = [asyncio.create_task(fleet.http.post(f"{fleet.events}batch/", json=batch)) for _ in range(8)]
    first, _ = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)

    await asyncio.to_thread(fleet.server.stop)

    answers = await asyncio.gather(*posts, return_exceptions=True)
    answered = [answer for answer in answers if isinstance(answer, httpx.Response)]
    assert first
    assert {answer.status_code for answer in answered} == {201}
    assert fleet.server.returncode == 0
    await fleet.until_refused()

    await asyncio.to_thread(fleet.server.start)
    await fleet.until_whole()
    assert len(await fleet.stored()) == 100 * len(answered)


async def test_processes_do_not_outlive_a_parent_that_is_killed(fleet: Fleet) -> None:
    pids = await fleet.pids()

    await asyncio.to_thread(fleet.server.kill)

    await fleet.until_refused()
    async with asyncio.timeout(PATIENCE):
        while any(is_alive(pid) for pid in pids):
            await asyncio.to_thread(os.sched_yield)


def test_a_process_that_cannot_start_ends_the_command(postgres_database: str) -> None:
    """The exporter's own settings are read by the processes that serve, and by no other."""
    ended = serve(postgres_database, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_BSP_SCHEDULE_DELAY="-1")

    assert ended.returncode == 1
    *log, last = ended.stderr.strip().split("\n")
    assert last == "Error: A worker could not start; the log says why"
    assert any("ValueError" in json.loads(line).get("traceback", "") for line in log if line.startswith("{"))


def test_a_port_that_is_taken_is_named(postgres_database: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = serve(postgres_database, port=port)

    assert ended.returncode == 1
    assert ended.stderr == f"Error: Cannot listen on 127.0.0.1:{port}: Address already in use\n"


def serve(database: str, *, port: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """`threadkeep serve` where it is expected to end by itself."""
    command = [sys.executable, "-m", "threadkeep", "serve", "--workers", "2", "--port", f"{port}"]
    return subprocess.run(
        [*command, "--database", database],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended stays in the table until whoever inherits it has asked for its status.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
