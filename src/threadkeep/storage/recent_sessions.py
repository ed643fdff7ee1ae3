"""A participant's sessions by newest activity: a statement and an operation.

Activity changes with every append, so no index can follow it. `participants.listed_at` follows in steps of
`LISTED_LAG`: what is newest by it, and as much again as the step may hide, holds what is newest in truth.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal, select, tuple_
from sqlalchemy.types import BigInteger, Integer, Text

from threadkeep.domain.event import Event
from threadkeep.domain.session import Session
from threadkeep.storage import text
from threadkeep.storage.appends import LISTED_LAG
from threadkeep.storage.events import EVENT_COLUMNS, to_event
from threadkeep.storage.sessions import SESSION_COLUMNS, SPACE_IS_MINE, to_session
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import events, participants, runs, session_counters, sessions

_LAG = literal(LISTED_LAG, BigInteger)
_BEFORE_AT = bindparam("before_at", type_=BigInteger)


@dataclass(frozen=True, slots=True)
class RecentSession:
    """A session with its newest event, for a list that is sorted by activity."""

    session: Session
    updated_at: int
    last_event: Event | None
    active_run_id: str | None


def recent(
    space_id: str,
    user_id: str,
    *,
    participant: str,
    prefix: str,
    event_type: str,
    limit: int,
    before: tuple[int, str],
    with_archived: bool,
) -> Steps[list[RecentSession]]:
    """The participant's sessions whose description starts with `prefix`, newest activity first, below `before`."""
    folded = text.fold(prefix)
    rows = yield (
        _RECENT,
        {
            "space_id": space_id,
            "user_id": user_id,
            "participant": text.encode(participant),
            "event_type": event_type,
            "before_at": before[0],
            "before_id": before[1],
            "limit": limit,
            "with_archived": int(with_archived),
            "others": limit - 1,
            "prefix": folded,
            "prefix_length": len(folded),
        },
    )
    width = len(SESSION_COLUMNS)
    return [
        RecentSession(
            to_session(row[:width]),
            row[width],
            None if row[width + 2] is None else to_event(row[width + 2 :]),
            text.decode_optional(row[width + 1]),
        )
        for row in rows
    ]


def _mine(listed: Any) -> list[ColumnElement[bool]]:
    return [
        listed.c.space_id == bindparam("space_id"),
        listed.c.participant == bindparam("participant"),
        listed.c.archived <= bindparam("with_archived", type_=BigInteger),
        func.substr(listed.c.description_folded, 1, bindparam("prefix_length", type_=Integer)) == bindparam("prefix"),
    ]


def _recent() -> Select[Any]:
    # So many sessions are surely below `before`, and were active at this time or later.
    sure = participants.alias("sure")
    reached = (
        select(sure.c.listed_at)
        .where(*_mine(sure), sure.c.listed_at <= _BEFORE_AT - _LAG)
        .order_by(sure.c.listed_at.desc())
        .limit(1)
        .offset(bindparam("others"))
        .scalar_subquery()
    )
    active_at = session_counters.c.last_activity_at
    # What is sorted is small; the rest is fetched for the chosen few.
    ranked = (
        select(session_counters.c.session_id, active_at)
        .join(
            participants,
            and_(
                participants.c.space_id == session_counters.c.space_id,
                participants.c.session_id == session_counters.c.session_id,
            ),
        )
        .where(
            *_mine(participants),
            participants.c.listed_at <= _BEFORE_AT,
            participants.c.listed_at > func.coalesce(reached, literal(0, BigInteger)) - _LAG,
            session_counters.c.space_id == bindparam("space_id"),
            tuple_(active_at, session_counters.c.session_id) < tuple_(_BEFORE_AT, bindparam("before_id", type_=Text)),
        )
        .order_by(active_at.desc(), session_counters.c.session_id.desc())
        .limit(bindparam("limit"))
        .subquery("ranked")
    )
    newer = events.alias("newer")
    newest = (
        select(func.max(newer.c.seq))
        .where(
            newer.c.space_id == bindparam("space_id"),
            newer.c.session_id == ranked.c.session_id,
            newer.c.type == bindparam("event_type"),
            newer.c.deleted_at.is_(None),
        )
        .correlate(ranked)
        .scalar_subquery()
    )
    return (
        select(*SESSION_COLUMNS, ranked.c.last_activity_at, runs.c.run_id, *EVENT_COLUMNS)
        .select_from(ranked)
        .join(
            sessions,
            and_(sessions.c.space_id == bindparam("space_id"), sessions.c.session_id == ranked.c.session_id),
        )
        .outerjoin(runs, and_(runs.c.space_id == bindparam("space_id"), runs.c.active_session == ranked.c.session_id))
        .outerjoin(
            events,
            and_(
                events.c.space_id == bindparam("space_id"),
                events.c.session_id == ranked.c.session_id,
                events.c.seq == newest,
            ),
        )
        .where(SPACE_IS_MINE)
        .order_by(ranked.c.last_activity_at.desc(), ranked.c.session_id.desc())
    )


_RECENT = Statement(_recent())
