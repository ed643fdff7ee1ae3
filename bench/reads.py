"""Reads: a whole history, its newest messages, and a user's list of chats, beside the bare query on the same file."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bench import report
from bench.content import draft, make_sessions
from bench.databases import ENGINES
from threadkeep.domain.session import SessionDraft
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.settings import Settings

MESSAGES = 10_000
CHATS = 2_000
_RAW = (
    "SELECT seq, body, type, emitter_type, emitter_id, updated_at FROM events"
    " WHERE space_id = {0} AND session_id = {1} AND deleted_at IS NULL ORDER BY seq"
)


async def history(engine: str) -> None:
    report.title(f"A history of {MESSAGES:,} messages of 1 KB: {engine}")
    with ENGINES[engine]() as url:
        container = await Container.open(Settings(database=url))
        at = await make_sessions(container, 1)
        principal, space_id, (session_id,) = at
        for _ in range(MESSAGES // 200):
            await container.events.append_batch(principal, space_id, session_id, [draft() for _ in range(200)])
        query, close = await _raw_query(engine, url)
        await analyze(engine, url)

        async def whole() -> None:
            found = [
                event async for step in container.events.history(principal, space_id, session_id) for event in step
            ]
            assert len(found) == MESSAGES

        async def by_pages() -> None:
            for offset in range(0, MESSAGES, 100):
                found, _ = await container.events.page(principal, space_id, session_id, offset=offset, limit=100)
                assert len(found) == 100

        async def newest() -> None:
            found, _ = await container.events.last(principal, space_id, session_id, 20)
            assert len(found) == 20

        raw_newest = f"SELECT * FROM ({_RAW} DESC LIMIT 20) AS newest ORDER BY seq"
        ways = (
            ("whole", whole, _RAW, 9),
            ("whole, by pages of 100", by_pages, _RAW, 9),
            ("newest 20", newest, raw_newest, 301),
        )
        for name, ours, sql, rounds in ways:
            floor_ms, ours_ms = await alternate(rounds, partial(query, sql, space_id, session_id), ours)
            report.line(f"{name}: bare query", f"{floor_ms:10.3f} ms")
            report.line(f"{name}: services", f"{ours_ms:10.3f} ms")
            report.ratio(f"{name}: services / bare query", ours_ms / floor_ms, at_most=2)
        await close()
        await container.close()


async def chats(engine: str) -> None:
    report.title(f"The first page of a user's {CHATS:,} chats: {engine}")
    with ENGINES[engine]() as url:
        container = await Container.open(Settings(database=url))
        principal, space_id, _ = await make_sessions(container, 1)
        for n in range(CHATS):
            chat = await container.sessions.create(
                principal, space_id, SessionDraft(("bob",), f"//thread/t-{n}/", '{"name":"New Chat"}')
            )
            await container.events.append(principal, space_id, chat.id, [replace(draft(), emitter_id="bob")])

        await analyze(engine, url)

        async def oldest() -> None:
            found, total = await container.sessions.page(principal, space_id, Filters(("bob",), "//thread/"))
            assert (len(found), total) == (100, CHATS)

        async def recent() -> None:
            page = await container.sessions.recent(principal, space_id, participant="bob", prefix="//thread/", limit=20)
            assert len(page.items) == 20

        for name, way in (("100 oldest, with the total", oldest), ("20 by newest activity", recent)):
            (taken,) = await alternate(51, way)
            report.ratio(f"{name}: ms", taken, at_most=5)
        await container.close()


Query = Callable[[str, str, str], Awaitable[Any]]


async def _raw_query(engine: str, url: str) -> tuple[Query, Callable[[], Awaitable[None]]]:
    if engine == "sqlite":
        file = sqlite3.connect(url.removeprefix("sqlite:///"))

        async def query(sql: str, *arguments: str) -> Any:
            return file.execute(sql.format("?", "?"), arguments).fetchall()

        async def close() -> None:
            file.close()

        return query, close
    import asyncpg

    server = await asyncpg.connect(url)

    async def query_server(sql: str, *arguments: str) -> Any:
        return await server.fetch(sql.format("$1", "$2"), *arguments)

    return query_server, server.close


async def analyze(engine: str, url: str) -> None:
    """Give the planner its statistics now; the server would do so within a minute."""
    if engine == "postgresql":
        import asyncpg

        connection = await asyncpg.connect(url)
        await connection.execute("ANALYZE")
        await connection.close()


async def alternate(rounds: int, *ways: Callable[[], Awaitable[Any]]) -> list[float]:
    """Run the ways in turn; the median milliseconds of each."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for times, way in zip(taken, ways, strict=True):
            started = time.perf_counter()
            await way()
            times.append((time.perf_counter() - started) * 1000)
    return [sorted(times)[rounds // 2] for times in taken]
