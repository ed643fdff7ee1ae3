"""The raw engines under the same load: group commit with hand-written SQL and nothing around it.

This is what the machine allows. It has one table row a session and one an event, with short ids, and knows no rules.
"""

import asyncio
import queue
import sqlite3
import threading
from pathlib import Path
from typing import Any

SCHEMA = (
    "CREATE TABLE sessions (space_id TEXT, session_id TEXT, last_seq BIGINT NOT NULL,"
    " PRIMARY KEY (space_id, session_id))",
    "CREATE TABLE events (space_id TEXT, session_id TEXT, seq BIGINT, body TEXT NOT NULL, created_at BIGINT NOT NULL,"
    " PRIMARY KEY (space_id, session_id, seq))",
)
SPACE = "space"
_GROUP = 256


class RawSqlite:
    """One thread with a connection: a savepoint for each caller, one commit for all that wait."""

    def __init__(self, path: Path, sessions: list[str]) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[tuple[str, str, asyncio.Future[int]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        connection = self._connect()
        for statement in SCHEMA:
            connection.execute(statement)
        connection.executemany(f"INSERT INTO sessions VALUES ('{SPACE}', ?, 0)", [(name,) for name in sessions])
        connection.close()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    async def append(self, session: str, body: str) -> int:
        future: asyncio.Future[int] = self._loop.create_future()
        self._queue.put((session, body, future))
        return await future

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _write(self) -> None:
        connection = self._connect()
        while (first := self._queue.get()) is not None:
            group = [first]
            while len(group) < _GROUP and not self._queue.empty():
                item = self._queue.get()
                if item is None:
                    self._queue.put(None)
                    break
                group.append(item)
            connection.execute("BEGIN IMMEDIATE")
            answers: list[tuple[asyncio.Future[int], int]] = []
            for session, body, future in group:
                connection.execute("SAVEPOINT one")
                ((seq,),) = connection.execute(
                    f"UPDATE sessions SET last_seq = last_seq + 1 WHERE space_id = '{SPACE}' AND session_id = ?"
                    " RETURNING last_seq",
                    (session,),
                ).fetchall()
                connection.execute(f"INSERT INTO events VALUES ('{SPACE}', ?, ?, ?, 0)", (session, seq, body))
                connection.execute("RELEASE one")
                answers.append((future, seq))
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_answer, answers)
        connection.close()


class RawPostgres:
    """Two tasks on two connections, each writing what waits in one transaction of two statements."""

    def __init__(self, connections: list[Any]) -> None:
        self._waiting: list[tuple[str, str, asyncio.Future[int]]] = []
        self._work = asyncio.Event()
        self._connections = connections
        self._tasks = [asyncio.create_task(self._write(connection)) for connection in connections]

    @classmethod
    async def open(cls, url: str, sessions: list[str]) -> "RawPostgres":
        import asyncpg

        connections = [await asyncpg.connect(url) for _ in range(2)]
        await connections[0].execute("CREATE SCHEMA raw")
        for connection in connections:
            await connection.execute("SET search_path TO raw")
        for statement in SCHEMA:
            await connections[0].execute(statement)
        await connections[0].executemany(
            f"INSERT INTO sessions VALUES ('{SPACE}', $1, 0)", [(name,) for name in sessions]
        )
        return cls(connections)

    async def append(self, session: str, body: str) -> int:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((session, body, future))
        self._work.set()
        return await future

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections[0].execute("DROP SCHEMA raw CASCADE")
        for connection in self._connections:
            await connection.close()

    async def _write(self, connection: Any) -> None:
        while True:
            if not self._waiting:
                self._work.clear()
                await self._work.wait()
                continue
            group, self._waiting = self._waiting[:_GROUP], self._waiting[_GROUP:]
            counts: dict[str, int] = {}
            for session, _, _ in group:
                counts[session] = counts.get(session, 0) + 1
            async with connection.transaction():
                rows = await connection.fetch(
                    "UPDATE sessions SET last_seq = last_seq + d.n FROM unnest($1::text[], $2::bigint[]) AS d(id, n)"
                    f" WHERE space_id = '{SPACE}' AND session_id = d.id RETURNING session_id, last_seq",
                    sorted(counts),
                    [counts[name] for name in sorted(counts)],
                )
                following = {session: last - counts[session] + 1 for session, last in rows}
                values = []
                for session, body, _ in group:
                    values.append((session, following[session], body))
                    following[session] += 1
                await connection.execute(
                    f"INSERT INTO events SELECT '{SPACE}', s, n, b, 0 FROM unnest($1::text[], $2::bigint[], $3::text[])"
                    " AS t(s, n, b)",
                    *(list(column) for column in zip(*values, strict=True)),
                )
            _answer([(future, seq) for (_, _, future), (_, seq, _) in zip(group, values, strict=True)])


def _answer(answers: list[tuple[asyncio.Future[int], int]]) -> None:
    for future, seq in answers:
        future.set_result(seq)
