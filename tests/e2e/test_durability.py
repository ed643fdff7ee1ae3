"""What was acknowledged survives kill -9, on both engines."""

import asyncio
from typing import Any

import httpx

from tests.conftest import Server

WRITERS = 16
ROUNDS = 3
BEFORE_THE_KILL = 150
"""Acknowledged appends after which a round kills the server."""


class Load:
    """Writers to a few sessions, who remember what was acknowledged."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.acknowledged: dict[str, dict[int, str]] = {}
        self.space = ""

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"{self.server.url}/api/v2", headers={"Authorization": f"Bearer {self.server.token}"}
        )

    async def prepare(self) -> None:
        async with self.client() as http:
            self.space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
            for _ in range(3):
                made = await http.post(f"memory/{self.space}/sessions/", json={"participants": ["ann"]})
                self.acknowledged[made.json()["id"]] = {}

    async def write_until_killed(self, round_: int) -> None:
        enough = asyncio.Event()
        count = 0

        async def write(number: int) -> None:
            nonlocal count
            session = list(self.acknowledged)[number % 3]
            async with self.client() as http:
                for n in range(10_000):
                    content = f"{round_}.{number}.{n}"
                    body = {"body": {"content": content}, "emitter": {"type": "agent"}}
                    try:
                        answer = await http.post(f"memory/{self.space}/sessions/{session}/events/", json=body)
                    except httpx.TransportError:
                        return
                    assert answer.status_code == 201
                    self.acknowledged[session][answer.json()["sequenceId"]] = content
                    count += 1
                    if count >= BEFORE_THE_KILL:
                        enough.set()

        writers = [asyncio.create_task(write(number)) for number in range(WRITERS)]
        await enough.wait()
        await asyncio.to_thread(self.server.kill)
        await asyncio.gather(*writers)

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


async def test_no_acknowledged_write_is_lost_and_no_number_is_skipped(server: Server) -> None:
    load = Load(server)
    await load.prepare()

    for round_ in range(ROUNDS):
        await load.write_until_killed(round_)
        await asyncio.to_thread(server.restart)
        for session, acknowledged in load.acknowledged.items():
            stored = await load.stored(session)
            assert sorted(stored) == list(range(1, len(stored) + 1))
            assert acknowledged.items() <= stored.items()

    assert sum(map(len, load.acknowledged.values())) >= ROUNDS * BEFORE_THE_KILL


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
