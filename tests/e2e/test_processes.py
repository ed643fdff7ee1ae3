"""Several servers on one database are as exact as one: each a process of its own, and none knows of the others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Server

SERVERS = 3
RACERS = 20
"""Calls of each race; they are spread over the servers."""


class Cluster:
    """Servers that take turns in answering, as behind a load balancer."""

    def __init__(self, clients: list[httpx.AsyncClient]) -> None:
        self.clients = clients

    async def race(self, method: str, path: str, bodies: list[Any], **options: Any) -> list[httpx.Response]:
        """Make the calls at once, each of the next server."""
        calls = [self.clients[n % SERVERS].request(method, path, json=body, **options) for n, body in enumerate(bodies)]
        return list(await asyncio.gather(*calls))

    async def one(self, method: str, path: str, body: Any = None, server: int = 0) -> Any:
        answer = await self.clients[server].request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def new_session(self, **fields: Any) -> str:
        """The path of a new session, in a new space."""
        space = (await self.one("POST", "memory/new/", {}))["memorySpaceId"]
        body = {"participants": ["ann"], **fields}
        return f"memory/{space}/sessions/{(await self.one('POST', f'memory/{space}/sessions/', body))['id']}/"


@pytest.fixture(scope="module")
def servers(shared_database: str) -> Iterator[list[Server]]:
    running: list[Server] = []
    try:
        while len(running) < SERVERS:
            running.append(Server(shared_database))
        yield running
    finally:
        for server in running:
            server.kill()


@pytest.fixture
async def cluster(servers: list[Server]) -> AsyncIterator[Cluster]:
    clients = [
        httpx.AsyncClient(
            base_url=f"{server.url}/api/v2", headers={"Authorization": f"Bearer {server.token}"}, timeout=60
        )
        for server in servers
    ]
    yield Cluster(clients)
    for client in clients:
        await client.aclose()


def agent(content: str) -> dict[str, Any]:
    return {"body": {"content": content}, "emitter": {"type": "agent"}}


def statuses(answers: list[httpx.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


async def test_of_creates_that_race_on_a_key_exactly_one_wins(cluster: Cluster) -> None:
    space = (await cluster.one("POST", "memory/new/", {}))["memorySpaceId"]
    sessions = f"memory/{space}/sessions/"
    for path, body, id_field, existing in (
        ("memory/new/", {}, "memorySpaceId", "existingMemorySpaceId"),
        (sessions, {"participants": ["ann"]}, "id", "existingSessionId"),
    ):
        for round_ in range(4):
            answers = await cluster.race("POST", path, [{**body, "deduplicationKey": f"k{round_}"}] * RACERS)
            assert statuses(answers) == {201: 1, 409: RACERS - 1}
            (made,) = [answer.json()[id_field] for answer in answers if answer.status_code == 201]
            assert {answer.json()[existing] for answer in answers if answer.status_code == 409} == {made}
    for n in range(SERVERS):
        listed = await cluster.one("GET", sessions, server=n)
        assert [session["deduplicationKey"] for session in listed["items"]] == ["k0", "k1", "k2", "k3"]


async def test_a_key_that_changes_hands_is_never_held_by_two(cluster: Cluster) -> None:
    """Deletes and creates of one key at once, on all servers."""
    space = (await cluster.one("POST", "memory/new/", {}))["memorySpaceId"]
    path = f"memory/{space}/sessions/"
    holder = (await cluster.one("POST", path, {"participants": ["ann"], "deduplicationKey": "k"}))["id"]

    for _ in range(6):
        creating = cluster.race("POST", path, [{"participants": ["ann"], "deduplicationKey": "k"}] * 9)
        deleting = cluster.race("DELETE", f"{path}{holder}/", [None] * 3)
        created, deleted = await asyncio.gather(creating, deleting)
        assert statuses(deleted) == {204: 1, 404: 2}
        assert set(statuses(created)) <= {201, 409}
        assert statuses(created)[201] <= 1
        held = (await cluster.one("GET", f"{path}?deduplicationKey=k", server=1))["items"]
        assert len(held) == statuses(created)[201]
        if not held:
            held = [await cluster.one("POST", path, {"participants": ["ann"], "deduplicationKey": "k"})]
        holder = held[0]["id"]


async def test_numbers_are_gapless_whichever_server_appends(cluster: Cluster) -> None:
    session = await cluster.new_session()
    singles = [agent(f"single {n}") for n in range(90)]
    batches = [{"events": [agent(f"batch {n}.{part}") for part in range(4)]} for n in range(15)]
    # The third of each is no participant: all of its batch is refused.
    bad = [{"events": [agent("no"), agent("no"), {**agent("no"), "emitter": {"type": "user", "id": "bob"}}]}] * 15

    added, together, refused = await asyncio.gather(
        cluster.race("POST", f"{session}events/", singles),
        cluster.race("POST", f"{session}events/batch/", batches),
        cluster.race("POST", f"{session}events/batch/", bad),
    )

    assert (statuses(added), statuses(together), statuses(refused)) == ({201: 90}, {201: 15}, {400: 15})
    assert all(answer.json()["detail"].startswith("events[2]: ") for answer in refused)
    given = {answer.json()["sequenceId"]: answer.json()["body"]["content"] for answer in added}
    for answer in together:
        numbers = [event["sequenceId"] for event in answer.json()["items"]]
        assert numbers == list(range(numbers[0], numbers[0] + 4))
        given |= {event["sequenceId"]: event["body"]["content"] for event in answer.json()["items"]}
    assert sorted(given) == list(range(1, 151))
    for server in range(SERVERS):
        pages = [await cluster.one("GET", f"{session}events/?offset={n}", server=server) for n in (0, 100)]
        assert {event["sequenceId"]: event["body"]["content"] for page in pages for event in page["items"]} == given
        assert [page["total"] for page in pages] == [150, 150]


async def test_of_writers_that_read_one_version_exactly_one_wins(cluster: Cluster) -> None:
    """Field case 101."""
    session = await cluster.new_session(metadata={"title": "a"})
    bodies = [{"metadata": {"title": f"{n}"}} for n in range(RACERS)]
    for version in (1, 2):
        answers = await cluster.race("PATCH", session, bodies, headers={"If-Match": f"{version}"})
        assert statuses(answers) == {200: 1, 409: RACERS - 1}
        assert all(
            answer.json()["detail"].startswith("Session version mismatch")
            for answer in answers
            if answer.status_code == 409
        )
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert won["version"] == version + 1
        assert await cluster.one("GET", session, server=version) == won

    blind = await cluster.race("PATCH", session, bodies)

    assert sorted(answer.json()["version"] for answer in blind) == list(range(4, 4 + RACERS))


async def test_of_changes_with_one_token_exactly_one_is_made(cluster: Cluster) -> None:
    session = await cluster.new_session()
    events = (await cluster.one("POST", f"{session}events/batch/", {"events": [agent("a"), agent("b")]}))["items"]
    token = events[0]["createdAt"]

    answers = await cluster.race(
        "PATCH", f"{session}events/1/", [{"type": f"t{n}"} for n in range(RACERS)], params={"createdAt": token}
    )

    assert statuses(answers) == {200: 1, 422: RACERS - 1}
    assert all(
        answer.json()["detail"].startswith("Patch of incorrect version of event 1")
        for answer in answers
        if answer.status_code == 422
    )
    (won,) = [answer.json() for answer in answers if answer.status_code == 200]
    # The other event of each batch is as it was read: it stays, too, since the first is not.
    items = [{"sequenceId": 2, "type": "new", "createdAt": events[1]["createdAt"]}, {"sequenceId": 1, "type": "new"}]
    stale = await cluster.race(
        "PATCH", f"{session}events/batch/", [{"events": [items[0], {**items[1], "createdAt": token}]}] * SERVERS
    )
    assert statuses(stale) == {422: SERVERS}
    assert (await cluster.one("GET", f"{session}events/", server=2))["items"] == [won, events[1]]
    blind = await cluster.race("PATCH", f"{session}events/1/", [{"type": f"t{n}"} for n in range(RACERS)])
    tokens = [answer.json()["createdAt"] for answer in blind]
    assert len({*tokens, won["createdAt"]}) == RACERS + 1
    assert min(tokens) > won["createdAt"]


async def test_what_one_server_deletes_is_gone_from_all_at_once(cluster: Cluster) -> None:
    """The servers know its participants from before."""
    session = await cluster.new_session()
    said = {"body": {"content": "hi"}, "emitter": {"type": "user", "id": "ann"}}
    await cluster.race("POST", f"{session}events/", [said] * SERVERS)
    calls: list[Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]] = [
        lambda http: http.post(f"{session}events/", json=said),
        lambda http: http.post(f"{session}events/", json={**said, "emitter": {"type": "user", "id": "bob"}}),
        lambda http: http.post(f"{session}events/batch/", json={"events": [said]}),
        lambda http: http.get(f"{session}events/"),
        lambda http: http.get(f"{session}events/?lastN=1"),
        lambda http: http.patch(f"{session}events/1/", json={"type": "x"}),
        lambda http: http.delete(f"{session}events/1/"),
        lambda http: http.get(session),
        lambda http: http.patch(session, json={"description": "x"}),
        lambda http: http.delete(session),
    ]

    await cluster.one("DELETE", session)

    for http in cluster.clients:
        assert [(await call(http)).status_code for call in calls] == [404] * len(calls)
        assert (await http.get(session.split("sessions/")[0] + "sessions/")).json()["total"] == 0
