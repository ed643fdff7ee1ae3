"""Three gateways on one PostgreSQL and one Valkey, one of which is killed every few seconds, and clients that are cut
off anywhere, come back anywhere and cancel from anywhere. Each run comes to its end, and loses nothing on the way.

`make chaos` does it for two minutes; `THREADKEEP_CHAOS_SECONDS` says for how long otherwise. What happened is printed.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import httpx
import pytest

from tests.conftest import Server
from tests.e2e.following import Reader, client_of
from tests.e2e.talking_agent import AGENT
from threadkeep.storage.migrate import migrate
from threadkeep.storage.postgres import driver_url
from threadkeep.testing import postgres

SECONDS = float(os.environ.get("THREADKEEP_CHAOS_SECONDS", "15"))
GATEWAYS = 3
CLIENTS = 200
KILL_EVERY = 4.0
LEASE = 15
WORDS, PACE = 12, 1.0
_GONE = (httpx.TransportError, httpx.StreamError)


class Gateways:
    """Processes that are killed and started again, and a client of each."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.clients = [client_of(server.url, server.token) for server in servers]
        self.kills = 0

    def any(self) -> httpx.AsyncClient:
        return random.choice(self.clients)

    async def kill_until(self, over: asyncio.Event) -> None:
        """Kill one that is up, again and again, whether or not those before are up again; in the end all are."""
        down: set[Server] = set()

        async def kill(server: Server) -> None:
            self.kills += 1
            down.add(server)
            await asyncio.to_thread(server.restart)
            down.discard(server)

        async with asyncio.TaskGroup() as group:
            while not over.is_set():
                await asyncio.sleep(KILL_EVERY)
                if up := [server for server in self.servers if server not in down]:
                    group.create_task(kill(random.choice(up)))


class Client:
    """One of many: it lets the agent talk on a thread of its own, again and again."""

    def __init__(self, number: int, gateways: Gateways, figures: Counter[str]) -> None:
        self.thread_id = f"t{number}"
        self.gateways = gateways
        self.figures = figures
        self.readers: list[Reader] = []

    async def talk_until(self, over: asyncio.Event) -> None:
        while not over.is_set():
            reader = Reader(self.thread_id, f"{self.thread_id}.r{len(self.readers)}")
            self.readers.append(reader)
            await self._follow_to_the_end(reader, cancel_after=3 if random.random() < 0.2 else None)
            assert reader.terminal is not None
            self.figures[reader.terminal["type"]] += 1

    async def _follow_to_the_end(self, reader: Reader, cancel_after: int | None) -> None:
        is_begun = False
        while reader.terminal is None:
            if cancel_after is not None and reader.place >= cancel_after:
                await self._cancel(reader)
            frames = random.choice([1, 3] if cancel_after is not None else [None, 1, 3, 8])
            try:
                if is_begun:
                    status = await reader.go_on(self.gateways.any(), frames)
                else:
                    status = await reader.begin(self.gateways.any(), f"{WORDS} {PACE}", frames)
            except _GONE:
                self.figures["connections lost"] += 1
                # Where it has seen nothing, nobody knows whether the input came: the same run again is the same run.
                is_begun = is_begun or bool(reader.seen)
                await asyncio.sleep(0.2)
                continue
            if status == 200:
                is_begun = True
                self.figures["streams"] += 1
            elif status in (404, 409, 503):
                # Not begun after all; the run before is being ended; the gateway is just starting.
                is_begun = is_begun and status != 404
                self.figures[f"answers {status}"] += 1
                await asyncio.sleep(0.2)
            else:
                raise AssertionError(f"{reader.run_id}: {status}")

    async def _cancel(self, reader: Reader) -> None:
        try:
            answer = await self.gateways.any().post(reader.path.replace("/events/", "/cancel/"))
        except _GONE:
            return
        if answer.status_code == 200 and answer.json()["cancelled"]:
            self.figures["cancelled"] += 1


