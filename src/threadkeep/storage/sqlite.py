"""SQLite: one thread writes, in groups; the event loop reads.

The writer takes everything that waits, runs it in one transaction and commits once: one fsync for all.
Appends come first, merged into a few multi-row statements; every other operation has a savepoint of its own, so that
one failure undoes nobody else's work. A caller hears back only after the commit.
Begun immediately, a write transaction waits for other processes at its start and never in the middle.
"""

import asyncio
import contextvars
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from threadkeep.errors import Unavailable
from threadkeep.storage.appends import Answer, Append, append_group, append_one
from threadkeep.storage.statement import InsertMany, Row, Steps

T = TypeVar("T")

_GROUP = 256
"""Callers that share one commit."""
_GROUP_BYTES = 8 * 1024 * 1024
"""Bytes of appends in one group, so that one big batch does not hold up the rest."""
_BUSY_MS = 10_000
_CHECKPOINT_PAGES = 8_000
"""Pages of 4 KiB in the log before they move to the file: larger than SQLite's default, and so fewer of them twice."""
_READERS = 4
_NOTES_APART = 0.001
"""Seconds from a note to the next, below which the loop gets a turn between them."""


@dataclass(slots=True)
class _Item:
    """Something to write, and who waits for it."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    wish: Append | None = None
    operation: Callable[[], Steps[Any]] | None = None
    is_note: bool = False
    answer: Any = None
    error: Exception | None = None


class SqliteDatabase:
    """A SQLite file in write-ahead mode. Every acknowledged write is on disk."""

    dialect = "sqlite"

    def __init__(self, path: str) -> None:
        if not Path(path).parent.is_dir():
            raise Unavailable(f"The folder of the database file {path!r} does not exist")
        self._path = path
        self._reader = self._connect(read_only=True)
        self._noter = self._connect_for_notes()
        self._noted_at = 0.0
        self._idle_readers: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._scanners = ThreadPoolExecutor(_READERS, thread_name_prefix="threadkeep-reader")
        self._opened_readers: list[sqlite3.Connection] = []
        self._queue: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Item]] = {}
        self._closing = False
        self._waits_for_disk = True
        self._thread = threading.Thread(target=self._write_for_ever, name="threadkeep-writer", daemon=True)
        self._thread.start()

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        self._check_open()
        # A look-up takes some 20 microseconds: less than handing it to a thread.
        with _translated():
            return _drive(self._reader, operation())

    async def scan(self, operation: Callable[[], Steps[T]]) -> T:
        self._check_open()
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._scanners, context.run, self._scan, operation)

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        result: T = await self._submit(operation=operation)
        return result

    async def note(self, operation: Callable[[], Steps[T]]) -> T:
        self._check_open()
        try:
            # Handing it to the thread takes longer than writing it, since nothing waits for the disk.
            noted = _drive(self._noter, operation())
            before, self._noted_at = self._noted_at, time.monotonic()
            if self._noted_at - before < _NOTES_APART:
                # Whoever notes again and again must not be the only one who runs.
                await asyncio.sleep(0)
            return noted
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise _translate(error) from error
        # Somebody is writing: in line, then, and not on the loop.
        result: T = await self._submit(operation=operation, is_note=True)
        return result

    async def append(self, wish: Append) -> Answer:
        answer: Answer = await self._submit(wish=wish)
        return answer

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        for loop in list(self._gathered):
            self._hand_over(loop)
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        # A scan goes on in its thread though its caller has gone, and a connection that is closed under it crashes all.
        await asyncio.to_thread(self._scanners.shutdown)
        for connection in (self._reader, self._noter, *self._opened_readers):
            connection.close()

    async def _submit(self, **what: Any) -> Any:
        self._check_open()
        loop = asyncio.get_running_loop()
        item = _Item(loop, loop.create_future(), **what)
        gathered = self._gathered.get(loop)
        if item.is_note:
            # Whoever writes notes has gathered them, and somebody waits for each.
            self._queue.put([item])
        elif gathered is None:
            # Handed over when the loop has run what is ready: the writer wakes once, and one commit serves them all.
            self._gathered[loop] = [item]
            loop.call_soon(self._hand_over, loop)
        else:
            gathered.append(item)
        return await item.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        items = self._gathered.pop(loop, None)
        if items is not None:
            self._queue.put(items)

    def _check_open(self) -> None:
        if self._closing:
            raise Unavailable("The database is closed")

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        with _translated():
            connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            connection.execute("PRAGMA cache_size=-65536")
            # A savepoint keeps the pages that it may have to restore: in memory, and not in a file beside the log.
            connection.execute("PRAGMA temp_store=MEMORY")
            if read_only:
                connection.execute("PRAGMA query_only=1")
            return connection

    def _connect_for_notes(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA busy_timeout=0")
        # To move the log into the file takes the disk: the thread does it.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        return connection

    def _scan(self, operation: Callable[[], Steps[T]]) -> T:
        try:
            connection = self._idle_readers.get_nowait()
        except queue.Empty:
            connection = self._connect(read_only=True)
            self._opened_readers.append(connection)
        try:
            with _translated():
                connection.execute("BEGIN")
                try:
                    return _drive(connection, operation())
                finally:
                    connection.execute("COMMIT")
        finally:
            self._idle_readers.put(connection)

    def _write_for_ever(self) -> None:
        connection = self._connect()
        waiting: deque[_Item] = deque()
        open_ = True
        while open_ or waiting:
            while open_ and not (waiting and self._queue.empty()):
                items = self._queue.get()
                if items is None:
                    open_ = False
                else:
                    waiting += items
            group: list[_Item] = []
            size = 0
            while waiting and len(group) < _GROUP and size < _GROUP_BYTES:
                item = waiting.popleft()
                group.append(item)
                size += item.wish.size if item.wish else 0
            if group:
                self._write(connection, group)
        connection.close()

    def _write(self, connection: sqlite3.Connection, group: list[_Item]) -> None:
        try:
            if (waits := not all(item.is_note for item in group)) != self._waits_for_disk:
                connection.execute(f"PRAGMA synchronous={'FULL' if waits else 'NORMAL'}")
                self._waits_for_disk = waits
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._run(connection, group)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except Exception as error:
            # The transaction as a whole has failed: a full disk, or another process that holds the file.
            for item in group:
                item.error = _translate(error)
        for loop in {item.loop for item in group}:
            mine = [item for item in group if item.loop is loop]
            try:
                loop.call_soon_threadsafe(_answer, mine)
            except RuntimeError:
                continue  # That loop was closed: nobody waits any more.

    def _run(self, connection: sqlite3.Connection, group: list[_Item]) -> None:
        appends = [item for item in group if item.wish is not None]
        if appends:
            self._append(connection, appends)
        for item in group:
            if item.operation is not None:
                (_plain if item.is_note else _apart)(connection, item, item.operation)

    def _append(self, connection: sqlite3.Connection, items: list[_Item]) -> None:
        """Append for all of them at once, or for each alone where that fails."""
        try:
            # Nothing else is in the transaction yet, and so no savepoint is needed: it would copy each page it meets.
            answers = _drive(connection, append_group([item.wish for item in items if item.wish]))
        except Exception:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            for item in items:
                _apart(connection, item, lambda wish=item.wish: append_one(wish))  # type: ignore[misc]
        else:
            for item, answer in zip(items, answers, strict=True):
                item.answer = answer


def _apart(connection: sqlite3.Connection, item: _Item, operation: Callable[[], Steps[Any]]) -> None:
    """Run an operation in a savepoint of its own and keep its result or its error in the item."""
    connection.execute("SAVEPOINT caller")
    try:
        item.answer = _drive(connection, operation())
        connection.execute("RELEASE caller")
    except Exception as error:
        if not connection.in_transaction:
            raise  # The engine gave up the whole transaction.
        connection.execute("ROLLBACK TO caller")
        connection.execute("RELEASE caller")
        item.error = _translate(error)


def _plain(connection: sqlite3.Connection, item: _Item, operation: Callable[[], Steps[Any]]) -> None:
    """The same without a savepoint: each statement of it stands for itself."""
    try:
        item.answer = _drive(connection, operation())
    except Exception as error:
        if not connection.in_transaction:
            raise
        item.error = _translate(error)


def _drive(connection: sqlite3.Connection, steps: Steps[T]) -> T:
    rows: list[Row] | None = None
    try:
        while True:
            statement, values = steps.send(rows) if rows is not None else next(steps)
            if isinstance(statement, InsertMany):
                connection.executemany(statement.of(1).sql("sqlite"), values)
                rows = []
            elif statement.only not in (None, "sqlite"):
                rows = []
            else:
                rows = connection.execute(*statement.bind("sqlite", values)).fetchall()
    except StopIteration as stop:
        result: T = stop.value
        return result


def _answer(items: list[_Item]) -> None:
    for item in items:
        if item.future.done():
            continue  # The caller has gone; what was written stays.
        if item.error is not None:
            item.future.set_exception(item.error)
        else:
            item.future.set_result(item.answer)


def _translate(error: Exception) -> Exception:
    if isinstance(error, sqlite3.OperationalError):
        unavailable = Unavailable(f"The database gives no answer: {error}")
        unavailable.__cause__ = error
        return unavailable
    return error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise _translate(error) from error
