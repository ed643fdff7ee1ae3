"""How far the tokens of a session are counted. Nothing here commits.

What is far enough from the end is counted once and kept (`token_count` up to `tokens_to`); the newest events are
counted at each look, because it is they that are written and rewritten while a run streams.
"""

from dataclasses import dataclass

from sqlalchemy import bindparam, case, literal_column, select, update
from sqlalchemy.types import BigInteger

from threadkeep.domain import lifecycle
from threadkeep.domain.job import LIFECYCLE
from threadkeep.storage import jobs
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import events, session_counters, sessions

TAIL = 20
"""Events at the end of a session that are counted at each look."""
_PAGE = 20

_counters = session_counters.c
_AT = (_counters.space_id == bindparam("at_space"), _counters.session_id == bindparam("at_session"))
_STATE = Statement(
    select(
        sessions.c.strategies,
        sessions.c.ran,
        _counters.last_seq,
        _counters.token_count,
        _counters.tokens_to,
        _counters.token_edits,
    )
    .join(
        session_counters, (_counters.space_id == sessions.c.space_id) & (_counters.session_id == sessions.c.session_id)
    )
    .where(*_AT)
)
_BODIES = Statement(
    select(events.c.seq, events.c.body)
    .where(
        events.c.space_id == bindparam("at_space"),
        events.c.session_id == bindparam("at_session"),
        events.c.seq > bindparam("after", type_=BigInteger),
        events.c.seq <= bindparam("last", type_=BigInteger),
        events.c.deleted_at.is_(None),
    )
    .order_by(events.c.seq)
    .limit(literal_column(str(_PAGE)))
)
_SETTLE = Statement(
    update(session_counters)
    .where(*_AT, _counters.token_edits == bindparam("seen_edits", type_=BigInteger))
    .values(
        token_count=bindparam("new_count", type_=BigInteger),
        tokens_to=bindparam("new_to", type_=BigInteger),
    )
)
_NUMBER = bindparam("at_number", type_=BigInteger)
_UNCOUNTED = _counters.tokens_to >= _NUMBER
_EDIT = Statement(
    update(session_counters)
    .where(*_AT, _counters.last_seq - literal_column(str(TAIL)) >= _NUMBER)
    .values(
        token_edits=_counters.token_edits + 1,
        token_count=case((_UNCOUNTED, 0), else_=_counters.token_count),
        tokens_to=case((_UNCOUNTED, 0), else_=_counters.tokens_to),
    )
)


@dataclass(frozen=True, slots=True)
class TokenState:
    """How far a session is counted."""

    last_seq: int
    count: int
    to: int
    """The number up to which `count` is what it is."""
    edits: int


def state(space_id: str, session_id: str) -> Steps[TokenState | None]:
    """How far the session is counted; None where no strategy asks for it."""
    rows = yield _STATE, {"at_space": space_id, "at_session": session_id}
    for strategies, ran, *rest in rows:
        if lifecycle.counts_tokens(lifecycle.from_json(strategies), lifecycle.parse_ran(ran)):
            return TokenState(*rest)
    return None


def bodies(space_id: str, session_id: str, after: int, last: int) -> Steps[tuple[list[str], int]]:
    """Bodies of a few events after a number, and the number that they reach to."""
    rows = yield _BODIES, {"at_space": space_id, "at_session": session_id, "after": after, "last": last}
    return [row[1] for row in rows], rows[-1][0] if len(rows) == _PAGE else last


def settle(space_id: str, session_id: str, seen: TokenState, count: int, to: int) -> Steps[None]:
    """Keep a count, unless an event that it may have read was changed since."""
    yield (
        _SETTLE,
        {"at_space": space_id, "at_session": session_id, "seen_edits": seen.edits, "new_count": count, "new_to": to},
    )


def edited(space_id: str, session_id: str, sequence_id: int, now: int) -> Steps[None]:
    """Count again what an event that was changed or deleted is part of."""
    yield _EDIT, {"at_space": space_id, "at_session": session_id, "at_number": sequence_id}
    yield from jobs.wake(space_id, session_id, LIFECYCLE, now)
