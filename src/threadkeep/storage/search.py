"""Substring search in the descriptions of a space's sessions, and what makes it fast on each engine.

PostgreSQL finds `LIKE '%needle%'` by a trigram index of its own. SQLite has trigrams in a full-text table, which is
kept here: its rows are numbered by the session's id, so that each is found again without an index.
Either way a hit is only a candidate: the condition itself is checked on the row.
"""

from sqlalchemy import ColumnElement, bindparam, column, delete, func, insert, literal_column, select, table
from sqlalchemy.types import BigInteger, Text

from threadkeep.storage import text
from threadkeep.storage.statement import Contains, Statement, Steps, like_pattern

SHORTEST = 3
"""Characters in a trigram: a shorter text has none."""
_MOST = 2_000
"""Hits up to which they are looked up one by one; more than that, and a walk over the space is quicker."""

_index = table("session_search", column("rowid", BigInteger), column("session_id", Text), column("description", Text))
_MATCHES = _index.c.description.op("MATCH")(bindparam("match", type_=Text))
_ADD = Statement(
    insert(_index).values({name: bindparam(name) for name in ("rowid", "session_id", "description")}), only="sqlite"
)
_REMOVE = Statement(delete(_index).where(_index.c.rowid == bindparam("number")), only="sqlite")
_COUNT = Statement(
    select(func.count()).select_from(
        select(literal_column("1")).select_from(_index).where(_MATCHES).limit(_MOST + 1).subquery("some")
    ),
    only="sqlite",
)


def contains_needle(described: ColumnElement[str | None]) -> Contains:
    """The condition itself; its values are `needle_values`."""
    return Contains(described, bindparam("needle", type_=Text), bindparam("pattern", type_=Text))


def is_candidate(session_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the trigrams of SQLite name the session."""
    return session_id.in_(select(_index.c.session_id).where(_MATCHES))


def needle_values(needle: str) -> dict[str, str]:
    folded = text.fold(needle)
    quoted = folded.replace('"', '""')
    return {"needle": folded, "pattern": like_pattern(folded), "match": f'"{quoted}"'}


def add(session_id: str, folded: str | None) -> Steps[None]:
    """Take up a session's description."""
    if folded is not None and len(folded) >= SHORTEST:
        yield _ADD, {"rowid": _number(session_id), "session_id": session_id, "description": folded}


def remove(session_id: str) -> Steps[None]:
    yield _REMOVE, {"number": _number(session_id)}


def are_few(needle: str) -> Steps[bool]:
    """Whether the trigrams of SQLite lead to few sessions. Never so on an engine that plans this by itself."""
    rows = yield _COUNT, needle_values(needle)
    return bool(rows) and rows[0][0] <= _MOST


def _number(session_id: str) -> int:
    """The random part of the id: 62 bits, which no two sessions of a database share but by a miracle."""
    return int(session_id.replace("-", "")[16:], 16) & (1 << 62) - 1
