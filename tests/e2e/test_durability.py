"""What was acknowledged survives kill -9, on both engines."""

import asyncio
import sqlite3
from typing import Any

import httpx

from tests.conftest import Server

WRITERS = 64
ROUNDS = 10
SESSIONS = 4
BATCH = 5
BEFORE_THE_KILL = 60
"""Acknowledged calls after which the first round kills the server; each round lets it live a little longer."""


class Load:
    """Writers to a few sessions, who remember what was acknowledged. Every fourth writes batches."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.acknowledged: dict[str, dict[int, str]] = {}
        self.space = ""

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"{self.server.url}/api/v2",
            headers={"Authorization": f"Bearer {self.server.token}"},
            limits=httpx.Limits(max_connections=WRITERS),
            timeout=60,
        )

    async def prepare(self) -> None:
        async with self.client() as http:
            self.space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
            for _ in range(SESSIONS):
                made = await http.post(f"memory/{self.space}/sessions/", json={"participants": ["ann"]})
                self.acknowledged[made.json()["id"]] = {}

    async def write_until_killed(self, round_: int) -> None:
        enough = asyncio.Event()
        count = 0

        async def write(http: httpx.AsyncClient, number: int) -> None:
            nonlocal count
            session = list(self.acknowledged)[number % SESSIONS]
            size = 1 if number % 4 else BATCH
            path = f"memory/{self.space}/sessions/{session}/events/{'' if size == 1 else 'batch/'}"
            for n in range(10_000):
                contents = [f"{round_}.{number}.{n}.{part}/{size}" for part in range(size)]
                drafts = [{"body": {"content": content}, "emitter": {"type": "agent"}} for content in contents]
                try:
                    answer = await http.post(path, json=drafts[0] if size == 1 else {"events": drafts})
                except httpx.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                events = [answer.json()] if size == 1 else answer.json()["items"]
                for event, content in zip(events, contents, strict=True):
                    assert event["sequenceId"] not in self.acknowledged[session]
                    self.acknowledged[session][event["sequenceId"]] = content
                count += 1
                if count >= BEFORE_THE_KILL + 7 * round_:
                    enough.set()

        async with self.client() as http:
            writers = [asyncio.create_task(write(http, number)) for number in range(WRITERS)]
            waiting = asyncio.create_task(enough.wait())
            # A writer that fails ends the wait, too.
            await asyncio.wait([waiting, *writers], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(self.server.kill)
            await asyncio.gather(*writers)
        assert enough.is_set()

    async def stored(self, session: str) -> dict[int, str]:
        found: dict[int, str] = {}
        async with self.client() as http:
            while True:
                page: dict[str, Any] = (
                    await http.get(
                        f"memory/{self.space}/sessions/{session}/events/", params={"offset": len(found), "limit": 100}
                    )
                ).json()
                found |= {event["sequenceId"]: event["body"]["content"] for event in page["items"]}
                if len(found) == page["total"]:
                    return found
                assert page["items"]


async def test_no_acknowledged_write_is_lost_and_no_number_is_skipped(server: Server, database: str) -> None:
    load = Load(server)
    await load.prepare()

    for round_ in range(ROUNDS):
        await load.write_until_killed(round_)
        if database.startswith("sqlite"):
            check_file(database.removeprefix("sqlite:///"))
        await asyncio.to_thread(server.restart)
        for session, acknowledged in load.acknowledged.items():
            stored = await load.stored(session)
            assert sorted(stored) == list(range(1, len(stored) + 1))
            assert acknowledged.items() <= stored.items()
            assert len(set(stored.values())) == len(stored)
            check_batches(stored)

    assert sum(map(len, load.acknowledged.values())) >= ROUNDS * BEFORE_THE_KILL


def check_file(path: str) -> None:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def check_batches(stored: dict[int, str]) -> None:
    """A batch is there as a whole and in a row, or not at all."""
    contents = [stored[number] for number in sorted(stored)]
    for at, content in enumerate(contents):
        call, part = content.rsplit(".", 1)
        if part == f"0/{BATCH}":
            assert contents[at : at + BATCH] == [f"{call}.{n}/{BATCH}" for n in range(BATCH)]
    ends = [sum(content.endswith(f".{n}/{BATCH}") for content in contents) for n in range(BATCH)]
    assert len(set(ends)) == 1


async def test_what_was_accepted_is_answered_when_the_server_is_asked_to_stop(server: Server) -> None:
    load = Load(server)
    await load.prepare()
    session = next(iter(load.acknowledged))
    body = {"events": [{"body": {"content": "x" * 20_000}, "emitter": {"type": "agent"}}] * 100}

    async with load.client() as http:
        path = f"memory/{load.space}/sessions/{session}/events/batch/"
        posts = [asyncio.create_task(http.post(path, json=body)) for _ in range(8)]
        first, _ = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(server.stop)
        answers = await asyncio.gather(*posts, return_exceptions=True)
    answered = [answer for answer in answers if isinstance(answer, httpx.Response)]
    await asyncio.to_thread(server.restart)

    assert first
    assert {answer.status_code for answer in answered} == {201}
    stored = await load.stored(session)
    assert sorted(stored) == list(range(1, len(stored) + 1))
    assert len(stored) >= 100 * len(answered)
