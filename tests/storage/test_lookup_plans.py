"""How each engine finds events by lookup key and the newest of sessions in a space with many: by steps into keys."""

from typing import Any

import pytest

from tests.storage.test_search_plans import ID, MANY, NUMBERS, SqlText, explained
from threadkeep.services.container import Container
from threadkeep.storage import lookup_keys, space_events
from threadkeep.storage.statement import Statement, Steps

SPACE = "01890000-0000-7000-8000-000000000000"


def _fill(dialect: str) -> Steps[None]:
    """Many sessions with an event and a key each, in one space."""
    session_id = f"{ID[dialect]} || '-0000-7000-8000-000000000000'"
    for table, columns, values in (
        (
            "session_counters",
            "session_id, last_seq, event_count, last_activity_at, listed_at",
            f"{session_id}, 1, 1, n, n",
        ),
        (
            "events",
            "session_id, seq, type, emitter_type, body, created_at, updated_at",
            f"{session_id}, 1, 'message', 'agent', '{{}}', n, n",
        ),
        (
            "event_lookup_keys",
            "lookup_key, type, session_id, seq",
            f"'key ' || {ID[dialect]}, 'message', {session_id}, 1",
        ),
    ):
        insert = f"INSERT INTO {table} (space_id, {columns}) {NUMBERS[dialect]} SELECT '{SPACE}', {values} FROM numbers"
        yield SqlText(insert), []
        if dialect == "postgresql":
            yield SqlText(f"ANALYZE {table}"), []


def _wanted(size: int, **values: str) -> dict[str, str]:
    return {f"{name}_{row}": value for name, value in values.items() for row in range(size)}


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (
            space_events.with_keys(1),
            {"space_id": SPACE, "type": None, "limit": 100, "offset": 0, **_wanted(1, space=SPACE, key="key 00001234")},
        ),
        (
            space_events.with_keys(4),
            {
                "space_id": SPACE,
                "type": "message",
                "limit": 100,
                "offset": 0,
                **_wanted(4, space=SPACE, key="key 00001234"),
            },
        ),
        (
            lookup_keys.find(4),
            _wanted(4, space=SPACE, owner="0" * 24, type="message", key="key 00001234"),
        ),
        (
            space_events.newest_of(4, True),
            {
                "space_id": SPACE,
                "type": "message",
                **_wanted(4, space=SPACE, session="00001234-0000-7000-8000-000000000000"),
            },
        ),
    ],
    ids=["one key", "keys of a type", "who has a key", "newest"],
)
async def test_no_look_up_walks_through_the_space(
    container: Container, statement: Statement, values: dict[str, Any]
) -> None:
    assert MANY == 20_000
    await container.database.write(lambda: _fill(container.database.dialect))

    plan = await container.database.scan(lambda: explained(container, statement, values))

    tables = ("event_lookup_keys", "session_counters", "events")
    if container.database.dialect == "sqlite":
        lines = [line for line in plan.splitlines() if any(f" {table} " in f"{line} " for table in tables)]
        assert lines
        assert all(line.startswith("SEARCH") and "(space_id=?)" not in line for line in lines), plan
    else:
        assert not any(f"Seq Scan on {table}" in plan for table in tables), plan
        conditions = [line for line in plan.splitlines() if "Index Cond" in line]
        assert all("lookup_key" in line or "session_id" in line or "user_id" in line for line in conditions), plan
