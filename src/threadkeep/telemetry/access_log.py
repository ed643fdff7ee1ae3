"""The access log: one line for each request, in the same form as the rest of the log.

It does not go through `logging`, which would take some ten microseconds of each request: a request leaves its facts,
and a few times per second all that have come are written at once.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from threadkeep.telemetry.lines import as_text, format_time

_SECONDS = 0.2
"""How long a line may wait; a process that is killed loses the lines that still do."""
_JSON = msgspec.json.Encoder()


class Access(msgspec.Struct, omit_defaults=True, gc=False):
    """What is told of a request, in the order of its line: never its path as it was sent, its query, its body or its
    token.
    """

    time: datetime
    level: str
    logger: str
    message: str
    request_id: str
    method: str
    route: str
    status: int
    ms: float
    token_id: str | None = None


class AccessLog:
    """Writes a line for each request, `form` being `json` or `text`. It belongs to one event loop."""

    def __init__(self, form: str, write: Callable[[str], object] | None = None) -> None:
        self._render = _as_json_lines if form == "json" else _as_text_lines
        self._write = write or _to_standard_error
        self._waiting: list[Access] = []

    def tell(self, request_id: str, method: str, route: str, status: int, seconds: float, token_id: str | None) -> None:
        """Note a request that has been answered."""
        now = datetime.now(UTC)
        ms = round(seconds * 1000, 2)
        self._waiting.append(
            Access(now, "info", "threadkeep.access", "request", request_id, method, route, status, ms, token_id)
        )
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write(self._render(waiting))


def _as_json_lines(waiting: Sequence[Access]) -> str:
    # Nothing here comes from a caller but the id, which is plain: it can always be encoded, and in one go.
    return _JSON.encode_lines(waiting).decode()


def _as_text_lines(waiting: Sequence[Access]) -> str:
    told = (msgspec.structs.asdict(access) | {"time": format_time(access.time.timestamp())} for access in waiting)
    return "".join(f"{as_text(fields)}\n" for fields in told)


def _to_standard_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
