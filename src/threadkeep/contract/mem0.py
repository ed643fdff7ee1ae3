"""Memories on the wire: the shapes of the public `mem0ai` client, whose keys are in snake case.

What mem0 does not know is named at its place; a client of theirs passes it over.
"""

from typing import Any, NotRequired, TypedDict


class MemorySource(TypedDict):
    """Events that a memory came from. Ours."""

    sessionId: str
    sequenceIds: list[int]


class Memory(TypedDict):
    """A memory. `session_id` says the same as `run_id`; `attributed_to` and `sources` are ours."""

    id: str
    memory: str
    user_id: str | None
    agent_id: str | None
    app_id: str | None
    run_id: str | None
    session_id: str | None
    metadata: dict[str, Any] | None
    categories: list[str]
    expiration_date: str | None
    created_at: str
    updated_at: str
    attributed_to: str | None
    sources: list[MemorySource]


class ScoreBreakdown(TypedDict):
    """What a score is made of: the better of the two. `semantic` is null where nothing was compared by meaning."""

    semantic: float | None
    keyword: float


class FoundMemory(Memory):
    """A memory that a search has found; `score` is 0 to 1."""

    score: float
    score_breakdown: ScoreBreakdown


class MemoryPage(TypedDict):
    """A page of memories, newest first."""

    count: int
    next: str | None
    previous: str | None
    results: list[Memory]


class FoundMemories(TypedDict):
    """What a search has found, best first. `note` is ours: it says so where keywords alone were compared."""

    results: list[FoundMemory]
    note: str | None


class AddedMemory(TypedDict):
    """What became of an added message."""

    id: str
    memory: str
    event: str
    data: dict[str, str]


class Added(TypedDict):
    """The answer to an add: at once with `infer: false`, else the id of the event that will have the results."""

    status: str
    event_id: NotRequired[str]
    message: NotRequired[str]
    results: NotRequired[list[AddedMemory]]


class HistoryLine(TypedDict):
    """One change of a memory. `attributed_to` and `sources` are ours."""

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
    categories: list[str]
    event: str
    metadata: dict[str, Any] | None
    created_at: str
    updated_at: str
    attributed_to: str | None
    sources: list[MemorySource]


class Entity(TypedDict):
    """Somebody or something that memories are about."""

    id: str
    name: str
    type: str
    owner: str
    metadata: dict[str, Any]
    total_memories: int
    created_at: str
    updated_at: str


class MemoryEvent(TypedDict):
    """How it goes with an add that infers: PENDING, RUNNING, SUCCEEDED or FAILED."""

    id: str
    event_type: str
    status: str
    results: list[dict[str, Any]]
    error: str | None
    created_at: str
    updated_at: str
