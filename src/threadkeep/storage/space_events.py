"""Events of many sessions of one space at once: those that have given keys, and the newest of each session."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, or_, select
from sqlalchemy.types import Text

from threadkeep.domain.event import Event
from threadkeep.storage import text
from threadkeep.storage.events import EVENT_COLUMNS, to_event
from threadkeep.storage.sessions import OPEN_SPACE
from threadkeep.storage.statement import Statement, Steps, wanted_values
from threadkeep.storage.tables import event_lookup_keys, events, session_counters

SIZES = (1, 4, 16, 64, 100)
"""What a list of keys or sessions is filled up to, so that few statements are prepared."""
Found = list[tuple[str, Event]]
"""Events, each with its session."""

_TYPE = bindparam("type", type_=Text)


@cache
def with_keys(size: int) -> Statement:
    """A page of the events that have any of the keys, by session and number."""
    chosen = _chosen(size).subquery("chosen")
    return Statement(
        select(events.c.session_id, *EVENT_COLUMNS)
        .join(
            chosen,
            (events.c.space_id == bindparam("space_id"))
            & (events.c.session_id == chosen.c.session_id)
            & (events.c.seq == chosen.c.seq),
        )
        .order_by(events.c.session_id, events.c.seq)
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )


@cache
def count_with_keys(size: int) -> Statement:
    """The number of events that have any of the keys."""
    return Statement(select(func.count()).select_from(_chosen(size).subquery("chosen")))


@cache
def newest_of(size: int, of_type: bool) -> Statement:
    """The newest event of each of the sessions."""
    wanted = wanted_values(size, {"space": Text, "session": Text})
    newer = events.alias("newer")
    # Not max(): with the condition on deleted_at it would walk the whole session.
    last = (
        select(newer.c.seq)
        .where(
            newer.c.space_id == bindparam("space_id"),
            newer.c.session_id == session_counters.c.session_id,
            newer.c.deleted_at.is_(None),
            *([newer.c.type == _TYPE] if of_type else []),
        )
        .order_by(newer.c.seq.desc())
        .limit(1)
        .correlate(session_counters)
        .scalar_subquery()
    )
    # A session that is deleted has no counters, whatever its events say.
    return Statement(
        select(events.c.session_id, *EVENT_COLUMNS)
        .select_from(session_counters)
        .join(
            wanted,
            (session_counters.c.space_id == wanted.c.space) & (session_counters.c.session_id == wanted.c.session),
        )
        .join(
            events,
            (events.c.space_id == bindparam("space_id"))
            & (events.c.session_id == session_counters.c.session_id)
            & (events.c.seq == last),
        )
        .order_by(events.c.session_id)
    )


def having(
    space_id: str, user_id: str, keys: Sequence[str], event_type: str | None, offset: int, limit: int
) -> Steps[tuple[Found, int] | None]:
    """A page of the events that have any of the keys, and the number of them all. None where there is no such space."""
    if not (yield OPEN_SPACE, {"space_id": space_id, "user_id": user_id}):
        return None
    if not keys:
        return [], 0
    wanted = _filled(space_id, "key", [text.encode(key) for key in keys])
    size = len(wanted) // 2
    values = {"space_id": space_id, "type": text.encode_optional(event_type), **wanted}
    rows = yield with_keys(size), {**values, "limit": limit, "offset": offset}
    found = [(row[0], to_event(row[1:])) for row in rows]
    if offset == 0 and len(rows) < limit:
        return found, len(rows)
    ((count,),) = yield count_with_keys(size), values
    return found, count


def newest(space_id: str, user_id: str, session_ids: Sequence[str], event_type: str | None) -> Steps[Found | None]:
    """The newest event of each of the sessions that is there and has one. None where there is no such space."""
    if not (yield OPEN_SPACE, {"space_id": space_id, "user_id": user_id}):
        return None
    if not session_ids:
        return []
    wanted = _filled(space_id, "session", session_ids)
    values = {"space_id": space_id, **wanted}
    if event_type is not None:
        values["type"] = text.encode(event_type)
    rows = yield newest_of(len(wanted) // 2, event_type is not None), values
    # A session that fills up the list is there again.
    return [*{row[0]: (row[0], to_event(row[1:])) for row in rows}.values()]


def _chosen(size: int) -> Select[Any]:
    wanted = wanted_values(size, {"space": Text, "key": Text})
    keys = event_lookup_keys.c
    # Joined to what is wanted, so that each key is one step into the primary key, with a type or without.
    return (
        select(keys.session_id, keys.seq)
        .join(wanted, (keys.space_id == wanted.c.space) & (keys.lookup_key == wanted.c.key))
        .join(
            session_counters,
            (session_counters.c.space_id == keys.space_id) & (session_counters.c.session_id == keys.session_id),
        )
        .where(or_(_TYPE.is_(None), keys.type == _TYPE))
        .distinct()
    )


def _filled(space_id: str, name: str, values: Sequence[str]) -> dict[str, str]:
    """The values by the names of their parameters, the last one again and again until there are enough."""
    size = next(size for size in SIZES if size >= len(values))
    wanted = {f"{name}_{row}": values[min(row, len(values) - 1)] for row in range(size)}
    return wanted | {f"space_{row}": space_id for row in range(size)}
