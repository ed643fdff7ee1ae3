"""Appends: through the services and over HTTP, beside the raw engine and an empty endpoint of the same server."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench import report
from bench.content import BODY, draft, make_sessions
from bench.databases import ENGINES
from bench.floor import RawPostgres, RawSqlite
from bench.http_load import drive_http, post
from bench.load import Measured, drive, side_by_side
from bench.server import TOKEN
from threadkeep.services.container import Container
from threadkeep.settings import Settings

TASKS = 64
EACH = 200
ROUNDS = 5
SERVERS = 4
REQUEST = f'{{"body":{BODY},"emitter":{{"type":"user","id":"ann"}},"type":"message"}}'.encode()


async def through_services(engine: str) -> None:
    report.title(f"Appends of 1 KB, {TASKS} at once, in process: {engine}")
    with ENGINES[engine]() as url:
        container = await Container.open(Settings(database=url))
        principal, space_id, sessions = await make_sessions(container, TASKS)
        names = [f"s{n}" for n in range(TASKS)]
        raw: RawSqlite | RawPostgres
        if engine == "sqlite":
            raw = RawSqlite(Path(url.removeprefix("sqlite:///")).with_name("raw.db"), names)
        else:
            raw = await RawPostgres.open(url, names)

        async def floor() -> Measured:
            return await drive(lambda n: raw.append(names[n], BODY), tasks=TASKS, each=EACH)

        async def services() -> Measured:
            return await drive(
                lambda n: container.events.append(principal, space_id, sessions[n], [draft()]), tasks=TASKS, each=EACH
            )

        floor_rate, services_rate = await side_by_side(ROUNDS, floor, services)
        report.line("raw engine, group commit", floor_rate)
        report.line("services", services_rate)
        report.ratio("services / raw engine", services_rate.rate / floor_rate.rate, at_least=0.6)
        report.ratio("services: p99 / p50", services_rate.p99 / services_rate.p50, at_most=10)
        await raw.close()
        await container.close()


async def over_http(engine: str) -> None:
    report.title(f"Appends of 1 KB, {TASKS} connections, over HTTP: {engine}")
    with ENGINES[engine]() as url, _servers(url, 1) as (port,):
        requests = await _requests(port)

        async def empty() -> Measured:
            return await drive_http([(port, post("/empty/", TOKEN, REQUEST))] * TASKS, each=EACH, status=201)

        async def appends() -> Measured:
            return await drive_http([(port, request) for request in requests], each=EACH, status=201)

        empty_rate, append_rate = await side_by_side(ROUNDS, empty, appends)
        report.line("empty endpoint", empty_rate)
        report.line("append", append_rate)
        report.ratio("append / empty endpoint", append_rate.rate / empty_rate.rate, at_least=0.4)
        report.ratio("append: p99 / p50", append_rate.p99 / append_rate.p50, at_most=10)


async def many_servers(engine: str) -> None:
    """What more servers on one PostgreSQL bring; they share the cores of this machine with it and with the load."""
    if engine != "postgresql":
        return
    report.title(f"Appends of 1 KB, {TASKS} connections, over HTTP, {SERVERS} servers beside 1: {engine}")
    with ENGINES[engine]() as url, _servers(url, SERVERS) as ports:
        requests = await _requests(ports[0])

        async def one() -> Measured:
            return await drive_http([(ports[0], request) for request in requests], each=EACH, status=201)

        async def all_of_them() -> Measured:
            spread = [(ports[n % SERVERS], request) for n, request in enumerate(requests)]
            return await drive_http(spread, each=EACH, status=201)

        one_rate, all_rate = await side_by_side(ROUNDS, one, all_of_them)
        report.line("1 server", one_rate)
        report.line(f"{SERVERS} servers", all_rate)
        report.line(f"{SERVERS} servers / 1 server", f"{all_rate.rate / one_rate.rate:10.2f}")


async def growth(engine: str) -> None:
    """One session, one writer: what the last appends cost beside the first."""
    report.title(f"The 10,000th append to a session beside the first: {engine}")
    with ENGINES[engine]() as url:
        container = await Container.open(Settings(database=url))
        principal, space_id, (session_id,) = await make_sessions(container, 1)

        async def append() -> Measured:
            return await drive(
                lambda _: container.events.append(principal, space_id, session_id, [draft()]), tasks=1, each=500
            )

        await append()
        blocks = [await append() for _ in range(20)]
        first, last = min(block.p50 for block in blocks[:4]), min(block.p50 for block in blocks[-4:])
        report.line("median of the first 2,000", f"{first:10.3f} ms")
        report.line("median of the last 2,000", f"{last:10.3f} ms")
        report.ratio("last / first", last / first, at_most=1.2)
        await container.close()


@contextmanager
def _servers(url: str, count: int) -> Iterator[list[int]]:
    """So many servers on one database, in processes of their own; gives their ports."""
    ports = [free_port() for _ in range(count)]
    running = [subprocess.Popen([sys.executable, "-m", "bench.server", url, str(port)]) for port in ports]
    try:
        for port in ports:
            wait_for(port)
        yield ports
    finally:
        for server in running:
            server.terminate()
            server.wait()


async def _requests(port: int) -> list[bytes]:
    """An append to a session of its own for each connection."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    requests = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v2", headers=headers) as client:
        space_id = (await client.post("memory/new/", json={})).json()["memorySpaceId"]
        for _ in range(TASKS):
            made = await client.post(f"memory/{space_id}/sessions/", json={"participants": ["ann"]})
            path = f"/api/v2/memory/{space_id}/sessions/{made.json()['id']}/events/"
            requests.append(post(path, TOKEN, REQUEST))
    return requests


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            httpx.get(f"http://127.0.0.1:{port}/api/v2/version/")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server does not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
