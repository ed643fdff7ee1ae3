"""Memories in the database: how they come, change and go, each change with its line of history. Nothing here commits.

Whoever changes the memories of a space takes its version first (`memory_versions`).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, literal_column, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep import ids
from threadkeep.domain.memory import (
    Memory,
    MemoryChange,
    MemoryEdit,
    MemoryScope,
    MemorySource,
    group_sources,
    merged_sources,
    new_sources,
)
from threadkeep.storage import memory_history, memory_search, memory_versions, text, vectors
from threadkeep.storage.statement import InsertMany, Row, Statement, Steps
from threadkeep.storage.tables import (
    events,
    memories,
    memory_sources,
)

MEMORY_COLUMNS = (
    memories.c.memory_id,
    memories.c.space_id,
    memories.c.user_id,
    memories.c.agent_id,
    memories.c.app_id,
    memories.c.run_id,
    memories.c.text,
    memories.c.metadata,
    memories.c.categories,
    memories.c.attributed_to,
    memories.c.expiration_date,
    memories.c.created_at,
    memories.c.updated_at,
)
_AT_SPACE = bindparam("at_space", type_=Text)
_AT_MEMORY = bindparam("at_memory", type_=Text)
_THIS = (memories.c.space_id == _AT_SPACE, memories.c.memory_id == _AT_MEMORY)
_INSERT = InsertMany(memories, [column for column in memories.c if column.name != "deleted_at"])
_INSERT_SOURCES = InsertMany(memory_sources, list(memory_sources.c))
_GET = Statement(select(*MEMORY_COLUMNS).where(*_THIS, memories.c.deleted_at.is_(None)))
_GET_KEPT = Statement(select(*MEMORY_COLUMNS).where(*_THIS))
_SOURCES = Statement(
    select(memory_sources.c.session_id, memory_sources.c.seq)
    .where(memory_sources.c.space_id == _AT_SPACE, memory_sources.c.memory_id == _AT_MEMORY)
    .order_by(memory_sources.c.session_id, memory_sources.c.seq)
)
_SET = Statement(
    update(memories)
    .where(*_THIS, memories.c.deleted_at.is_(None))
    .values(
        {
            name: bindparam(f"new_{name}", type_=memories.c[name].type)
            for name in ("text", "digest", "metadata", "categories", "attributed_to", "expiration_date", "updated_at")
        }
    )
)
_DELETE = Statement(
    update(memories)
    .where(*_THIS, memories.c.deleted_at.is_(None))
    .values(deleted_at=bindparam("now", type_=BigInteger), version=bindparam("new_version", type_=BigInteger))
)
_SAYS_OTHER = Statement(update(memories).where(*_THIS).values(version=bindparam("new_version", type_=BigInteger)))
_SAID = Statement(
    select(memories.c.memory_id)
    .where(
        memories.c.space_id == _AT_SPACE,
        memories.c.digest == bindparam("digest", type_=Text),
        memories.c.scope == bindparam("scope", type_=Text),
        memories.c.deleted_at.is_(None),
    )
    .limit(1)
)
# Locked against removal until this transaction ends: an erasure that waits for it sees the memory then, and takes it.
_HOLD_EVENT = Statement(
    select(literal_column("1"))
    .select_from(events)
    .where(
        events.c.space_id == _AT_SPACE,
        events.c.session_id == bindparam("at_session", type_=Text),
        events.c.seq == bindparam("at_number", type_=BigInteger),
        events.c.deleted_at.is_(None),
    )
    .with_for_update(read=True)
)
_OF_SCOPE = Statement(
    select(*MEMORY_COLUMNS)
    .where(
        memories.c.space_id == _AT_SPACE,
        memories.c.scope == bindparam("scope", type_=Text),
        memories.c.deleted_at.is_(None),
    )
    .order_by(memories.c.memory_id.desc())
    .limit(bindparam("limit", type_=BigInteger))
)


def apply(
    space_id: str, scope: MemoryScope, changes: Sequence[MemoryChange], at: int, *, keeps_doubles: bool = False
) -> Steps[list[Memory | None]]:
    """Carry out what was decided for memories of one scope, in order.

    Returns for each change the memory as it is then, the deleted one as it was; None where there was nothing to do:
    the memory is gone, of another scope, or no longer says what the decision was made upon; the scope has one that
    says the same (unless doubles are to be kept); or an event that the change came from was deleted meanwhile.
    Raises NotFound where the space is gone.
    """
    version = yield from memory_versions.take(space_id)
    done: list[Memory | None] = []
    for change in changes:
        if not (yield from _are_there(space_id, change.sources)):
            done.append(None)
        elif change.event == "ADD":
            is_new = keeps_doubles or not (yield from _is_said(space_id, scope, change.text or ""))
            done.append((yield from _add(space_id, scope, change, version, at)) if is_new else None)
        else:
            known = yield from find(space_id, change.memory_id or "")
            if known is None or known.scope != scope or change.old_text not in (None, known.text):
                done.append(None)
            elif change.event == "DELETE":
                done.append((yield from _delete(known, change, version, at)))
            else:
                done.append((yield from _update(known, change, version, at)))
    if any(done):
        yield from vectors.want(space_id, at)
    return done


def find(space_id: str, memory_id: str) -> Steps[Memory | None]:
    """The memory with its sources, whoever's the space is."""
    at = {"at_space": space_id, "at_memory": memory_id}
    rows = yield _GET, at
    if not rows:
        return None
    return to_memory(rows[0], group_sources((row[0], row[1]) for row in (yield _SOURCES, at)))


