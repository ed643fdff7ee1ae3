"""The index of the words of memories: SQLite's full-text table, PostgreSQL's GIN of a tsvector. Nothing here commits.

Each engine is given words that it cannot split or fold any further, with the space in front of each: so both find the
same, and the list of a word holds one space's memories only.
"""

from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    bindparam,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import BigInteger, NullType, Text

from threadkeep.domain.words import words
from threadkeep.storage import search
from threadkeep.storage.statement import Statement, Steps, chunks
from threadkeep.storage.tables import memory_search


class _HasWord(FunctionElement[Any]):
    """Whether a column of words has one: `_HasWord(column, word)`."""

    # No Boolean, which SQLAlchemy would compare with 1 on SQLite: MATCH stands only by itself.
    type = NullType()
    inherit_cache = True
    name = "has_word"


@compiles(_HasWord, "sqlite")
def _has_word_on_sqlite(element: _HasWord, compiler: Any, **options: Any) -> str:
    kept, word = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{kept} MATCH {word}"


@compiles(_HasWord)
def _has_word(element: _HasWord, compiler: Any, **options: Any) -> str:
    kept, word = (compiler.process(clause, **options) for clause in element.clauses)
    return f"to_tsvector('simple', {kept}) @@ to_tsquery('simple', {word})"


_SIZES = (16, 8, 4, 2, 1)
"""Words that one statement looks up."""
_SPACE = literal_column("' '", Text)
_NAMES = ("space_id", "memory_id", "words")
# A row of the full-text table is found by its number alone, and that is made of the memory's id.
_numbered = table("memory_search", column("rowid", BigInteger), *(column(name, Text) for name in _NAMES))
_ADD_NUMBERED = Statement(
    insert(_numbered).values({name: bindparam(name) for name in ("rowid", *_NAMES)}), only="sqlite"
)
_REMOVE_NUMBERED = Statement(
    delete(_numbered).where(_numbered.c.rowid == bindparam("number"), _numbered.c.space_id == bindparam("at_space")),
    only="sqlite",
)
_ADD = Statement(insert(memory_search).values({name: bindparam(name) for name in _NAMES}), only="postgresql")
_REMOVE = Statement(
    delete(memory_search).where(
        memory_search.c.space_id == bindparam("at_space"), memory_search.c.memory_id == bindparam("at_memory")
    ),
    only="postgresql",
)
_TAKEN = Statement(
    select(_numbered.c.memory_id).where(
        _numbered.c.rowid == bindparam("number"), _numbered.c.memory_id != bindparam("at_memory")
    ),
    only="sqlite",
)


def add(space_id: str, memory_id: str, text: str) -> Steps[None]:
    """Take up a memory's words."""
    row = {"space_id": space_id, "memory_id": memory_id, "words": " ".join(_spell(space_id, words(text)))}
    yield _ADD_NUMBERED, {"rowid": search.index_number(memory_id), **row}
    yield _ADD, row


def remove(space_id: str, memory_id: str) -> Steps[None]:
    yield _REMOVE_NUMBERED, {"number": search.index_number(memory_id), "at_space": space_id}
    yield _REMOVE, {"at_space": space_id, "at_memory": memory_id}


def hits(space_id: str, wanted: Collection[str]) -> Steps[dict[str, str]]:
    """For each of the words, the keys of the memories of the space that have it, with spaces between them.

    One text for each word, since a common word is in most memories, and a row for each would take longer than all else.
    """
    found = dict.fromkeys(wanted, "")
    for some in chunks(list(found), _SIZES):
        spelled = {f"word_{number}": word for number, word in enumerate(_spell(space_id, some))}
        for made in (_numbers, _ids):
            for keys, number in (yield made(len(some)), {"at_space": space_id, **spelled}):
                found[some[number]] = keys or ""
    return found


def key_of(dialect: str) -> Callable[[str], str]:
    """What `hits` of this engine calls a memory: its id, or the number of its row."""
    return (lambda memory_id: str(search.index_number(memory_id))) if dialect == "sqlite" else str


def is_taken(memory_id: str) -> Steps[bool]:
    """Whether another memory has the number that this one would have. Ids that are made here share none."""
    return bool((yield _TAKEN, {"number": search.index_number(memory_id), "at_memory": memory_id}))


def _spell(space_id: str, plain: Iterable[str]) -> list[str]:
    """The words as an engine keeps them: ASCII letters and digits, the first of them a letter."""
    space = f"s{space_id[-12:]}"
    return [f"{space}w{word}" if word.isascii() else f"{space}z{word.encode().hex()}" for word in plain]


@cache
def _ids(size: int) -> Statement:
    """The hits of so many words in one answer, each with the number of its word."""
    hits = select(func.string_agg(memory_search.c.memory_id, _SPACE))
    in_space = memory_search.c.space_id == bindparam("at_space")
    return Statement(_of_words(size, hits.where(in_space), memory_search.c.words), only="postgresql")


@cache
def _numbers(size: int) -> Statement:
    """As `_ids`. Only the numbers of the rows, which the index itself has; the words say which space they are of."""
    hits = select(func.group_concat(_numbered.c.rowid, _SPACE))
    return Statement(_of_words(size, hits, _numbered.c.words), only="sqlite")


def _of_words(size: int, hits: Select[Any], kept: ColumnElement[str]) -> Select[Any] | CompoundSelect[Any]:
    each = [
        hits.where(_HasWord(kept, bindparam(f"word_{number}", type_=Text))).add_columns(
            literal_column(str(number), BigInteger)
        )
        for number in range(size)
    ]
    return union_all(*each) if size > 1 else each[0]
