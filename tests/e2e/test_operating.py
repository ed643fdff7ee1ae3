"""`threadkeep serve` as its operator sees it: its lines, its limits, and how it stops."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.conftest import Server

PATIENCE = 60


@contextmanager
def serving(database: str, *options: str) -> Iterator[tuple[Server, httpx.Client]]:
    server = Server(database, *options)
    try:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE) as http:
            yield server, http
    finally:
        server.kill()


def test_each_request_is_a_line_on_standard_error_and_none_holds_what_was_said(
    database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(database) as (server, http):
        made = http.post("/api/v2/memory/new/", json={"description": "what-somebody-said"})
        http.get("/api/v2/memory/?deduplicationKey=what-somebody-said", headers={"X-Request-ID": "mine"})
        server.stop()

    told = capfd.readouterr().err
    lines = [json.loads(line) for line in told.splitlines()]
    by_id = {line["request_id"]: line for line in lines}
    assert by_id[made.headers["X-Request-ID"]]["status"] == 201
    assert (by_id["mine"]["method"], by_id["mine"]["route"]) == ("GET", "/api/v2/memory/")
    assert "what-somebody-said" not in told
    assert server.token not in told


def test_a_body_over_the_limit_is_refused_before_it_has_come_whole(database: str) -> None:
    """Of the second body no end ever comes: a server that wanted all of it would not answer."""
    with serving(database, "--max-request-bytes", "65536") as (server, http):
        announced = http.post("/api/v2/memory/new/", content=b"[" * 65_537)
        head = f"POST /api/v2/memory/new/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            for _ in range(17):
                connection.sendall(b"1000\r\n" + b"[" * 4096 + b"\r\n")
            streamed = connection.recv(65_536)
        assert http.post("/api/v2/memory/new/", json={}).status_code == 201

    assert announced.status_code == 413
    assert announced.json() == {"detail": "The request is too large; the limit is 65,536 bytes"}
    assert streamed.startswith(b"HTTP/1.1 413 ")


def test_a_token_over_its_rate_is_refused(database: str) -> None:
    with serving(database, "--rate-limit", "2") as (_, http):
        answers = [http.get("/api/v2/memory/") for _ in range(50)]

    refused = [answer for answer in answers if answer.status_code == 429]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert {answer.headers["Retry-After"] for answer in refused} == {"1"}


def test_while_stopping_is_delayed_it_is_not_ready_and_still_serves(database: str) -> None:
    with serving(database, "--stop-delay", "3600", "--no-access-log") as (server, http):
        assert http.get("/readyz").status_code == 200
        server.signal(signal.SIGTERM)
        while http.get("/readyz").status_code == 200:
            pass

        assert http.post("/api/v2/memory/new/", json={}).status_code == 201
        assert http.get("/readyz").json()["detail"] == "The server is stopping"
        server.stop()
        assert server.returncode == 0
