"""Statements, and the operations made of them.

SQLAlchemy defines a statement once; it is compiled once for each dialect, and the text runs on the raw driver.
An operation is a generator: it yields a statement with its values, is sent the rows, and returns its result.
So one set of queries serves a blocking driver (SQLite, in the writer's thread) and an awaiting one (PostgreSQL).
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from sqlalchemy import CTE, ClauseElement, Column, Table, bindparam, column, insert
from sqlalchemy import values as values_of
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import Boolean

from threadkeep.errors import Unavailable

T = TypeVar("T")
Row = Sequence[Any]
Values = Mapping[str, Any] | Sequence[Any]


Step = tuple["Statement", Values] | tuple["InsertMany", Sequence[Sequence[Any]]]
Steps = Generator[Step, list[Row], T]
Insert = Callable[..., Any]
"""`sqlite.insert` or `postgresql.insert`: the one construct that SQLAlchemy does not offer for both at once."""

_DIALECTS: dict[str, tuple[Any, Insert]] = {
    "sqlite": (SQLiteDialect(paramstyle="qmark"), sqlite.insert),
    "postgresql": (PGDialect_asyncpg(), postgresql.insert),  # type: ignore[no-untyped-call]
}


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The text, the names of its parameters in order, and the values of those that never change."""

    sql: str
    names: list[str]
    constants: dict[str, Any]


class Statement:
    """One SQL statement in the dialects of both engines, or in the one that `only` names.

    An engine that is not named passes it over, and answers with no rows.
    """

    __slots__ = ("_compiled", "_construct", "only")

    def __init__(
        self, construct: ClauseElement | Callable[[Insert], ClauseElement], *, only: str | None = None
    ) -> None:
        self._construct = construct
        self.only = only
        self._compiled: dict[str, _Compiled] = {}

    def sql(self, dialect: str) -> str:
        return self._on(dialect).sql

    def bind(self, dialect: str, values: Values) -> tuple[str, Sequence[Any]]:
        """The text and its values in order. A sequence is taken to be in order already."""
        compiled = self._on(dialect)
        if not isinstance(values, Mapping):
            return compiled.sql, values
        if compiled.constants:
            values = {**compiled.constants, **values}
        return compiled.sql, [values[name] for name in compiled.names]

    def _on(self, dialect: str) -> _Compiled:
        found = self._compiled.get(dialect)
        if found is None:
            dialect_object, dialect_insert = _DIALECTS[dialect]
            construct = (
                self._construct if isinstance(self._construct, ClauseElement) else self._construct(dialect_insert)
            )
            compiled = cast(SQLCompiler, construct.compile(dialect=dialect_object))
            constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
            found = _Compiled(str(compiled), list(compiled.positiontup or []), constants)
            self._compiled[dialect] = found
        return found


class InsertMany:
    """INSERT of any number of rows, each in the order of `columns`.

    SQLite is fastest with one statement run for each row, PostgreSQL with few statements of many rows: the driver
    of each takes what suits it. Few sizes, so that each is soon compiled and prepared; small steps, so that a group
    takes one or two statements.
    """

    SIZES = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)

    def __init__(self, table: Table, columns: Sequence[Column[Any]]) -> None:
        """`columns` are some of the table's, in the order in which it has them."""
        self.columns = columns
        self._table = table
        self._names = [column.name for column in columns]
        self._statements: dict[int, Statement] = {}

    def of(self, size: int) -> Statement:
        """The statement for `size` rows; it takes their values one after the other."""
        found = self._statements.get(size)
        if found is None:
            rows: list[dict[str, Any]] = [
                {name: bindparam(f"{name}_{row}") for name in self._names} for row in range(size)
            ]
            found = self._statements[size] = Statement(insert(self._table).values(rows if size > 1 else rows[0]))
        return found


def chunks(rows: Sequence[T], sizes: Sequence[int] = InsertMany.SIZES) -> Iterator[Sequence[T]]:
    """The rows in pieces of the sizes that are prepared, the largest first and 1 the last."""
    start = 0
    for size in sizes:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


def flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of all rows, one after the other."""
    return [value for row in rows for value in row]


def wanted_values(size: int, names: Mapping[str, Any]) -> CTE:
    """So many rows of values, each with its name and type, as a table that a statement can join."""
    return (
        values_of(*(column(name, type_) for name, type_ in names.items()), name="wanted_values")
        .data([tuple(bindparam(f"{name}_{row}", type_=type_) for name, type_ in names.items()) for row in range(size)])
        .cte("wanted")
    )


def insert_unless_taken(table: Table, returning: Column[Any], *left_out: str) -> Statement:
    """INSERT of one row that does nothing, and returns no row, where a unique key is taken."""
    row: dict[str, Any] = {column.name: bindparam(column.name) for column in table.c if column.name not in left_out}
    return Statement(lambda dialect: dialect(table).values(row).on_conflict_do_nothing().returning(returning))


_TRIES = 16


def insert_or_find(insert: Statement, values: Values, find: Statement, by: Values) -> Steps[Row | None]:
    """Insert a row, or find the one that holds its key. Returns None where it was inserted.

    Raises Unavailable where the key changes hands again and again meanwhile.
    """
    for _ in range(_TRIES):
        if (yield insert, values):
            return None
        holders = yield find, by
        if holders:
            return holders[0]
        # The holder of the key was deleted between the two statements: the key is free now.
    raise Unavailable("The deduplication key changes hands too fast to be taken")


class Contains(FunctionElement[bool]):
    """Whether a column holds a text: `Contains(column, needle, pattern)`.

    `pattern` is a part of the needle for LIKE (`like_pattern`), which is what a trigram index of PostgreSQL can use.
    """

    type = Boolean()
    inherit_cache = True
    name = "contains_text"


@compiles(Contains, "sqlite")
def _contains_on_sqlite(element: Contains, compiler: Any, **options: Any) -> str:
    column, needle, _pattern = element.clauses
    return f"instr({compiler.process(column, **options)}, {compiler.process(needle, **options)}) > 0"


@compiles(Contains)
def _contains(element: Contains, compiler: Any, **options: Any) -> str:
    column, needle, pattern = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(strpos({column}, {needle}) > 0 AND {column} LIKE {pattern})"


def like_pattern(needle: str) -> str:
    """`%needle%` with the characters escaped that LIKE reads as its own."""
    escaped = needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
