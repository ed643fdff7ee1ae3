"""Memories that go with what they came from, or with whom they are about. Statements and operations; nothing commits.

A memory that drew on several events goes with the first of them: nobody can tell any more which words came from which.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, or_, select, tuple_
from sqlalchemy.types import BigInteger, Text

from threadkeep.storage import memories as stored_memories
from threadkeep.storage import memory_search, memory_versions, text
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import (
    jobs,
    memories,
    memory_additions,
    memory_history,
    memory_sources,
    memory_vectors,
)
from threadkeep.storage.tables import memory_versions as version_rows

Place = tuple[str, str]
"""The space and the id of a memory, or of a request."""

_ROLES = ("user", "assistant", "agent", "system", "developer", "tool")
_AT_SPACE = bindparam("at_space", type_=Text)
_AT_MEMORY = bindparam("at_memory", type_=Text)
_AT_SESSION = bindparam("at_session", type_=Text)
_BEFORE = bindparam("before", type_=BigInteger)
_PERSON = bindparam("person", type_=Text)
_LIMIT = bindparam("limit", type_=BigInteger)
_AFTER = tuple_(bindparam("after_space", type_=Text), bindparam("after_id", type_=Text))
_ROWS = [
    Statement(delete(table).where(table.c.space_id == _AT_SPACE, table.c.memory_id == _AT_MEMORY))
    for table in (memory_sources, memory_history, memory_vectors, memories)
]
_OF_SESSION = Statement(
    select(memory_sources.c.memory_id)
    .where(memory_sources.c.space_id == _AT_SPACE, memory_sources.c.session_id == _AT_SESSION)
    .distinct()
)
_OF_EVENT = Statement(
    select(memory_sources.c.memory_id).where(
        memory_sources.c.space_id == _AT_SPACE,
        memory_sources.c.session_id == _AT_SESSION,
        memory_sources.c.seq == bindparam("at_number", type_=BigInteger),
    )
)
_IN_SPACE = Statement(select(memories.c.memory_id).where(memories.c.space_id == _AT_SPACE).limit(_LIMIT))
_DELETED = Statement(
    select(memories.c.space_id, memories.c.memory_id)
    .where(memories.c.deleted_at <= _BEFORE)
    .order_by(memories.c.deleted_at)
    .limit(_LIMIT)
)
_ABOUT = Statement(
    select(memories.c.space_id, memories.c.memory_id)
    .where(
        or_(memories.c.user_id == _PERSON, memories.c.attributed_to == bindparam("said_by", type_=Text)),
        tuple_(memories.c.space_id, memories.c.memory_id) > _AFTER,
    )
    .order_by(memories.c.space_id, memories.c.memory_id)
    .limit(_LIMIT)
)
_ANSWERED = Statement(
    select(memory_additions.c.space_id, memory_additions.c.event_id)
    # One that was carried out has no request any more.
    .where(memory_additions.c.created_at <= _BEFORE, memory_additions.c.request.is_(None))
    .order_by(memory_additions.c.created_at)
    .limit(_LIMIT)
)
_HANDED_IN = Statement(
    select(memory_additions.c.space_id, memory_additions.c.event_id)
    .where(memory_additions.c.user_id == _PERSON)
    .limit(_LIMIT)
)
_REMOVE_ADDITION = Statement(
    delete(memory_additions).where(
        memory_additions.c.space_id == _AT_SPACE, memory_additions.c.event_id == bindparam("at_event", type_=Text)
    )
)
_REMOVE_ADDITION_JOB = Statement(
    delete(jobs).where(jobs.c.space_id == _AT_SPACE, jobs.c.session_id == bindparam("at_event", type_=Text))
)
_LAST_OF_SPACE: list[Statement] = [
    Statement(delete(table).where(table.c.space_id == _AT_SPACE)) for table in (memory_additions, jobs, version_rows)
]


def delete_along(space_id: str, session_id: str, number: int | None, now: int) -> Steps[list[str]]:
    """Soft-delete the memories that came from a session, or from one event of it. Returns their ids."""
    found = yield from _came_from(space_id, session_id, None if number is None else [number])
    return (yield from stored_memories.remove(space_id, found, now)) if found else []


def remove_along(space_id: str, session_id: str, numbers: Sequence[int] | None = None) -> Steps[int]:
    """Remove for good what came from a session, or from these events of it. Returns how many memories there were."""
    found = yield from _came_from(space_id, session_id, numbers)
    yield from remove(space_id, found)
    return len(found)


def remove(space_id: str, memory_ids: Sequence[str]) -> Steps[None]:
    """Remove memories for good, with their history."""
    if not memory_ids:
        return
    yield from memory_versions.take_away(space_id)
    for memory_id in memory_ids:
        for statement in _ROWS:
            yield statement, {"at_space": space_id, "at_memory": memory_id}
        yield from memory_search.remove(space_id, memory_id)


def remove_of_space(space_id: str, left: int) -> Steps[int]:
    """Remove all memories of a space that is deleted. Returns how many more rows may go; 0 or less: call again."""
    rows = yield _IN_SPACE, {"at_space": space_id, "limit": max(left, 0)}
    yield from remove(space_id, [memory_id for (memory_id,) in rows])
    left -= len(rows)
    if left > 0:
        for statement in _LAST_OF_SPACE:
            yield statement, {"at_space": space_id}
    return left


def remove_deleted(before: int, left: int) -> Steps[int]:
    """Remove what was deleted by that time, and requests that were carried out. Returns how many more rows may go."""
    found = yield _DELETED, {"before": before, "limit": max(left, 0)}
    for space_id, memory_id in found:
        yield from remove(space_id, [memory_id])
    left -= len(found)
    answered = yield _ANSWERED, {"before": before, "limit": max(left, 0)}
    yield from _remove_additions(answered)
    return left - len(answered)


def about(person: str, after: Place, limit: int) -> Steps[list[Place]]:
    """Memories about the person or said by them, in any space, deleted ones included, in the order of their ids."""
    kept = text.encode(person)
    # Whoever is called as a role is has not said all that was said in it.
    said_by = None if person in _ROLES else kept
    values = {"person": kept, "said_by": said_by, "after_space": after[0], "after_id": after[1], "limit": limit}
    return [(row[0], row[1]) for row in (yield _ABOUT, values)]


def remove_handed_in(person: str, limit: int) -> Steps[bool]:
    """Remove messages that were handed in as the person's. Returns whether that was all."""
    found = yield _HANDED_IN, {"person": text.encode(person), "limit": limit}
    yield from _remove_additions(found)
    return len(found) < limit


def _remove_additions(places: Sequence[Any]) -> Steps[None]:
    for space_id, event_id in places:
        yield _REMOVE_ADDITION, {"at_space": space_id, "at_event": event_id}
        yield _REMOVE_ADDITION_JOB, {"at_space": space_id, "at_event": event_id}


def _came_from(space_id: str, session_id: str, numbers: Sequence[int] | None) -> Steps[list[str]]:
    at = {"at_space": space_id, "at_session": session_id}
    if numbers is None:
        return [memory_id for (memory_id,) in (yield _OF_SESSION, at)]
    found: dict[str, None] = {}
    for number in numbers:
        found |= {memory_id: None for (memory_id,) in (yield _OF_EVENT, {**at, "at_number": number})}
    return list(found)
