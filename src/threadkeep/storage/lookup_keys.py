"""Lookup keys of events: which are taken, and who takes them. Nothing here commits.

A key is unique among the events of one type in a space. The index alone decides: of two transactions that take one key
at a time, the later one fails at the primary key, is tried again, and then sees who has it.
Rows of a deleted session are in nobody's way: they are replaced where their key is wanted, and purged with the session.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import and_, bindparam, delete, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain import limits
from threadkeep.storage import text
from threadkeep.storage.spaces import is_theirs
from threadkeep.storage.statement import InsertMany, Statement, Steps, chunks, flat, wanted_values
from threadkeep.storage.tables import event_lookup_keys, events, session_counters

SIZES = (64, 16, 4, 1)
Key = tuple[str, str, str, str]
"""The space, its owner, the type of the events as it is kept ('' is none), and the key as it is kept."""

_KEYS = event_lookup_keys.c
_THIS_EVENT = and_(
    _KEYS.space_id == bindparam("at_space"),
    _KEYS.session_id == bindparam("at_session"),
    _KEYS.seq == bindparam("at_number", type_=BigInteger),
)
_INSERT = InsertMany(event_lookup_keys, list(_KEYS))
_FORGET = Statement(delete(event_lookup_keys).where(_THIS_EVENT))
_FORGET_DEAD = Statement(
    delete(event_lookup_keys).where(
        _KEYS.space_id == bindparam("at_space"),
        _KEYS.type == bindparam("of_type", type_=Text),
        _KEYS.lookup_key == bindparam("key", type_=Text),
        ~select(session_counters.c.session_id)
        .where(session_counters.c.space_id == _KEYS.space_id, session_counters.c.session_id == _KEYS.session_id)
        .exists(),
    )
)
_NOTE = Statement(
    update(events)
    .where(
        events.c.space_id == bindparam("at_space"),
        events.c.session_id == bindparam("at_session"),
        events.c.seq == bindparam("at_number", type_=BigInteger),
    )
    .values(lookup_keys=bindparam("new_lookup_keys", type_=Text))
)


@dataclass(frozen=True, slots=True)
class Held:
    """The key, as it is kept, and the event that has it."""

    key: str
    session_id: str
    sequence_id: int


@dataclass(frozen=True, slots=True)
class TooMany:
    """So many keys the event would have."""

    count: int


@cache
def find(size: int) -> Statement:
    """The events that have the keys, and the session of each where it lives."""
    wanted = wanted_values(size, {"space": Text, "owner": Text, "type": Text, "key": Text})
    return Statement(
        select(_KEYS.space_id, _KEYS.type, _KEYS.lookup_key, _KEYS.session_id, _KEYS.seq, session_counters.c.session_id)
        .select_from(
            event_lookup_keys.join(
                wanted,
                (_KEYS.space_id == wanted.c.space) & (_KEYS.type == wanted.c.type) & (_KEYS.lookup_key == wanted.c.key),
            ).outerjoin(
                session_counters,
                (session_counters.c.space_id == _KEYS.space_id) & (session_counters.c.session_id == _KEYS.session_id),
            )
        )
        .where(is_theirs(wanted))
    )


def kept(keys: Sequence[str]) -> str | None:
    """What is kept of an event's keys: a JSON list in ASCII, which any engine holds; None where there are none."""
    return json.dumps(keys, separators=(",", ":")) if keys else None


def taken(keys: Collection[Key]) -> Steps[dict[Key, Held]]:
    """Those of the keys that are taken, each from its owner's point of view."""
    found: dict[Key, Held] = {}
    owner_of = {(space, type_, key): owner for space, owner, type_, key in keys}
    for chunk in chunks(sorted(set(keys)), SIZES):
        for space, type_, key, session_id, seq, lives in (yield find(len(chunk)), flat(chunk)):
            if lives is None:
                yield _FORGET_DEAD, {"at_space": space, "of_type": type_, "key": key}
            else:
                found[space, owner_of[space, type_, key], type_, key] = Held(key, session_id, seq)
    return found


def put(rows: Iterable[tuple[str, str, str, str, int]]) -> Steps[None]:
    """Take keys that are free: the space, the key, the type, the session and the number of the event, each."""
    # Sorted, so that two transactions that want several of the same keys wait for each other in one order.
    ordered = sorted(rows)
    if ordered:
        yield _INSERT, ordered


def forget(space_id: str, session_id: str, sequence_id: int) -> Steps[None]:
    """Free all keys of an event."""
    yield _FORGET, {"at_space": space_id, "at_session": session_id, "at_number": sequence_id}


def add(
    space_id: str,
    session_id: str,
    user_id: str,
    sequence_id: int,
    event_type: str | None,
    present: str | None,
    new: Sequence[str],
    *,
    retyped: bool,
) -> Steps[str | Held | TooMany | None]:
    """Give an event more keys, or all of its keys a new type. Returns what is kept of them then, or what hinders it.

    `event_type` is the one that it has now, `present` what is kept of the keys that it has.
    """
    before: list[str] = [] if present is None else json.loads(present)
    after = list(dict.fromkeys([*before, *new]))
    if len(after) > limits.LOOKUP_KEYS:
        return TooMany(len(after))
    if retyped and before:
        yield from forget(space_id, session_id, sequence_id)
    type_ = text.encode(event_type or "")
    wanted = [text.encode(key) for key in (after if retyped else after[len(before) :])]
    held = yield from taken([(space_id, user_id, type_, key) for key in wanted])
    if held:
        return min(held.values(), key=lambda each: each.key)
    yield from put((space_id, key, type_, session_id, sequence_id) for key in wanted)
    if len(after) > len(before):
        at = {"at_space": space_id, "at_session": session_id, "at_number": sequence_id}
        yield _NOTE, {**at, "new_lookup_keys": kept(after)}
    return kept(after)