def find_kept(space_id: str, memory_id: str) -> Steps[Memory | None]:
    """The memory as it was last, without its sources: also where it was deleted and is not purged yet."""
    rows = yield _GET_KEPT, {"at_space": space_id, "at_memory": memory_id}
    return to_memory(rows[0]) if rows else None


def candidates(space_id: str, scope: MemoryScope, limit: int) -> Steps[list[Memory]]:
    """The newest memories of exactly this scope, without their sources."""
    kept = text.encode(scope.key)
    return [to_memory(row) for row in (yield _OF_SCOPE, {"at_space": space_id, "scope": kept, "limit": limit})]


def edit(space_id: str, memory_id: str, wanted: MemoryEdit, at: int) -> Steps[Memory | None]:
    """Change a memory by hand. None: it is not there. Raises NotFound where the space is gone."""
    version = yield from memory_versions.take(space_id)
    known = yield from find(space_id, memory_id)
    if known is None:
        return None
    expiration = None if wanted.clears_expiration else known.expiration_date
    changed = replace(
        known,
        text=wanted.text if wanted.text is not None else known.text,
        metadata=wanted.metadata if wanted.metadata is not None else known.metadata,
        expiration_date=wanted.expiration_date or expiration,
        updated_at=wanted.updated_at if wanted.updated_at is not None else at,
    )
    yield from _set(known, changed, version)
    yield from memory_history.note(changed, "UPDATE", known.text, changed.text, changed.attributed_to, (), at)
    yield from vectors.want(space_id, at)
    return changed


def remove(space_id: str, memory_ids: Sequence[str], at: int) -> Steps[list[str]]:
    """Soft-delete memories. Returns the ids of those that were there. Raises NotFound where the space is gone."""
    version = yield from memory_versions.take(space_id)
    gone: list[str] = []
    for memory_id in memory_ids:
        known = yield from find(space_id, memory_id)
        if known is not None:
            yield from _delete(known, MemoryChange("DELETE", memory_id), version, at)
            gone.append(memory_id)
    return gone


def digest(said: str) -> str:
    """The same for texts that differ in case and space alone."""
    return hashlib.sha256(" ".join(said.casefold().split()).encode("utf-8", "surrogatepass")).hexdigest()


def _are_there(space_id: str, sources: Sequence[MemorySource]) -> Steps[bool]:
    for source in sources:
        for number in source.sequence_ids:
            at = {"at_space": space_id, "at_session": source.session_id, "at_number": number}
            if not (yield _HOLD_EVENT, at):
                return False
    return True


def _is_said(space_id: str, scope: MemoryScope, said: str) -> Steps[bool]:
    wanted = {"at_space": space_id, "digest": digest(said), "scope": text.encode(scope.key)}
    return bool((yield _SAID, wanted))


