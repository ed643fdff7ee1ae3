"""The access log gathers lines and writes them together."""

import asyncio
import json

from threadkeep.telemetry.access_log import AccessLog
from threadkeep.telemetry.lines import as_json


async def test_lines_are_gathered_and_written_in_one_go() -> None:
    written: list[str] = []
    log = AccessLog(as_json, written.append)

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
    log = AccessLog(as_json, written.put_nowait)

    for n in range(2):
        log.tell(f"r-{n}", "GET", "/", 200, 0.001, None)
        assert f"r-{n}" in await asyncio.wait_for(written.get(), 30)
