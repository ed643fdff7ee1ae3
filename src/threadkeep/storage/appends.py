"""Appends in the database, in groups. Nothing here commits.

Many callers share a transaction, and each still gets its own answer. The counters of a session are where the numbers
come from: one UPDATE locks them, counts and hands out a range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import EllipsisType
from typing import Any

from sqlalchemy import Column, case, literal_column, null, or_, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.event import Event, EventDraft
from threadkeep.domain.job import LIFECYCLE
from threadkeep.storage import event_keys, jobs, lookup_keys, text
from threadkeep.storage.event_keys import Taken
from threadkeep.storage.lookup_keys import Held
from threadkeep.storage.spaces import is_theirs
from threadkeep.storage.statement import InsertMany, Statement, Steps, chunks, flat, wanted_values
from threadkeep.storage.tables import events, participants, session_counters
from threadkeep.telemetry import metrics

LISTED_LAG = 1_000_000
"""Microseconds that the activity in `participants` may lag behind: so often, at most, an append writes there."""

_LIST_SIZES = (64, 16, 4, 1)
"""Few sizes, since these are rarely written."""

_INSERTED: tuple[Column[Any], ...] = (
    events.c.space_id,
    events.c.session_id,
    events.c.seq,
    events.c.type,
    events.c.emitter_type,
    events.c.emitter_id,
    events.c.body,
    events.c.created_at,
    events.c.updated_at,
)


_INSERT = InsertMany(events, _INSERTED)
_INSERT_KEYED = InsertMany(events, (*_INSERTED, events.c.deduplication_key, events.c.lookup_keys))
Answer = list[Event] | Taken | Held | None
"""The events that were appended, the key that is taken, or None where the session is not there."""


@dataclass(slots=True)
class Append:
    """One caller's wish: these events at the end of that session."""

    space_id: str
    session_id: str
    user_id: str
    drafts: Sequence[EventDraft]
    now: int
    size: int
    """Bytes, roughly: what a group is bounded by."""
    keys: tuple[str, ...] = ()
    """The deduplication keys of the drafts that have one, as they are kept."""
    lookups: tuple[tuple[str, str], ...] = ()
    """The types and lookup keys of the drafts that have some, as they are kept."""


@cache
def _advance(size: int) -> Statement:
    """Take ranges of numbers for `size` sessions at once: locks the rows and counts."""
    wanted = wanted_values(
        size, {"space": Text, "session": Text, "owner": Text, "n": BigInteger, "at": BigInteger, "type": Text}
    )
    counters = session_counters.c
    lag = literal_column(str(LISTED_LAG), BigInteger)
    return Statement(
        update(session_counters)
        .where(counters.space_id == wanted.c.space, counters.session_id == wanted.c.session, is_theirs(wanted))
        .values(
            last_seq=counters.last_seq + wanted.c.n,
            event_count=counters.event_count + wanted.c.n,
            # Never back, whatever the clocks of other processes say.
            last_activity_at=case(
                (counters.last_activity_at < wanted.c.at, wanted.c.at), else_=counters.last_activity_at
            ),
            listed_at=case((counters.listed_at + lag <= wanted.c.at, wanted.c.at), else_=counters.listed_at),
            sole_type=case(
                (or_(counters.last_seq == literal_column("0"), counters.sole_type == wanted.c.type), wanted.c.type),
                else_=null(),
            ),
        )
        .returning(
            counters.space_id,
            counters.session_id,
            counters.last_seq,
            counters.listed_at,
            counters.event_count >= counters.wake_count,
        )
    )


@cache
def _list(size: int) -> Statement:
    """Bring the activity of `size` sessions to where their participants' lists are sorted by it."""
    wanted = wanted_values(size, {"space": Text, "session": Text, "at": BigInteger})
    return Statement(
        update(participants)
        .where(participants.c.space_id == wanted.c.space, participants.c.session_id == wanted.c.session)
        .values(listed_at=wanted.c.at)
    )


def append_group(wishes: Sequence[Append]) -> Steps[list[Answer]]:
    """Append for many callers at once. A caller who cannot be served hears why, and disturbs nobody."""
    metrics.append_group.observe(len(wishes))
    if any(wish.keys or wish.lookups for wish in wishes):
        return (yield from _append_keyed(wishes))
    return (yield from _append(wishes))


def append_one(wish: Append) -> Steps[Answer]:
    """Append for one caller."""
    (answer,) = yield from append_group([wish])
    return answer


