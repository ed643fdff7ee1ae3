"""Deduplication keys of events: which of those that callers bring are taken. Nothing here commits.

The counters of the sessions are locked before the look: whoever appends to a session afterwards waits, so that a key
that is free stays free until this transaction has used it. Nothing here runs for events without a key.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache

from sqlalchemy import select, update
from sqlalchemy.types import Text

from threadkeep.storage.spaces import is_theirs
from threadkeep.storage.statement import Statement, Steps, chunks, flat, wanted_values
from threadkeep.storage.tables import events, session_counters

SIZES = (64, 16, 4, 1)
"""Few sizes, since keys are rare."""
Owned = tuple[str, str, str]
"""The space, the session and the user who owns them."""
Key = tuple[str, str, str]
"""The space, the session and the key as it is kept."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The key, as it is kept, and the number of the event that has it."""

    key: str
    sequence_id: int


@cache
def lock(size: int) -> Statement:
    """Lock the counters of sessions, each if it is its owner's.

    An UPDATE that changes nothing: a sharded engine takes FOR UPDATE on rows of one space only.
    """
    wanted = wanted_values(size, {"space": Text, "session": Text, "owner": Text})
    counters = session_counters.c
    return Statement(
        update(session_counters)
        .where(counters.space_id == wanted.c.space, counters.session_id == wanted.c.session, is_theirs(wanted))
        .values(last_seq=counters.last_seq)
        .returning(counters.space_id, counters.session_id)
    )


@cache
def find(size: int) -> Statement:
    """The events that have the keys."""
    wanted = wanted_values(size, {"space": Text, "session": Text, "key": Text})
    return Statement(
        select(events.c.space_id, events.c.session_id, events.c.deduplication_key, events.c.seq).join(
            wanted,
            (events.c.space_id == wanted.c.space)
            & (events.c.session_id == wanted.c.session)
            & (events.c.deduplication_key == wanted.c.key)
            # What the index is of.
            & events.c.deduplication_key.is_not(None),
        )
    )


def hold(owned: Iterable[Owned]) -> Steps[set[Owned]]:
    """Lock sessions. Returns those that are there and belong to the user who is named with them."""
    held: set[Owned] = set()
    waiting = set(owned)
    while waiting:
        # The answer names the session alone, so that two who claim it are asked about one after the other.
        asked = {(space, session): (space, session, user) for space, session, user in waiting}
        for chunk in chunks(sorted(asked.values()), SIZES):
            held.update(asked[space, session] for space, session in (yield lock(len(chunk)), flat(chunk)))
        waiting.difference_update(asked.values())
    return held


def taken(keys: Collection[Key]) -> Steps[dict[Key, Taken]]:
    """Those of the keys that are taken."""
    found: dict[Key, Taken] = {}
    for chunk in chunks(sorted(set(keys)), SIZES):
        for space_id, session_id, key, seq in (yield find(len(chunk)), flat(chunk)):
            found[space_id, session_id, key] = Taken(key, seq)
    return found
