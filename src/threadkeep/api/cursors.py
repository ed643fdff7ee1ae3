"""Cursors of lists: where the next page starts, as text that says nothing to its reader."""

import base64
import re
import uuid

from threadkeep.api.routing import Call, Query
from threadkeep.errors import Invalid

_PATTERN = "^([A-Za-z0-9_-]{22})?$"
CURSOR = Query(
    "cursor",
    {"type": "string", "pattern": _PATTERN},
    "Where the page starts: empty for the first one, then `nextCursor` of the page before. Not together with offset.",
)


def position(call: Call) -> str | None:
    """The id after which the page starts, '' at the beginning; None where no cursor was sent. Raises Invalid."""
    cursor = call.query("cursor")
    if cursor is None:
        return None
    if call.query("offset") is not None:
        raise Invalid("Give cursor or offset, not both", ["query", "cursor"])
    return _parse(cursor) if cursor else ""


def after(last_id: str) -> str:
    """The cursor of the page that starts after this id."""
    return base64.urlsafe_b64encode(uuid.UUID(last_id).bytes).rstrip(b"=").decode()


def _parse(cursor: str) -> str:
    if not re.fullmatch(_PATTERN, cursor):
        raise Invalid("This is no cursor: send nextCursor as it came", ["query", "cursor"])
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(cursor + "==")))