async def check_log(reader: Reader, gateways: Gateways, figures: Counter[str]) -> list[bytes]:
    """The log of a run that a client has seen to its end: without a gap, and with all that it has seen."""
    whole = Reader(reader.thread_id, reader.run_id)
    while whole.terminal is None:
        assert await whole.go_on(gateways.any()) == 200
    events = [whole.seen[index] for index in range(len(whole.seen))]
    assert whole.unnumbered == {}
    for index, data in reader.seen.items():
        assert whole.seen[index] == data, f"{reader.run_id}:{index} is another event now"
    figures["events"] += len(events)
    figures["events seen without an index"] += len(reader.unnumbered)
    figures["of them not in the log"] += sum(whole.seen.get(at) != data for at, data in reader.unnumbered.items())
    return events


async def check_history(client: Client, logs: dict[str, list[bytes]]) -> None:
    """Each run of a thread says what its log says, once."""
    http = client.gateways.any()
    messages: dict[str, Any] = {}
    before: dict[str, str] = {}
    while True:
        page = (await http.get(f"/agui/threads/{client.thread_id}/messages/", params=before)).json()
        for message in page["items"]:
            key = f"{message['runId']}/{message['role']}"
            assert key not in messages, f"{key} is there twice"
            messages[key] = message
        if page["before"] is None:
            break
        before = {"before": page["before"]}
    for reader in client.readers:
        assert messages[f"{reader.run_id}/user"]["content"] == f"{WORDS} {PACE}"
        words = [data for data in logs[reader.run_id] if b"TEXT_MESSAGE_CONTENT" in data]
        if not words:
            continue
        message = messages[f"{reader.run_id}/assistant"]
        said = "".join(f"{reader.run_id}.{place} " for place in range(len(words)))
        # A process that lost its run may have stored a word that the log did not take any more.
        assert message["content"].startswith(said), f"{message['content']!r} lacks some of {said!r}"
        for data in reader.unnumbered.values():
            event = json.loads(data)
            is_lost = event["type"] == "TEXT_MESSAGE_CONTENT" and event["delta"] not in message["content"]
            client.figures["of them words that are lost"] += is_lost
        assert message["status"] != "active"
        assert all(call["status"] != "active" for call in message["toolCalls"])


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    with postgres.new_database(postgres_url) as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture
def servers(database: str, valkey_url: str) -> Iterator[list[Server]]:
    running: list[Server] = []
    options = ("--agent", AGENT, "--run-lease", str(LEASE), "--valkey", valkey_url, "--no-access-log")
    try:
        while len(running) < GATEWAYS:
            running.append(Server(database, *options))
        yield running
    finally:
        for server in running:
            server.kill()


@pytest.fixture
async def gateways(servers: list[Server]) -> AsyncIterator[Gateways]:
    opened = Gateways(servers)
    yield opened
    for client in opened.clients:
        await client.aclose()


async def test_whatever_is_killed_and_cut_every_run_ends_and_nothing_is_lost(
    gateways: Gateways, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures: Counter[str] = Counter()
    over = asyncio.Event()
    clients = [Client(number, gateways, figures) for number in range(CLIENTS)]
    async with asyncio.TaskGroup() as group:
        group.create_task(gateways.kill_until(over))
        for client in clients:
            group.create_task(client.talk_until(over))
        await asyncio.sleep(SECONDS)
        over.set()
    for client in clients:
        logs = {reader.run_id: await check_log(reader, gateways, figures) for reader in client.readers}
        await check_history(client, logs)
    connection = await asyncpg.connect(driver_url(database))
    try:
        still_open = await connection.fetchval("SELECT count(*) FROM runs WHERE finished_at IS NULL")
    finally:
        await connection.close()
    assert still_open == 0
    runs = sum(len(client.readers) for client in clients)
    with capsys.disabled():
        told = ", ".join(f"{count} {name}" for name, count in sorted(figures.items()))
        print(f"\n{SECONDS:.0f} s, {GATEWAYS} gateways, {gateways.kills} kills, {CLIENTS} clients: {runs} runs, {told}")
    assert gateways.kills > 0
    assert figures["cancelled"] > 0
