"""Memories in lists: by whom they are about, in pages, by their ids. Statements and operations; nothing here commits.

What a filter says beyond the ids of the scope is judged in Python, the same for both engines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

from sqlalchemy import Column, ColumnElement, Select, and_, bindparam, func, literal_column, or_, select
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.memory import SCOPE_FIELDS, Memory, MemoryScope, group_sources
from threadkeep.domain.memory_filter import Filter, scope_of
from threadkeep.storage import text
from threadkeep.storage.memories import MEMORY_COLUMNS, find, to_memory
from threadkeep.storage.sessions import SPACE
from threadkeep.storage.statement import InsertMany, Statement, Steps, chunks, wanted_values
from threadkeep.storage.tables import memories, memory_sources, memory_vectors, spaces

_AT_SPACE = bindparam("at_space", type_=Text)
_LIMIT = bindparam("limit", type_=BigInteger)
_IN_SPACE = and_(memories.c.space_id == _AT_SPACE, memories.c.deleted_at.is_(None))
# Without a day nothing has expired: no day is before ''.
_COUNTS = or_(memories.c.expiration_date.is_(None), memories.c.expiration_date >= bindparam("today", type_=Text))
_MINE = Statement(select(spaces.c.space_id).where(SPACE))
_EXPIRED = Statement(
    select(memories.c.memory_id).where(_IN_SPACE, memories.c.expiration_date < bindparam("today", type_=Text))
)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Which memories of a space are asked for; None is not asked. `scope` is all four ids at once."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    scope: MemoryScope | None = None
    today: str = ""
    """YYYY-MM-DD: what expired before is left out."""

    @classmethod
    def by(cls, wanted: Filter, today: str) -> Self:
        """By the ids that a filter asks for, whatever else it says."""
        ids = scope_of(wanted)
        return cls(ids.get("user_id"), ids.get("agent_id"), ids.get("app_id"), ids.get("run_id"), today=today)

    def values(self) -> dict[str, Any]:
        named = {name: text.encode_optional(getattr(self, name)) for name in SCOPE_FIELDS}
        return {**named, "scope": None if self.scope is None else text.encode(self.scope.key), "today": self.today}

    def asks(self) -> tuple[bool, bool, bool, bool, bool]:
        """Which of the ids are asked for, in the order in which statements are made by them."""
        user_id, agent_id, app_id, run_id = (getattr(self, name) is not None for name in SCOPE_FIELDS)
        return user_id, agent_id, app_id, run_id, self.scope is not None


def is_mine(space_id: str, owner: str) -> Steps[bool]:
    """Whether the space lives and is the user's."""
    return bool((yield _MINE, {"space_id": space_id, "user_id": owner}))


def get(space_id: str, owner: str, memory_id: str) -> Steps[Memory | None]:
    """The memory with its sources; None where there is none, or the space is not the user's."""
    return (yield from find(space_id, memory_id)) if (yield from is_mine(space_id, owner)) else None


def page(space_id: str, narrowed: Narrowed, offset: int, limit: int) -> Steps[tuple[list[Memory], int]]:
    """A page of the memories, newest first, and the number of all of them."""
    values = {"at_space": space_id, **narrowed.values()}
    ((total,),) = yield _count(*narrowed.asks()), values
    rows = yield _page(*narrowed.asks()), {**values, "offset": offset, "limit": limit}
    return [to_memory(row) for row in rows], total


def every(space_id: str, narrowed: Narrowed) -> Steps[list[Memory]]:
    """All of the memories, newest first."""
    return [to_memory(row) for row in (yield _all(*narrowed.asks()), {"at_space": space_id, **narrowed.values()})]


def are_few(space_id: str, narrowed: Narrowed, most: int) -> Steps[bool]:
    """Whether there are no more than so many; looks no further."""
    ((count,),) = yield _count_some(*narrowed.asks()), {"at_space": space_id, **narrowed.values(), "limit": most + 1}
    return bool(count <= most)


def ids(space_id: str, narrowed: Narrowed) -> Steps[list[str]]:
    values = {"at_space": space_id, **narrowed.values()}
    return [memory_id for (memory_id,) in (yield _ids(*narrowed.asks()), values)]


def vectors(space_id: str, narrowed: Narrowed, model: str) -> Steps[list[tuple[str, bytes]]]:
    """The vectors that the memories have of the model."""
    values = {"at_space": space_id, **narrowed.values(), "model": model}
    return [(row[0], bytes(row[1])) for row in (yield _vectors(*narrowed.asks()), values)]


def by_ids(space_id: str, wanted: Sequence[str]) -> Steps[dict[str, Memory]]:
    """Those of the memories that there are, by their ids, without their sources."""
    found: dict[str, Memory] = {}
    for chunk in chunks(wanted, InsertMany.SIZES):
        values = {f"memory_{number}": memory_id for number, memory_id in enumerate(chunk)}
        for row in (yield _by_ids(len(chunk)), {"at_space": space_id, **values}):
            found[row[0]] = to_memory(row)
    return found


