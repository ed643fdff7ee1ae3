"""Answers of the mem0 wire, as msgspec writes them.

Their keys are those of `contract.mem0`; a test compares the two.
"""

import json
import uuid
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from threadkeep import clock
from threadkeep.domain.memory import HistoryEntry, Memory
from threadkeep.domain.memory import MemorySource as Source
from threadkeep.services.additions import Addition
from threadkeep.services.memories import Entity, Hit

Score = Annotated[float, Meta(ge=-1.001, le=1.001)]
ENTITY_TYPES = {"user": "user_id", "agent": "agent_id", "app": "app_id", "run": "run_id"}
"""What mem0 calls the four ids of a scope."""
_TYPES = {field: name for name, field in ENTITY_TYPES.items()}
_Metadata = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})]


class MemorySourceOut(Struct, rename="camel"):
    """Events that a memory came from."""

    session_id: str
    sequence_ids: tuple[int, ...]


class MemoryOut(Struct):
    """A memory."""

    id: str
    memory: str
    user_id: str | None
    agent_id: str | None
    app_id: str | None
    run_id: str | None
    session_id: str | None
    metadata: _Metadata
    categories: tuple[str, ...]
    expiration_date: str | None
    created_at: str
    updated_at: str
    attributed_to: str | None
    sources: list[MemorySourceOut]


class ScoreBreakdownOut(Struct):
    """What a score is made of."""

    semantic: Score | None
    keyword: Score


class FoundMemoryOut(MemoryOut):
    """A memory that a search has found."""

    score: Score
    score_breakdown: ScoreBreakdownOut


class MemoryPageOut(Struct):
    """A page of memories, newest first."""

    count: int
    next: str | None
    previous: str | None
    results: list[MemoryOut]


class MemoryListOut(Struct):
    """Memories, newest first; with their number and the pages around where a page was asked for."""

    results: list[MemoryOut]
    count: int | UnsetType = UNSET
    next: str | UnsetType | None = UNSET
    previous: str | UnsetType | None = UNSET


class FoundMemoriesOut(Struct):
    """What a search has found, best first; `note` says so where keywords alone were compared."""

    results: list[FoundMemoryOut]
    note: str | None


class AddedMemoryOut(Struct):
    """What became of an added message."""

    id: str
    memory: str
    event: str
    data: dict[str, str]


class AddedOut(Struct):
    """The answer to an add."""

    status: str
    event_id: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    results: list[AddedMemoryOut] | UnsetType = UNSET


class AddedEntryOut(Struct):
    """What became of an added message, or the event that will tell."""

    id: str | UnsetType = UNSET
    memory: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    data: dict[str, str] | UnsetType = UNSET
    message: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    event_id: str | UnsetType = UNSET


class AddedEntriesOut(Struct):
    """The answer to an add of v1."""

    results: list[AddedEntryOut]


class HistoryLineOut(Struct):
    """One change of a memory."""

    id: str
    memory_id: str
    input: list[Any]
    old_memory: str | None
    new_memory: str | None
    user_id: str | None
    agent_id: str | None
    app_id: str | None
    run_id: str | None
    session_id: str | None
    categories: tuple[str, ...]
    event: str
    metadata: _Metadata
    created_at: str
    updated_at: str
    attributed_to: str | None
    sources: list[MemorySourceOut]


class EntityOut(Struct):
    """Somebody or something that memories are about."""

    id: str
    name: str
    type: str
    owner: str
    metadata: dict[str, Any]
    total_memories: int
    created_at: str
    updated_at: str


class EntitiesOut(Struct):
    """Everybody and everything that the memories of a space are about."""

    count: int
    next: str | None
    previous: str | None
    results: list[EntityOut]
    total_users: int
    total_agents: int
    total_apps: int
    total_runs: int


class PingOut(Struct):
    """Who is calling, and what answers."""

    status: str
    org_id: str
    project_id: str
    user_email: str


class MemoryEventOut(Struct):
    """How it goes with an add that infers."""

    id: str
    event_type: str
    status: str
    results: Annotated[Raw, Meta(extra_json_schema={"type": "array", "items": {"type": "object"}})]
    error: str | None
    created_at: str
    updated_at: str


class MemoryEventsOut(Struct):
    """A page of events, newest first."""

    count: int
    next: str | None
    previous: str | None
    results: list[MemoryEventOut]


class MessageOut(Struct):
    """A sentence on what was done."""

    message: str


def memory_out(memory: Memory) -> MemoryOut:
    return MemoryOut(*_fields(memory))


def found_out(hit: Hit) -> FoundMemoryOut:
    return FoundMemoryOut(*(*_fields(hit.memory), hit.score, ScoreBreakdownOut(hit.semantic, hit.keyword)))


def added_out(memory: Memory) -> AddedMemoryOut:
    return AddedMemoryOut(memory.id, memory.text, "ADD", {"memory": memory.text})


def history_out(memory: Memory, line: HistoryEntry) -> HistoryLineOut:
    scope, at = memory.scope, clock.format_timestamp(line.created_at)
    return HistoryLineOut(
        _id_of(memory.space_id, memory.id, str(line.number)),
        memory.id,
        [],
        line.old_text,
        line.new_text,
        scope.user_id,
        scope.agent_id,
        scope.app_id,
        scope.run_id,
        scope.run_id,
        memory.categories,
        line.event,
        _raw(memory.metadata),
        at,
        at,
        line.attributed_to,
        _sources(line.sources),
    )


def event_out(addition: Addition) -> MemoryEventOut:
    return MemoryEventOut(
        addition.event_id,
        "ADD",
        addition.state,
        Raw((addition.results or "[]").encode()),
        addition.error,
        clock.format_timestamp(addition.created_at),
        clock.format_timestamp(addition.updated_at),
    )


def entities_out(space_id: str, owner: str, entities: list[Entity]) -> EntitiesOut:
    shown = [
        EntityOut(
            _id_of(space_id, entity.field, entity.name),
            entity.name,
            _TYPES[entity.field],
            owner,
            {},
            entity.count,
            clock.format_timestamp(entity.created_at),
            clock.format_timestamp(entity.updated_at),
        )
        for entity in entities
    ]
    of_type = [sum(entity.field == field for entity in entities) for field in ENTITY_TYPES.values()]
    return EntitiesOut(len(shown), None, None, shown, *of_type)


def _fields(memory: Memory) -> tuple[Any, ...]:
    scope = memory.scope
    return (
        memory.id,
        memory.text,
        scope.user_id,
        scope.agent_id,
        scope.app_id,
        scope.run_id,
        scope.run_id,
        _raw(memory.metadata),
        memory.categories,
        memory.expiration_date,
        clock.format_timestamp(memory.created_at),
        clock.format_timestamp(memory.updated_at),
        memory.attributed_to,
        _sources(memory.sources),
    )


def _sources(sources: tuple[Source, ...]) -> list[MemorySourceOut]:
    return [MemorySourceOut(source.session_id, source.sequence_ids) for source in sources]


def _raw(metadata: str | None) -> Raw:
    return Raw((metadata or "null").encode())


def _id_of(*parts: str) -> str:
    """The same id for the same thing, which has none of its own."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(parts)))
