"""Memories on their way out of one database and into another, with their sources and history. Nothing here commits.

What is searched by stays at home: words are split again, and vectors are made again by the model that is there.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, bindparam, or_, select
from sqlalchemy.types import BigInteger, Text

from threadkeep import ids
from threadkeep.domain.memory import SCOPE_FIELDS, MemoryScope, parse_date
from threadkeep.errors import Invalid
from threadkeep.storage import memories as stored_memories
from threadkeep.storage import memory_search, memory_versions, text, vectors
from threadkeep.storage.statement import InsertMany, Statement, Steps
from threadkeep.storage.tables import memories, memory_history, memory_sources

Fields = dict[str, Any]

_AT_SPACE = bindparam("at_space", type_=Text)
_AT_MEMORY = bindparam("at_memory", type_=Text)
_ROW = [column for column in memories.c if column.name not in ("space_id", "scope", "digest", "deleted_at", "version")]
MEMORY = [*_ROW, Column("sources", Text, nullable=False), Column("history", Text, nullable=False)]
"""What a line of a file holds; the last two are JSON, a list for each row."""
_ABOUT = bindparam("about", type_=Text)
_SOME = Statement(
    select(*_ROW)
    .where(
        memories.c.space_id == _AT_SPACE,
        memories.c.deleted_at.is_(None),
        or_(_ABOUT.is_(None), memories.c.user_id == _ABOUT),
        memories.c.memory_id > bindparam("after", type_=Text),
    )
    .order_by(memories.c.memory_id)
    .limit(bindparam("limit", type_=BigInteger))
)
_SOURCES = Statement(
    select(memory_sources.c.session_id, memory_sources.c.seq)
    .where(memory_sources.c.space_id == _AT_SPACE, memory_sources.c.memory_id == _AT_MEMORY)
    .order_by(memory_sources.c.session_id, memory_sources.c.seq)
)
_LINE = [column for column in memory_history.c if column.name not in ("space_id", "memory_id")]
_SOURCES_AT = [column.name for column in _LINE].index("sources")
_EVENTS = ("ADD", "UPDATE", "DELETE")
_HISTORY = Statement(
    select(*_LINE)
    .where(memory_history.c.space_id == _AT_SPACE, memory_history.c.memory_id == _AT_MEMORY)
    .order_by(memory_history.c.number)
)
_THERE = Statement(
    select(memories.c.memory_id).where(memories.c.space_id == _AT_SPACE, memories.c.memory_id == _AT_MEMORY)
)
_INSERT = InsertMany(memories, [column for column in memories.c if column.name != "deleted_at"])
_INSERT_SOURCES = InsertMany(memory_sources, list(memory_sources.c))
_INSERT_HISTORY = InsertMany(memory_history, list(memory_history.c))


def some(space_id: str, about: str | None, after: str, limit: int) -> Steps[list[Fields]]:
    """Live memories behind the id `after`, in the order of their ids: of one user, or of all."""
    values = {"at_space": space_id, "about": text.encode_optional(about), "after": after, "limit": limit}
    found = []
    for row in (yield _SOME, values):
        fields: Fields = {column.name: value for column, value in zip(_ROW, row, strict=True)}
        at = {"at_space": space_id, "at_memory": fields["memory_id"]}
        fields["sources"] = json.dumps([list(place) for place in (yield _SOURCES, at)])
        fields["history"] = json.dumps([list(line) for line in (yield _HISTORY, at)])
        found.append(fields)
    return found


def put(space_id: str, fields: Fields, now: int) -> Steps[bool | str]:
    """Add a memory. Returns whether it was new, or what is in the way. Raises NotFound where the space is gone."""
    version = yield from memory_versions.take(space_id)
    memory_id = fields["memory_id"]
    if (yield _THERE, {"at_space": space_id, "at_memory": memory_id}):
        return False
    if (yield from memory_search.is_taken(memory_id)):
        return "the id of the memory ends like that of another one here"
    said = text.decode(fields["text"])
    scope = MemoryScope(*(text.decode_optional(fields[name]) for name in SCOPE_FIELDS))
    digest = stored_memories.digest(said)
    made = {"space_id": space_id, "scope": text.encode(scope.key), "digest": digest, "version": version}
    yield _INSERT, [tuple({**fields, **made}[column.name] for column in _INSERT.columns)]
    sources, history = json.loads(fields["sources"]), json.loads(fields["history"])
    if sources:
        yield _INSERT_SOURCES, [(space_id, memory_id, *place) for place in sources]
    if history:
        yield _INSERT_HISTORY, [(space_id, memory_id, *line) for line in history]
    yield from memory_search.add(space_id, memory_id, said)
    yield from vectors.want(space_id, now)
    return True


def wrong_with(fields: Mapping[str, Any]) -> str | None:
    """What is wrong with a memory whose columns are of the right types, if something is."""
    if not ids.is_id(fields["memory_id"]):
        return "'memory_id' is no id"
    if all(fields[name] is None for name in SCOPE_FIELDS):
        return "the memory is about nobody"
    if not fields["text"]:
        return "'text' is empty"
    if not _is(fields["categories"], lambda kept: _is_list_of(kept, str)):
        return "'categories' is no list of texts"
    if fields["metadata"] is not None and not _is(fields["metadata"], lambda kept: isinstance(kept, dict)):
        return "'metadata' is no object"
    if not _is(fields["sources"], _are_sources):
        return "'sources' are not what an export has"
    if not _is(fields["history"], _are_lines):
        return "'history' is not what an export has"
    try:
        if fields["expiration_date"] is not None:
            parse_date(fields["expiration_date"])
    except Invalid as error:
        return error.message
    return None


def _is(kept: str, judged: Any) -> bool:
    try:
        return bool(judged(json.loads(kept)))
    except (ValueError, RecursionError):
        return False


def _is_list_of(kept: Any, kind: type) -> bool:
    return isinstance(kept, list) and all(isinstance(each, kind) for each in kept)


def _are_sources(kept: Any) -> bool:
    """Pairs of the id of a session and a number, each once."""
    return (
        _is_list_of(kept, list)
        and all(len(place) == 2 and _is_id(place[0]) and _is_number(place[1]) for place in kept)
        and len({tuple(place) for place in kept}) == len(kept)
    )


def _are_lines(kept: Any) -> bool:
    """Lines with the columns of a history, numbered from 1."""
    if not (_is_list_of(kept, list) and all(len(line) == len(_LINE) for line in kept)):
        return False
    for number, line in enumerate(kept, 1):
        for value, column in zip(line, _LINE, strict=True):
            if value is None:
                if not column.nullable:
                    return False
            elif isinstance(column.type, BigInteger):
                if not _is_number(value):
                    return False
            elif not (isinstance(value, str) and text.can_be_kept(value)):
                return False
        if line[0] != number or line[1] not in _EVENTS or not _is(line[_SOURCES_AT], _are_grouped):
            return False
    return True


def _are_grouped(kept: Any) -> bool:
    """Sources as a line of a history has them: an id of a session, and numbers."""
    return _is_list_of(kept, list) and all(
        len(each) == 2 and _is_id(each[0]) and isinstance(each[1], list) and all(map(_is_number, each[1]))
        for each in kept
    )


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and ids.is_id(value)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63
