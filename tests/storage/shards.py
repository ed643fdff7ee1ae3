"""Which tables of a statement are not tied to a space: on an engine that is sharded by space, these are asked of every
shard. A table is tied by `space_id = :value`, by a list of values, or by its equality with a column that is tied.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, CompoundSelect, Delete, FromClause, Insert, Select, Table, Update
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, ClauseElement, Grouping
from sqlalchemy.sql.operators import and_, eq
from sqlalchemy.sql.selectable import CTE, Alias, Join, Subquery, TableClause, Values

WITHOUT_SPACE = {"users", "tokens", "alembic_version", "session_search"}
"""Tables that are small and on every node, or that only SQLite has."""
_Scope = dict[FromClause, int]


class Ties:
    """The tables of a statement, each where it is named, and which of them are tied to a space."""

    def __init__(self, statement: ClauseElement) -> None:
        self.tables: list[str] = []
        self.several = False
        """Whether a list of values may name several spaces."""
        self.locks: list[bool] = []
        """For each FOR UPDATE, whether it may lock rows of several spaces."""
        self._tied: set[int] = set()
        self._equal: list[tuple[int, int]] = []
        self._walk(statement, {})
        for _ in self._equal:
            for one, other in self._equal:
                if one in self._tied or other in self._tied:
                    self._tied |= {one, other}

    def loose(self) -> list[str]:
        """The tables that are not tied."""
        return [name for number, name in enumerate(self.tables) if number not in self._tied and name not in _INNER]

    def _walk(self, element: ClauseElement, outer: _Scope) -> None:
        if isinstance(element, Insert):
            self._insert(element)
        elif isinstance(element, Update | Delete):
            named = [element.table, *(each for each in _froms_of(element) if each is not element.table)]
            self._level(element, named, element._where_criteria, outer)
        elif isinstance(element, Select):
            self._level(element, element.get_final_froms(), element._where_criteria, outer)
        elif isinstance(element, CompoundSelect):
            for select in element.selects:
                self._walk(select, {})
        else:
            for child in _children(element):
                self._walk(child, outer)

    def _insert(self, insert: Insert) -> None:
        number = self._add(insert.table)
        columns = {getattr(column, "name", column) for column in insert.compile().params} | set(
            insert.table.c.keys() if insert._values is None and not insert._multi_values else ()
        )
        if any(str(name).startswith("space_id") for name in columns):
            self._tied.add(number)

    def _level(
        self, element: Any, froms: list[FromClause], where: tuple[ColumnElement[Any], ...], outer: _Scope
    ) -> None:
        """One SELECT, UPDATE or DELETE: its tables, what ties them, and what is nested in it."""
        scope = dict(outer)
        conditions = list(where)
        several = self.several
        self.several = False
        for from_ in froms:
            for table in _flatten(from_, conditions):
                # An inner SELECT that names a table of the outer one means that table.
                if table not in outer:
                    scope[table] = self._add(table)
        for condition in conditions:
            for one, other in _equalities(condition):
                self._equate(one, other, scope)
        for child in _children(element):
            if child not in scope:
                self._walk(child, scope)
        if getattr(element, "_for_update_arg", None) is not None:
            self.locks.append(self.several)
        self.several = self.several or several

    def _add(self, from_: Any) -> int:
        number = len(self.tables)
        if isinstance(from_, Table | TableClause):
            self.tables.append(from_.name)
        elif isinstance(from_, Alias) and isinstance(from_.element, Table):
            self.tables.append(from_.element.name)
        else:
            self.tables.append(_INNER[0])
            inner = from_.element if isinstance(from_, CTE | Subquery | Alias) else from_
            if isinstance(inner, Values):
                self.several = True
            else:
                self._walk(inner, {})
            # What is inside is looked at by itself; a space that it names is one that it was told.
            self._tied.add(number)
        if self.tables[-1] in WITHOUT_SPACE:
            self._tied.add(number)
        return number

    def _equate(self, one: Any, other: Any, scope: _Scope) -> None:
        sides = [scope.get(getattr(each, "table", None), -1) for each in (one, other)]
        for column, side, against in ((one, sides[0], other), (other, sides[1], one)):
            if side >= 0 and getattr(column, "name", "") == "space_id" and isinstance(against, BindParameter):
                self._tied.add(side)
        names = {getattr(one, "name", ""), getattr(other, "name", "")}
        if min(sides) >= 0 and names <= {"space_id", "space"}:
            self._equal.append((sides[0], sides[1]))


_INNER = ("(inner)",)


def _children(element: ClauseElement) -> Iterator[ClauseElement]:
    for child in element.get_children():
        if not isinstance(child, Table):
            yield child


def _froms_of(element: Any) -> list[FromClause]:
    """The tables that an UPDATE or DELETE joins: those of the columns that its conditions name."""
    found: dict[FromClause, None] = {}

    def look(condition: ClauseElement) -> None:
        if isinstance(condition, Select):
            return
        table = getattr(condition, "table", None)
        if isinstance(table, FromClause):
            found[table] = None
        for child in condition.get_children():
            look(child)

    for condition in element._where_criteria:
        look(condition)
    return list(found)


def _flatten(from_: FromClause, conditions: list[ColumnElement[Any]]) -> Iterator[FromClause]:
    """The tables of a join, whose conditions are added to the others."""
    if isinstance(from_, Join):
        yield from _flatten(from_.left, conditions)
        yield from _flatten(from_.right, conditions)
        conditions.append(from_.onclause)  # type: ignore[arg-type]
    else:
        yield from_


def _equalities(condition: Any) -> Iterator[tuple[Any, Any]]:
    """What must be equal: an OR promises nothing."""
    if isinstance(condition, Grouping):
        yield from _equalities(condition.element)
    elif isinstance(condition, BooleanClauseList) and condition.operator is and_:
        for each in condition.clauses:
            yield from _equalities(each)
    elif isinstance(condition, BinaryExpression) and condition.operator is eq:
        yield condition.left, condition.right