def _add(space_id: str, scope: MemoryScope, change: MemoryChange, version: int, at: int) -> Steps[Memory]:
    said_at = at if change.created_at is None else change.created_at
    made = Memory(
        ids.new_id(),
        space_id,
        scope,
        change.text or "",
        change.metadata,
        change.categories or (),
        change.attributed_to,
        change.expiration_date,
        said_at,
        said_at,
        change.sources,
    )
    yield _INSERT, [(*_row(made), version)]
    yield from memory_search.add(space_id, made.id, made.text)
    yield from _add_sources(made, change.sources)
    yield from memory_history.note(made, "ADD", None, made.text, made.attributed_to, change.sources, at)
    return made


def _update(known: Memory, change: MemoryChange, version: int, at: int) -> Steps[Memory | None]:
    changed = replace(
        known,
        text=known.text if change.text is None else change.text,
        metadata=known.metadata if change.metadata is None else change.metadata,
        categories=known.categories if change.categories is None else change.categories,
        attributed_to=known.attributed_to if change.attributed_to is None else change.attributed_to,
        expiration_date=known.expiration_date if change.expiration_date is None else change.expiration_date,
        updated_at=at,
        sources=merged_sources(known.sources, change.sources),
    )
    if changed == replace(known, updated_at=at):
        return None
    yield from _set(known, changed, version)
    yield from _add_sources(changed, new_sources(known.sources, change.sources))
    yield from memory_history.note(
        changed, "UPDATE", known.text, changed.text, change.attributed_to, change.sources, at
    )
    return changed


def _delete(known: Memory, change: MemoryChange, version: int, at: int) -> Steps[Memory]:
    yield _DELETE, {"at_space": known.space_id, "at_memory": known.id, "now": at, "new_version": version}
    yield from memory_search.remove(known.space_id, known.id)
    yield from vectors.forget(known.space_id, known.id)
    yield from memory_history.note(known, "DELETE", known.text, None, change.attributed_to, change.sources, at)
    return known


def _set(known: Memory, changed: Memory, version: int) -> Steps[None]:
    yield (
        _SET,
        {
            "at_space": changed.space_id,
            "at_memory": changed.id,
            "new_text": text.encode(changed.text),
            "new_digest": digest(changed.text),
            "new_metadata": changed.metadata,
            "new_categories": _categories(changed),
            "new_attributed_to": text.encode_optional(changed.attributed_to),
            "new_expiration_date": changed.expiration_date,
            "new_updated_at": changed.updated_at,
        },
    )
    if changed.text != known.text:
        yield from memory_search.remove(changed.space_id, changed.id)
        yield from memory_search.add(changed.space_id, changed.id, changed.text)
        # What the old text meant must not be found under the new one.
        yield from vectors.forget(changed.space_id, changed.id)
        yield _SAYS_OTHER, {"at_space": changed.space_id, "at_memory": changed.id, "new_version": version}


def _add_sources(memory: Memory, sources: Sequence[MemorySource]) -> Steps[None]:
    numbers = {(source.session_id, number) for source in sources for number in source.sequence_ids}
    if numbers:
        yield _INSERT_SOURCES, [(memory.space_id, memory.id, *place) for place in sorted(numbers)]


def to_memory(row: Row, sources: tuple[MemorySource, ...] = ()) -> Memory:
    """A memory from the columns of MEMORY_COLUMNS."""
    memory_id, space_id, user_id, agent_id, app_id, run_id, said, metadata, categories, who, expires, made, changed = (
        row
    )
    return Memory(
        memory_id,
        space_id,
        MemoryScope(*(text.decode_optional(kept) for kept in (user_id, agent_id, app_id, run_id))),
        text.decode(said),
        metadata,
        tuple(json.loads(categories)),
        text.decode_optional(who),
        expires,
        made,
        changed,
        sources,
    )


def _row(memory: Memory) -> tuple[Any, ...]:
    scope = memory.scope
    return (
        memory.space_id,
        memory.id,
        text.encode(scope.key),
        *(text.encode_optional(each) for each in (scope.user_id, scope.agent_id, scope.app_id, scope.run_id)),
        text.encode(memory.text),
        digest(memory.text),
        memory.metadata,
        _categories(memory),
        text.encode_optional(memory.attributed_to),
        memory.expiration_date,
        memory.created_at,
        memory.updated_at,
    )


def _categories(memory: Memory) -> str:
    return json.dumps(memory.categories)
