"""PostgreSQL: a small pool, and tasks that write appends in groups.

A few appenders take of what waits, write it in one transaction each and answer; while one waits for its commit, the
others write. Every other operation is a transaction of its own. Deadlocks and serialization failures are tried again,
since every operation can be.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import asyncpg

from threadkeep.errors import Unavailable
from threadkeep.storage.appends import Answer, Append, append_group
from threadkeep.storage.statement import InsertMany, Row, Steps, chunks, flat

T = TypeVar("T")

_APPENDERS = 4
_GROUP = 256
_HANDFUL = 16
_GROUP_BYTES = 8 * 1024 * 1024
_TRIES = 8
_REST = 30
"""Seconds after which a connection that was not used goes back to the pool."""
_AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    # Two transactions took one key at a time: the later one sees next time who has it.
    asyncpg.UniqueViolationError,
)
_GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    OSError,
    TimeoutError,
)
_SERVER_SETTINGS = {
    "application_name": "threadkeep",
    # A transaction that its client has forgotten must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "30000",
}


class PostgresDatabase:
    """A PostgreSQL database, or one that speaks its protocol."""

    dialect = "postgresql"

    def __init__(self, pool: Any, size: int, url: str) -> None:
        self._pool = pool
        self._url = url
        self._noter: Any = None
        self._noting = asyncio.Lock()
        self._free = asyncio.Semaphore(size)
        self._at_hand: deque[tuple[Any, float]] = deque()
        self._waiting: deque[tuple[Append, asyncio.Future[Answer]]] = deque()
        self._work = asyncio.Event()
        self._closing = False
        self._appenders = [asyncio.create_task(self._append_for_ever()) for _ in range(_APPENDERS)]

    @classmethod
    async def open(cls, url: str, connections: int) -> "PostgresDatabase":
        """Connect. Raises Unavailable where nobody answers."""
        size = max(connections, _APPENDERS + 1)
        try:
            pool = await asyncpg.create_pool(
                driver_url(url),
                min_size=1,
                max_size=size,
                command_timeout=60,
                server_settings=_SERVER_SETTINGS,
                statement_cache_size=512,
                init=_set_up,
                reset=_leave_as_it_is,
            )
        except (*_GONE, ValueError) as error:
            raise Unavailable(f"The database cannot be reached: {error}") from error
        return cls(pool, size, url)

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        try:
            async with self._connection() as connection:
                return await _drive(connection, operation())
        except _GONE as error:
            raise Unavailable(f"The database gives no answer: {error}") from error

    async def scan(self, operation: Callable[[], Steps[T]]) -> T:
        return await self.read(operation)

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._until_done(lambda: self._transact(operation))

    async def note(self, operation: Callable[[], Steps[T]]) -> T:
        async with self._noting:
            return await self._until_done(lambda: self._note(operation))

    async def append(self, wish: Append) -> Answer:
        if self._closing:
            raise Unavailable("The database is closed")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((wish, future))
        self._work.set()
        return await future

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._work.set()
        await asyncio.gather(*self._appenders)
        while self._at_hand:
            await self._pool.release(self._at_hand.pop()[0])
        if self._noter is not None:
            await self._noter.close()
        await self._pool.close()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection, for as long as the block runs.

        Those that were used are kept at hand: the pool takes one back in a task of its own, which takes as long as a
        look-up. It gets those that rested, to close them, and those that something befell, to see to them.
        """
        async with self._free:
            connection = await self._take_connection()
            try:
                yield connection
            except BaseException:
                await self._pool.release(connection)
                raise
            self._at_hand.append((connection, time.monotonic()))

    async def _take_connection(self) -> Any:
        while self._at_hand:
            connection, used_at = self._at_hand.pop()
            if not connection.is_closed() and time.monotonic() - used_at < _REST:
                return connection
            await self._pool.release(connection)
        return await self._pool.acquire()

    async def _transact(self, operation: Callable[[], Steps[T]]) -> T:
        async with self._connection() as connection, connection.transaction():
            return await _drive(connection, operation())

    async def _note(self, operation: Callable[[], Steps[T]]) -> T:
        """Run on a connection of its own, where each statement commits by itself and the disk is not waited for."""
        if self._closing:
            raise Unavailable("The database is closed")
        if self._noter is None or self._noter.is_closed():
            self._noter = await asyncpg.connect(
                driver_url(self._url), command_timeout=60, statement_cache_size=512, server_settings=_SERVER_SETTINGS
            )
            await _set_up(self._noter)
            with contextlib.suppress(asyncpg.PostgresError):
                await self._noter.execute("SET synchronous_commit = off")
        return await _drive(self._noter, operation())

    async def _until_done(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run it, and again where it lost to another transaction."""
        for attempt in range(_TRIES):
            try:
                return await run()
            except _AGAIN as error:
                if attempt == _TRIES - 1:
                    raise Unavailable(f"The database is too busy: {error}") from error
                await asyncio.sleep(random.uniform(0, 0.005 * 2**attempt))
            except _GONE as error:
                raise Unavailable(f"The database gives no answer: {error}") from error
        raise AssertionError("unreachable")

    async def _append_for_ever(self) -> None:
        while self._waiting or not self._closing:
            if not self._waiting:
                self._work.clear()
                await self._work.wait()
                continue
            group = self._take()
            try:
                answers = await self._append(group)
            except Exception as error:
                answers = [error] * len(group)
            for (_, future), answer in zip(group, answers, strict=True):
                if future.done():
                    continue  # The caller has gone; what was written stays.
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _take(self) -> list[tuple[Append, asyncio.Future[Answer]]]:
        group: list[tuple[Append, asyncio.Future[Answer]]] = []
        size = 0
        # Not all that waits: what is left is for the other appenders, who write it while this one waits for its commit.
        most = min(_GROUP, max(_HANDFUL, len(self._waiting) // _APPENDERS))
        while self._waiting and len(group) < most and size < _GROUP_BYTES:
            item = self._waiting.popleft()
            group.append(item)
            size += item[0].size
        return group

    async def _append(self, group: list[Any]) -> list[Answer | Exception]:
        wishes = [wish for wish, _ in group]
        try:
            return list(await self.write(lambda: append_group(wishes)))
        except Exception as error:
            if len(group) == 1 or isinstance(error, Unavailable):
                return [error] * len(group)
        # A statement that fails undoes the group: each caller alone, so that only the one at fault hears of it.
        alone: list[Answer | Exception] = []
        for item in group:
            alone += await self._append([item])
        return alone


async def _set_up(connection: Any) -> None:
    """Plan each statement once: all lead with a key, and planning again takes longer than most of them run."""
    # Engines that only speak PostgreSQL's protocol may not know the setting.
    with contextlib.suppress(asyncpg.PostgresError):
        await connection.execute("SET plan_cache_mode = force_generic_plan")


async def _leave_as_it_is(connection: Any) -> None:
    """Nothing to reset: no operation changes a session, and the driver's own reset is a round trip each time."""


def driver_url(url: str) -> str:
    """The URL as the driver reads it: without SQLAlchemy's `+driver`."""
    scheme, _, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}://{rest}"


async def _drive(connection: Any, steps: Steps[T]) -> T:
    rows: list[Row] | None = None
    with contextlib.closing(steps):
        try:
            while True:
                statement, values = steps.send(rows) if rows is not None else next(steps)
                if isinstance(statement, InsertMany):
                    for chunk in chunks(cast(Sequence[Sequence[Any]], values)):
                        await connection.execute(statement.of(len(chunk)).sql("postgresql"), *flat(chunk))
                    rows = []
                elif statement.only not in (None, "postgresql"):
                    rows = []
                else:
                    sql, arguments = statement.bind("postgresql", values)
                    rows = await connection.fetch(sql, *arguments)
        except StopIteration as stop:
            result: T = stop.value
            return result
