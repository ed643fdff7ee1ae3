"""Calls that are refused before anything is looked up: by the scope of a token, its rate, the size of a request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.api.test_edge import NOWHERE, PATHS, call
from threadkeep import clock
from threadkeep.api.app import OPERATIONS, create_app
from threadkeep.gateway.agents import load_agent
from threadkeep.gateway.app import build_app as create_gateway
from threadkeep.services.container import Container
from threadkeep.services.rates import Rates
from threadkeep.settings import Settings
from threadkeep.transport.in_process import InProcessTransport

READING = {(operation.method, operation.path) for operation in OPERATIONS if operation.reads}
IDS = {"space_id": NOWHERE, "session_id": NOWHERE, "sequence_id": "1"}


@asynccontextmanager
async def as_token(container: Container, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a new token of alice's."""
    _, secret = await container.tokens.create(user="alice", name="t", **options)
    async with httpx.AsyncClient(
        transport=InProcessTransport(create_app(container)),
        timeout=60,
        base_url="http://threadkeep.test/api/v2",
        headers={"Authorization": f"Bearer {secret}"},
    ) as opened:
        yield opened


@pytest.mark.parametrize(("scope", "methods"), [("read", {"GET"}), ("write", {"POST", "PUT", "PATCH", "DELETE"})])
async def test_a_token_of_one_scope_is_403_on_every_route_of_the_other(
    container: Container, scope: str, methods: set[str]
) -> None:
    async with as_token(container, scopes=[scope]) as http:
        for method, path in PATHS:
            answer = await call(http, method, path, IDS)
            # A search is read, and has a body all the same.
            is_for_it = scope == "read" if (method, path) in READING else method in methods
            assert (answer.status_code == 403) == (not is_for_it), (method, path, answer.text)
        refused = await http.request(
            "POST" if scope == "read" else "GET", "memory/" if scope == "write" else "memory/new/"
        )

    other = "write" if scope == "read" else "read"
    method = "POST" if scope == "read" else "GET"
    assert refused.json() == {"detail": f"This token may only {scope}: {method} is a {other}"}


async def test_a_token_without_a_scope_of_its_own_is_for_all(http: httpx.AsyncClient) -> None:
    made = await http.post("memory/new/", json={})

    assert made.status_code == 201
    assert (await http.get(f"memory/{made.json()['memorySpaceId']}/")).status_code == 200


async def test_the_scope_holds_for_the_users_that_a_token_acts_for(container: Container) -> None:
    async with as_token(container, scopes=["read"], may_act_for=True) as http:
        refused = await http.post("memory/new/", json={}, headers={"X-Threadkeep-User": "ann"})
        listed = await http.get("memory/", headers={"X-Threadkeep-User": "ann"})

    assert (refused.status_code, listed.status_code) == (403, 200)


async def test_a_token_that_may_only_read_starts_no_run(container: Container) -> None:
    _, secret = await container.tokens.create(user="alice", name="t", scopes=["read"])
    gateway = create_gateway(container, create_app(container), load_agent("threadkeep.demo:agent"))
    async with (
        gateway.router.lifespan_context(gateway),
        httpx.AsyncClient(
            transport=InProcessTransport(gateway),
            timeout=60,
            base_url="http://threadkeep.test/agui",
            headers={"Authorization": f"Bearer {secret}"},
        ) as http,
    ):
        assert (await http.get("threads/")).json()["items"] == []
        assert (await http.post("", json={})).status_code == 403
        assert (await http.delete("threads/t/")).status_code == 403
        assert (await http.post("threads/t/runs/r/cancel/")).status_code == 403


async def test_a_token_over_its_rate_is_429_and_told_when_to_come_again(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 131, the server's side."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    limited = replace(container, rates=Rates(2))
    async with as_token(limited) as http, as_token(limited) as other:
        passed = [(await http.get("memory/")).status_code for _ in range(2)]
        refused = await http.post("memory/new/", json={})
        assert (await other.get("memory/")).status_code == 200, "each token has a rate of its own"
        monkeypatch.setattr(clock, "now", lambda: now + 500_000)
        again = await http.post("memory/new/", json={})

    assert passed == [200, 200]
    assert refused.status_code == 429
    assert refused.json() == {"detail": "Too many requests; try again in 1 s"}
    assert refused.headers["Retry-After"] == "1"
    assert "X-Request-ID" in refused.headers
    assert again.status_code == 201


async def test_there_is_no_rate_limit_unless_it_is_set(http: httpx.AsyncClient) -> None:
    assert {(await http.get("memory/")).status_code for _ in range(30)} == {200}


async def test_what_no_token_asks_for_is_not_limited(container: Container) -> None:
    async with as_token(replace(container, rates=Rates(1))) as http:
        for _ in range(5):
            assert (await http.get("version/")).status_code == 200
            assert (await http.get("http://threadkeep.test/healthz")).status_code == 200


def test_tokens_that_were_idle_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    rates = Rates(1)
    for n in range(10_000):
        rates.check(f"{n}")
    monkeypatch.setattr(clock, "now", lambda: now + 1_000_000)

    rates.check("one more")

    assert set(rates._buckets) == {"one more"}


async def test_a_body_of_three_byte_characters_is_counted_in_bytes(container: Container) -> None:
    """Field case 113: one below the limit of a body, exactly on it, and one above."""
    roomy = replace(container, settings=Settings(max_request_bytes=8 * 1024 * 1024))
    async with as_token(roomy) as http:
        space = (await http.post("memory/new/", json={})).json()["memorySpaceId"]
        session = (await http.post(f"memory/{space}/sessions/", json={"participants": ["a"]})).json()["id"]

        async def append(size: int) -> httpx.Response:
            frame = len('{"text":""}')
            text = "€" * ((size - frame) // 3) + "x" * ((size - frame) % 3)
            body = f'{{"body":{{"text":"{text}"}},"emitter":{{"type":"agent"}}}}'
            return await http.post(f"memory/{space}/sessions/{session}/events/", content=body.encode())

        limit = 4 * 1024 * 1024
        under, on, over = [await append(limit + n) for n in (-1, 0, 1)]

    assert (under.status_code, on.status_code, over.status_code) == (201, 201, 422)
    (problem,) = over.json()["detail"]
    assert problem["loc"] == ["body", "body"]
    assert problem["msg"] == "4,194,305 bytes; the limit is 4,194,304"