def with_sources(space_id: str, found: Sequence[Memory]) -> Steps[list[Memory]]:
    """The same memories with the events that they came from."""
    places: dict[str, list[tuple[str, int]]] = {}
    for chunk in chunks(found, InsertMany.SIZES):
        values = {f"memory_{number}": memory.id for number, memory in enumerate(chunk)}
        for memory_id, *place in (yield _sources_of(len(chunk)), {"at_space": space_id, **values}):
            places.setdefault(memory_id, []).append((place[0], place[1]))
    return [replace(memory, sources=group_sources(places.get(memory.id, ()))) for memory in found]


def expired(space_id: str, today: str) -> Steps[set[str]]:
    """The ids of what expired before the day."""
    return {memory_id for (memory_id,) in (yield _EXPIRED, {"at_space": space_id, "today": today})}


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something that memories are about: `field` is `user_id`, `agent_id`, `app_id` or `run_id`."""

    field: str
    name: str
    count: int
    created_at: int
    updated_at: int


def entities(space_id: str) -> Steps[list[Entity]]:
    """All that the memories of the space are about: users, agents, applications, runs, each in the order of names."""
    found: list[Entity] = []
    for number, field in enumerate(SCOPE_FIELDS):
        for name, *rest in (yield _ENTITIES[number], {"at_space": space_id}):
            found.append(Entity(field, text.decode(name), *rest))
    return sorted(found, key=lambda entity: (SCOPE_FIELDS.index(entity.field), entity.name))


def _grouped(column: Column[Any]) -> Select[Any]:
    return (
        select(column, func.count(), func.min(memories.c.created_at), func.max(memories.c.updated_at))
        .where(_IN_SPACE, column.is_not(None))
        .group_by(column)
    )


_ENTITIES = [Statement(_grouped(memories.c[field])) for field in SCOPE_FIELDS]


def _where(asks: tuple[bool, ...]) -> ColumnElement[bool]:
    conditions: list[ColumnElement[bool]] = [
        memories.c[name] == bindparam(name, type_=Text)
        for name, is_asked in zip((*SCOPE_FIELDS, "scope"), asks, strict=True)
        if is_asked
    ]
    return and_(_IN_SPACE, _COUNTS, *conditions)


def _listed(asks: tuple[bool, ...], *columns: Any) -> Select[Any]:
    return select(*columns).where(_where(asks)).order_by(memories.c.memory_id.desc())


@cache
def _page(by_user: bool, by_agent: bool, by_app: bool, by_run: bool, by_scope: bool) -> Statement:
    asks = (by_user, by_agent, by_app, by_run, by_scope)
    return Statement(_listed(asks, *MEMORY_COLUMNS).limit(_LIMIT).offset(bindparam("offset", type_=BigInteger)))


@cache
def _all(by_user: bool, by_agent: bool, by_app: bool, by_run: bool, by_scope: bool) -> Statement:
    return Statement(_listed((by_user, by_agent, by_app, by_run, by_scope), *MEMORY_COLUMNS))


@cache
def _ids(by_user: bool, by_agent: bool, by_app: bool, by_run: bool, by_scope: bool) -> Statement:
    return Statement(select(memories.c.memory_id).where(_where((by_user, by_agent, by_app, by_run, by_scope))))


@cache
def _count(by_user: bool, by_agent: bool, by_app: bool, by_run: bool, by_scope: bool) -> Statement:
    asks = (by_user, by_agent, by_app, by_run, by_scope)
    return Statement(select(func.count()).select_from(memories).where(_where(asks)))


@cache
def _count_some(by_user: bool, by_agent: bool, by_app: bool, by_run: bool, by_scope: bool) -> Statement:
    some: Select[Any] = (
        select(literal_column("1"))
        .select_from(memories)
        .where(_where((by_user, by_agent, by_app, by_run, by_scope)))
        .limit(_LIMIT)
    )
    return Statement(select(func.count()).select_from(some.subquery("some")))


@cache
def _vectors(by_user: bool, by_agent: bool, by_app: bool, by_run: bool, by_scope: bool) -> Statement:
    return Statement(
        select(memory_vectors.c.memory_id, memory_vectors.c.vector)
        .join(
            memories,
            and_(memories.c.space_id == memory_vectors.c.space_id, memories.c.memory_id == memory_vectors.c.memory_id),
        )
        .where(
            memory_vectors.c.space_id == _AT_SPACE,
            memory_vectors.c.model == bindparam("model", type_=Text),
            _where((by_user, by_agent, by_app, by_run, by_scope)),
        )
    )


@cache
def _by_ids(size: int) -> Statement:
    wanted = wanted_values(size, {"memory": Text()})
    return Statement(select(*MEMORY_COLUMNS).join(wanted, wanted.c.memory == memories.c.memory_id).where(_IN_SPACE))


@cache
def _sources_of(size: int) -> Statement:
    wanted = wanted_values(size, {"memory": Text()})
    return Statement(
        select(memory_sources.c.memory_id, memory_sources.c.session_id, memory_sources.c.seq)
        .join(wanted, wanted.c.memory == memory_sources.c.memory_id)
        .where(memory_sources.c.space_id == _AT_SPACE)
        .order_by(memory_sources.c.memory_id, memory_sources.c.session_id, memory_sources.c.seq)
    )
