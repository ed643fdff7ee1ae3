"""Lifecycles as they pass in real servers and workers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import Server

_TTL = {"participants": ["p"], "lifecycleStrategies": [{"type": "soft_delete", "trigger": {"ttl": 1}}]}
_KEEP = {"participants": ["p"], "lifecycleStrategies": [{"type": "soft_delete", "trigger": {"never": True}}]}


def client(server: Server) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api/v2", headers={"Authorization": f"Bearer {server.token}"})


def wait_until_gone(http: httpx.Client, path: str) -> None:
    """Ask until it is gone. The number is there so that a loss of the feature ends the test."""
    for _ in range(100_000):
        if (status := http.get(path).status_code) != 200:
            break
    assert status == 404


def make(http: httpx.Client) -> tuple[str, str]:
    """A session that ends after a second, and one that never does."""
    sessions = f"/memory/{http.post('/memory/new/', json={}).json()['memorySpaceId']}/sessions/"
    ids = [http.post(sessions, json=body).json()["id"] for body in (_TTL, _KEEP)]
    return f"{sessions}{ids[0]}/", f"{sessions}{ids[1]}/"


@pytest.fixture
def idle_server(database: str) -> Iterator[Server]:
    """A server without a worker."""
    running = Server(database, "--no-work")
    try:
        yield running
    finally:
        running.kill()


def test_a_session_with_a_ttl_of_a_second_disappears_from_a_server(server: Server) -> None:
    with client(server) as http:
        short, kept = make(http)
        wait_until_gone(http, short)

        assert http.get(kept).status_code == 200
    server.stop()


def test_a_worker_alone_does_it_for_a_server_without_one_and_stops_when_asked(
    idle_server: Server, database: str
) -> None:
    command = [sys.executable, "-m", "threadkeep", "work", "--database", database]
    with client(idle_server) as http:
        short, kept = make(http)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline().startswith("Threadkeep works as ")
            wait_until_gone(http, short)
            worker.terminate()

        assert worker.returncode == 0
        assert http.get(kept).status_code == 200
