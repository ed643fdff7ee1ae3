"""The access log gathers lines and writes them together."""

import asyncio
import json
from datetime import UTC, datetime

from threadkeep.telemetry.access_log import Access, AccessLog


async def test_lines_are_gathered_and_written_in_one_go() -> None:
    written: list[str] = []
    log = AccessLog("json", written.append)

    log.tell("r-1", "GET", "/api/v2/memory/", 200, 0.00123, "t-1")
    log.tell("r-2", "POST", "none", 404, 1.5, None)

    assert written == []
    log.flush()
    log.flush()
    (text,) = written
    first, second = (json.loads(line) for line in text.splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "threadkeep.access",
        "message": "request",
        "request_id": "r-1",
        "method": "GET",
        "route": "/api/v2/memory/",
        "status": 200,
        "ms": 1.23,
        "token_id": "t-1",
    }
    assert (second["status"], second["ms"], "token_id" in second) == (404, 1500.0, False)


async def test_what_waits_is_written_without_being_asked_for() -> None:
    written: asyncio.Queue[str] = asyncio.Queue()
    log = AccessLog("json", written.put_nowait)

    for n in range(2):
        log.tell(f"r-{n}", "GET", "/", 200, 0.001, None)
        assert f"r-{n}" in await asyncio.wait_for(written.get(), 30)


def test_a_plain_line_has_the_fields_of_the_other_in_their_order() -> None:
    written: list[str] = []
    log = AccessLog("text", written.append)
    log._waiting.append(
        Access(
            datetime(2026, 11, 29, 12, tzinfo=UTC), "info", "threadkeep.access", "request", "r-1", "GET", "/", 200, 1.5
        )
    )

    log.flush()

    line = "2026-11-29T12:00:00.000000Z info    threadkeep.access request request_id=r-1 method=GET route=/ status=200"
    assert written == [f"{line} ms=1.5\n"]