def _append_keyed(wishes: Sequence[Append]) -> Steps[list[Answer]]:
    """Append for those whose keys are free. The others are left out before any number is taken."""
    owned = [(wish.space_id, wish.session_id, wish.user_id) for wish in wishes]
    # A lookup key needs no lock: its index is its guard, and tells nothing to a stranger.
    held = (yield from event_keys.hold(owned)) if any(wish.keys for wish in wishes) else set(owned)
    # Where the session is not theirs, no key is looked for: a stranger learns nothing of it.
    keys = [
        [(wish.space_id, wish.session_id, key) for key in wish.keys] if mine in held else []
        for wish, mine in zip(wishes, owned, strict=True)
    ]
    lookups = [
        [(wish.space_id, wish.user_id, *lookup) for lookup in wish.lookups] if mine in held else []
        for wish, mine in zip(wishes, owned, strict=True)
    ]
    taken: dict[Any, Taken | Held] = {
        **(yield from event_keys.taken([key for some in keys for key in some])),
        **(yield from lookup_keys.taken([key for some in lookups for key in some])),
    }
    answers: list[Answer] = [None] * len(wishes)
    going: list[int] = []
    waiting: list[int] = []
    refused: list[tuple[int, Taken | Held]] = []
    used: set[Any] = set()
    for index, mine in enumerate(zip(keys, lookups, strict=True)):
        wanted = [*mine[0], *mine[1]]
        refusal = next((taken[key] for key in wanted if key in taken), None)
        if refusal is not None:
            refused.append((index, refusal))
        elif used.isdisjoint(wanted):
            used.update(wanted)
            going.append(index)
        else:
            # Another caller of this group is first with the key; what becomes of it, the next round sees.
            waiting.append(index)
    if refused:
        # A lookup key is the space's: that the session is there is asked only where it matters.
        held &= yield from event_keys.hold([owned[index] for index, _ in refused])
        for index, refusal in refused:
            answers[index] = refusal if owned[index] in held else None
    for indexes, append in ((going, _append), (waiting, _append_keyed)):
        if indexes:
            made = yield from append([wishes[n] for n in indexes])
            for index, answer in zip(indexes, made, strict=True):
                answers[index] = answer
    return answers


def _append(wishes: Sequence[Append]) -> Steps[list[Answer]]:
    user_of: dict[tuple[str, str], str] = {}
    counts: dict[tuple[str, str], int] = {}
    types: dict[tuple[str, str], str | None] = {}
    strangers: list[int] = []
    for index, wish in enumerate(wishes):
        place = (wish.space_id, wish.session_id)
        if user_of.setdefault(place, wish.user_id) != wish.user_id:
            strangers.append(index)
        else:
            counts[place] = counts.get(place, 0) + len(wish.drafts)
            types[place] = _sole_type(wish.drafts, types.get(place, ...))
    now = max(wish.now for wish in wishes)
    # Sorted, so that two processes take the row locks in one order.
    wanted = [(*place, user_of[place], n, now, types[place]) for place, n in sorted(counts.items())]
    next_number: dict[tuple[str, str], int] = {}
    moved: list[tuple[str, str, int]] = []
    woken: list[tuple[str, str]] = []
    for chunk in chunks(wanted):
        for space_id, session_id, last, listed_at, wakes in (yield _advance(len(chunk)), flat(chunk)):
            next_number[space_id, session_id] = last - counts[space_id, session_id] + 1
            if listed_at == now:
                moved.append((space_id, session_id, now))
            if wakes:
                woken.append((space_id, session_id))
    answers: list[Answer] = []
    rows: list[tuple[Any, ...]] = []
    keyed_rows: list[tuple[Any, ...]] = []
    lookup_rows: list[tuple[str, str, str, str, int]] = []
    for wish in wishes:
        place = (wish.space_id, wish.session_id)
        first = next_number.get(place)
        if first is None or user_of[place] != wish.user_id:
            answers.append(None)
            continue
        next_number[place] = first + len(wish.drafts)
        made = [
            Event(first + n, draft.body, draft.type, draft.emitter_type, draft.emitter_id, now, draft.deduplication_key)
            for n, draft in enumerate(wish.drafts)
        ]
        if wish.keys or wish.lookups:
            for event, draft in zip(made, wish.drafts, strict=True):
                event.lookup_keys = lookup_keys.kept(draft.lookup_keys)
                keyed_rows.append(
                    (*_row(wish, event), text.encode_optional(event.deduplication_key), event.lookup_keys)
                )
                type_ = text.encode(draft.type or "")
                lookup_rows += [
                    (wish.space_id, text.encode(key), type_, wish.session_id, event.sequence_id)
                    for key in draft.lookup_keys
                ]
        else:
            rows += [_row(wish, event) for event in made]
        answers.append(made)
    if rows:
        yield _INSERT, rows
    if keyed_rows:
        yield _INSERT_KEYED, keyed_rows
    if lookup_rows:
        yield from lookup_keys.put(lookup_rows)
    for moved_chunk in chunks(sorted(moved), _LIST_SIZES):
        yield _list(len(moved_chunk)), flat(moved_chunk)
    for place in sorted(woken):
        yield from jobs.wake(*place, LIFECYCLE, now)
    if strangers:
        # Two users name one session in one group: one of them has it, and which one only the database knows.
        for index, answer in zip(strangers, (yield from _append([wishes[n] for n in strangers])), strict=True):
            answers[index] = answer
    return answers


def compile_for(dialect: str) -> None:
    """Compile all that appends may run, so that no caller waits for it: some of it takes 30 milliseconds."""
    for size in InsertMany.SIZES:
        _advance(size).sql(dialect)
        _INSERT.of(size).sql(dialect)
    for size in _LIST_SIZES:
        _list(size).sql(dialect)


def _sole_type(drafts: Sequence[EventDraft], known: str | EllipsisType | None) -> str | None:
    """The one type of the drafts and of what is known before them ('' is none), or None where they differ."""
    first = text.encode(drafts[0].type or "")
    if known not in (..., first) or any(draft.type != drafts[0].type for draft in drafts):
        return None
    return first


def _row(wish: Append, event: Event) -> tuple[Any, ...]:
    type_, emitter = event.type, event.emitter_id
    return (
        wish.space_id,
        wish.session_id,
        event.sequence_id,
        None if type_ is None else text.encode(type_),
        event.emitter_type,
        None if emitter is None else text.encode(emitter),
        event.body,
        event.created_at,
        event.created_at,
    )
