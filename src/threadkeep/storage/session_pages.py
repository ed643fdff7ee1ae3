"""Pages of sessions, oldest first, narrowed by participants, description and key: statements and operations."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, and_, bindparam, func, select, true
from sqlalchemy.types import Text

from threadkeep.domain.session import Session
from threadkeep.storage import search, text
from threadkeep.storage.sessions import LIVE, SESSION_COLUMNS, SPACE, to_session
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import participants, session_counters, sessions, spaces


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list of sessions is narrowed by; None is not asked for."""

    participants: tuple[str, ...] = ()
    needle: str | None = None
    key: str | None = None


def page(
    space_id: str, user_id: str, filters: Filters, offset: int, limit: int, after: str = ""
) -> Steps[tuple[list[Session], int] | None]:
    """A page of the live sessions, oldest first, and the number of all that match. None: no such space.

    `after` is the id of the last session that the caller has seen.
    """
    values: dict[str, Any] = {
        "space_id": space_id,
        "user_id": user_id,
        "limit": limit,
        "offset": offset,
        "after": after,
        **{f"participant_{n}": text.encode(name) for n, name in enumerate(filters.participants)},
    }
    by_trigrams = False
    if filters.needle is not None:
        values |= search.needle_values(filters.needle)
        if not filters.participants and filters.key is None:
            by_trigrams = yield from search.are_few(filters.needle)
    if filters.key is not None:
        values["key"] = text.encode(filters.key)
    rows = yield (
        _page(len(filters.participants), filters.needle is not None, filters.key is not None, by_trigrams),
        values,
    )
    if not rows:
        return None
    return [to_session(row[1:]) for row in rows if row[1] is not None], rows[0][0]


@cache
def _page(participant_count: int, by_needle: bool, by_key: bool, by_trigrams: bool) -> Statement:
    """The count and the page, for one combination of filters.

    Without a row: the space is not there, or not the user's. A page that is empty has one row, with the count alone.
    """
    hits = _hits(participant_count, by_needle, by_key, by_trigrams)
    if participant_count or by_needle or by_key:
        # Used twice, and so worked out once.
        counted: FromClause = hits.cte("hits")
        listed = counted
    else:
        # Nothing to work out: the key is in order, and a count needs no list.
        counted, listed = hits.subquery("counted"), hits.subquery("listed")
    total = select(func.count().label("total")).select_from(counted).subquery("total")
    chosen = (
        select(listed.c.session_id)
        .where(listed.c.session_id > bindparam("after", type_=Text))
        .order_by(listed.c.session_id)
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
        .subquery("chosen")
    )
    return Statement(
        select(total.c.total, *SESSION_COLUMNS)
        .select_from(
            spaces.join(total, true())
            .outerjoin(chosen, true())
            .outerjoin(
                sessions,
                and_(sessions.c.space_id == bindparam("space_id"), sessions.c.session_id == chosen.c.session_id),
            )
        )
        .where(SPACE)
        .order_by(chosen.c.session_id)
    )


def _hits(participant_count: int, by_needle: bool, by_key: bool, by_trigrams: bool) -> Select[tuple[str]]:
    """The ids of all sessions that match."""
    with_key = and_(LIVE, sessions.c.live_key == bindparam("key"))
    if not (participant_count or by_needle or by_key):
        # Narrow rows, of those that live.
        return select(session_counters.c.session_id).where(session_counters.c.space_id == bindparam("space_id"))
    if not participant_count:
        conditions: list[ColumnElement[bool]] = [with_key if by_key else LIVE]
        if by_trigrams:
            conditions.append(search.is_candidate(sessions.c.session_id))
        if by_needle:
            conditions.append(search.contains_needle(sessions.c.description_folded))
        return select(sessions.c.session_id).where(*conditions)
    names = [bindparam(f"participant_{n}", type_=Text) for n in range(participant_count)]
    conditions = [participants.c.space_id == bindparam("space_id")]
    if by_needle:
        conditions.append(search.contains_needle(participants.c.description_folded))
    if by_key:
        conditions.append(participants.c.session_id.in_(select(sessions.c.session_id).where(with_key)))
    if participant_count == 1:
        return select(participants.c.session_id).where(participants.c.participant == names[0], *conditions)
    return select(participants.c.session_id).where(participants.c.participant.in_(names), *conditions).distinct()
