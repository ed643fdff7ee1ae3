"""The access log: one line for each request, in the same form as the rest of the log.

It does not go through `logging`, which would take some ten microseconds of each request: a request leaves its facts,
and a few times per second all that have come are written at once.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from threadkeep.telemetry.lines import Render, format_time

_SECONDS = 0.2
"""How long a line may wait; a process that is killed loses the lines that still do."""


class Access(NamedTuple):
    """What is told of a request: never its path as it was sent, its query, its body or its token."""

    at: float
    """When it had been answered, in seconds since 1970."""
    request_id: str
    method: str
    route: str
    status: int
    seconds: float
    token_id: str | None


class AccessLog:
    """Writes a line for each request. It belongs to one event loop."""

    def __init__(self, render: Render, write: Callable[[str], object] | None = None) -> None:
        self._render = render
        self._write = write or _to_standard_error
        self._waiting: list[Access] = []

    def tell(self, request_id: str, method: str, route: str, status: int, seconds: float, token_id: str | None) -> None:
        """Note a request that has been answered."""
        self._waiting.append(Access(time.time(), request_id, method, route, status, seconds, token_id))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write("".join([f"{self._line(access)}\n" for access in waiting]))

    def _line(self, access: Access) -> str:
        return self._render(
            {
                "time": format_time(access.at),
                "level": "info",
                "logger": "threadkeep.access",
                "message": "request",
                "request_id": access.request_id,
                "method": access.method,
                "route": access.route,
                "status": access.status,
                "ms": round(access.seconds * 1000, 2),
                "token_id": access.token_id,
            }
        )


def _to_standard_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
