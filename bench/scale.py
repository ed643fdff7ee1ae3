"""Large spaces and long sessions: what is looked up costs what the answer costs, whatever lies around it."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from bench import report
from bench.content import draft, make_sessions
from bench.databases import ENGINES
from bench.reads import alternate, analyze
from threadkeep import clock, ids
from threadkeep.domain import lifecycle
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.settings import Settings
from threadkeep.storage.search import index_number

SESSIONS = 1_000_000
USERS = 50_000
EVENTS = 100_000
_COLUMNS = {
    "sessions": "space_id session_id participants description description_folded strategies version created_at",
    "session_counters": "space_id session_id last_seq event_count last_activity_at listed_at",
    "participants": "space_id participant session_id description_folded listed_at",
}


async def search(engine: str) -> None:
    report.title(f"A session found by its thread among {SESSIONS:,} of one space: {engine}")
    with ENGINES[engine]() as url:
        container = await Container.open(Settings(database=url))
        principal, space_id, _ = await make_sessions(container, 1)

        async def by_thread() -> None:
            found, total = await container.sessions.page(principal, space_id, Filters(needle=f"//thread/{wanted}/"))
            assert (len(found), total) == (1, 1)

        async def by_fragment() -> None:
            found, _ = await container.sessions.page(principal, space_id, Filters(needle=wanted[24:]))
            assert len(found) == 1

        async def of_user() -> None:
            found, total = await container.sessions.page(principal, space_id, Filters(("user-7",), "//thread/"))
            assert len(found) == total

        wanted = ids.new_id()
        await _fill(engine, url, space_id, 1_000, wanted)
        await analyze(engine, url)
        small = await alternate(51, by_thread, by_fragment)
        wanted = ids.new_id()
        await _fill(engine, url, space_id, SESSIONS - 1_000, wanted)
        await analyze(engine, url)
        large = await alternate(51, by_thread, by_fragment, of_user)
        for name, before, after in zip(("thread", "12 characters"), small, large[:2], strict=True):
            report.line(f"by {name}: ms among 1,000", f"{before:10.3f}")
            report.line(f"by {name}: ms among {SESSIONS:,}", f"{after:10.3f}")
        report.line(f"a participant's own: ms among {SESSIONS:,}", f"{large[2]:10.3f}")
        await container.close()


async def long_session(engine: str) -> None:
    report.title(f"A session of {EVENTS:,} events, beside one of 100: {engine}")
    with ENGINES[engine]() as url:
        container = await Container.open(Settings(database=url))
        principal, space_id, (long, short) = await make_sessions(container, 2)
        for session_id, count in ((long, EVENTS), (short, 100)):
            for start in range(0, count, 200):
                drafts = [draft() for _ in range(min(200, count - start))]
                await container.events.append_batch(principal, space_id, session_id, drafts)
        await analyze(engine, url)

        async def last(session_id: str) -> None:
            found, _ = await container.events.last(principal, space_id, session_id, 20)
            assert len(found) == 20

        async def page(session_id: str, offset: int) -> None:
            found, _ = await container.events.page(principal, space_id, session_id, offset=offset, limit=100)
            assert len(found) == 100

        few, many = await alternate(101, lambda: last(short), lambda: last(long))
        report.ratio("last 20: long / short", many / few, at_most=1.5)
        first, end = await alternate(101, lambda: page(long, 0), lambda: page(long, EVENTS - 100))
        report.ratio("page of 100: at the end / at the start", end / first, at_most=1.5)
        await container.close()


async def _fill(engine: str, url: str, space_id: str, count: int, wanted: str) -> None:
    """Sessions by the hundred thousand, past the service; one of them has the thread that is wanted."""
    strategies, now = lifecycle.to_json(lifecycle.DEFAULT), clock.now()
    made: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _COLUMNS}
    for n in range(count):
        session_id, user = ids.new_id(), f"user-{n % USERS}"
        described = f"//thread/{wanted if n == count // 2 else ids.new_id()}/"
        made["sessions"].append(
            (space_id, session_id, json.dumps([user]), described, described, strategies, 1, now + n)
        )
        made["session_counters"].append((space_id, session_id, 0, 0, now + n, now + n))
        made["participants"].append((space_id, user, session_id, described, now + n))
    if engine == "sqlite":
        _insert(url.removeprefix("sqlite:///"), made)
    else:
        import asyncpg

        connection = await asyncpg.connect(url)
        for table, rows in made.items():
            await connection.copy_records_to_table(table, records=rows, columns=_COLUMNS[table].split())
        await connection.close()


def _insert(path: str, made: dict[str, list[tuple[Any, ...]]]) -> None:
    connection = sqlite3.connect(path)
    for table, rows in made.items():
        columns = _COLUMNS[table].split()
        marks = ",".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})", rows)
    connection.executemany(
        "INSERT INTO session_search (rowid, session_id, description) VALUES (?, ?, ?)", _searchable(made["sessions"])
    )
    connection.commit()
    connection.close()


def _searchable(rows: list[tuple[Any, ...]]) -> Iterator[tuple[int, str, str]]:
    for _, session_id, _, _, described, *_ in rows:
        yield index_number(session_id), session_id, described
