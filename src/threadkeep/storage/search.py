"""Substring search in the descriptions of a space's sessions, and what makes it fast on each engine.

PostgreSQL finds `LIKE '%needle%'` by a trigram index of its own. SQLite has trigrams in a full-text table, which is
kept here: its rows are numbered by the session's id, so that each is found again without an index.
Either way a hit is only a candidate: the condition itself is checked on the row.
"""

import re

from sqlalchemy import ColumnElement, bindparam, column, delete, func, insert, literal_column, select, table
from sqlalchemy.types import BigInteger, Text

from threadkeep.storage import text
from threadkeep.storage.statement import Contains, Statement, Steps, like_pattern

SHORTEST = 3
"""Characters in a trigram: a shorter text has none."""
_LONGEST = 12
"""Characters that are looked up: each has a list of its own, and so many name a row well enough."""
_KIND = re.compile(r"^//[^/]*/")
_MOST = 2_000
"""Hits up to which they are looked up one by one; more than that, and a walk over the space is quicker."""

_index = table("session_search", column("rowid", BigInteger), column("session_id", Text), column("description", Text))
_MATCHES = _index.c.description.op("MATCH")(bindparam("match", type_=Text))
_ADD = Statement(
    insert(_index).values({name: bindparam(name) for name in ("rowid", "session_id", "description")}), only="sqlite"
)
_REMOVE = Statement(delete(_index).where(_index.c.rowid == bindparam("number")), only="sqlite")
_TAKEN = Statement(select(_index.c.session_id).where(_index.c.rowid == bindparam("number")), only="sqlite")
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
    rare = _rare_part(folded)
    quoted = rare.replace('"', '""')
    return {"needle": folded, "pattern": like_pattern(rare), "match": f'"{quoted}"'}


def _rare_part(folded: str) -> str:
    """The part of a needle whose trigrams are worth looking up; whatever holds the needle holds it too.

    Most needles are range keys, `//thread/ID/`: all sessions of the kind share what is in front, and walking the
    long lists of common trigrams would take longer than all the rest.
    """
    key = _KIND.sub("", folded, count=1)
    return (key if len(key) >= SHORTEST else folded)[-_LONGEST:]


def add(session_id: str, folded: str | None) -> Steps[None]:
    """Take up a session's description."""
    if folded is not None and len(folded) >= SHORTEST:
        yield _ADD, {"rowid": index_number(session_id), "session_id": session_id, "description": folded}


def remove(session_id: str) -> Steps[None]:
    yield _REMOVE, {"number": index_number(session_id)}


def is_taken(session_id: str) -> Steps[bool]:
    """Whether another session has the number that this one would have. Ids that are made here share none."""
    return bool((yield _TAKEN, {"number": index_number(session_id)}))


def are_few(needle: str) -> Steps[bool]:
    """Whether the trigrams of SQLite lead to few sessions. Never so on an engine that plans this by itself."""
    rows = yield _COUNT, needle_values(needle)
    return bool(rows) and rows[0][0] <= _MOST


def index_number(session_id: str) -> int:
    """The number of a session's row in the full-text table: the random 62 bits of its id."""
    return int(session_id.replace("-", "")[16:], 16) & (1 << 62) - 1
