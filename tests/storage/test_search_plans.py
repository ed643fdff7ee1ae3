"""How each engine finds a piece of a description in a space with many sessions: by its trigrams, not by a walk."""

from collections.abc import Sequence
from typing import Any

import pytest

from threadkeep.domain import lifecycle
from threadkeep.domain.principal import Principal
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.storage import search, session_pages
from threadkeep.storage.statement import Statement, Steps

MANY = 20_000
NUMBERS = {
    "sqlite": f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY})",
    "postgresql": f"WITH numbers(n) AS (SELECT * FROM generate_series(1, {MANY}))",
}
ID = {"sqlite": "printf('%08x', n)", "postgresql": "lpad(to_hex(n), 8, '0')"}
TRIGRAMS = "ix_sessions_description_trigrams"
FILTERS = {"limit": 100, "offset": 0, "after": ""}


def _fill(dialect: str, space_id: str) -> Steps[None]:
    """Many sessions, of which each has a description of its own."""
    session_id, strategies = f"{ID[dialect]} || '-0000-7000-8000-000000000000'", lifecycle.to_json(lifecycle.DEFAULT)
    described = f"'//thread/' || {ID[dialect]} || '/ in ' || (n % 7)"
    yield (
        SqlText(
            f"INSERT INTO sessions (space_id, session_id, participants, description, description_folded, strategies,"
            f" version, created_at) {NUMBERS[dialect]} SELECT '{space_id}', {session_id}, '[]', {described},"
            f" {described}, '{strategies}', 1, n FROM numbers"
        ),
        [],
    )
    if dialect == "sqlite":
        columns = "session_search (rowid, session_id, description)"
        yield (
            SqlText(f"INSERT INTO {columns} {NUMBERS[dialect]} SELECT n, {session_id}, {described} FROM numbers"),
            [],
        )
    else:
        # As autovacuum does when so much has been written: it sorts what is new into the index, and counts.
        yield SqlText(f"SELECT gin_clean_pending_list('{TRIGRAMS}')"), []
        yield SqlText("ANALYZE sessions"), []


def explained(container: Container, statement: Statement, values: dict[str, Any]) -> Steps[str]:
    """The plan, in words; on PostgreSQL the one that is made without knowing the values, as the server makes it."""
    dialect = container.database.dialect
    sql, arguments = statement.bind(dialect, values)
    if dialect == "sqlite":
        rows = yield SqlText(f"EXPLAIN QUERY PLAN {sql}"), list(arguments)
        return "\n".join(row[3] for row in rows)
    yield SqlText(f"PREPARE searching AS {sql}"), []
    rows = yield SqlText(f"EXPLAIN EXECUTE searching({', '.join(map(_literal, arguments))})"), []
    yield SqlText("DEALLOCATE searching"), []
    return "\n".join(row[0] for row in rows)


class SqlText(Statement):
    """A statement that is text, as only a test wants it."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.only = None

    def bind(self, dialect: str, values: Any) -> tuple[str, Sequence[Any]]:
        return self._sql, values


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


@pytest.fixture
async def at(container: Container) -> tuple[Principal, str]:
    alice = await container.tokens.local_principal("alice")
    space = await container.spaces.create(alice, SpaceDraft())
    await container.database.write(lambda: _fill(container.database.dialect, space.id))
    return alice, space.id


async def test_a_rare_text_is_looked_up_by_its_trigrams(container: Container, at: tuple[Principal, str]) -> None:
    alice, space_id = at
    needle = "//thread/00001234/"
    values = {**FILTERS, **search.needle_values(needle), "space_id": space_id, "user_id": alice.user_id}
    by_trigrams = await container.database.scan(lambda: search.are_few(needle))
    statement = session_pages._page(0, True, False, by_trigrams)

    plan = await container.database.scan(lambda: explained(container, statement, values))

    if container.database.dialect == "sqlite":
        # The full-text table leads, and each hit is one step into the key: never a walk over the space.
        assert "SCAN session_search VIRTUAL TABLE INDEX" in plan
        assert plan.count("sessions USING INDEX sqlite_autoindex_sessions_1 (space_id=? AND session_id=?)") == 2
        assert "SCAN sessions" not in plan
        assert "(space_id=?)" not in plan.replace("spaces USING INDEX sqlite_autoindex_spaces_1 (space_id=?)", "")
    else:
        assert f"Bitmap Index Scan on {TRIGRAMS}" in plan, plan
        assert "Seq Scan on sessions" not in plan
    found, total = await container.sessions.page(*at, Filters(needle=needle))
    assert ([each.description for each in found], total) == (["//thread/00001234/ in 5"], 1)
