"""A database whose every visit is a span of the trace that the caller is in."""

from collections.abc import Callable
from typing import TypeVar

from threadkeep.storage.appends import Answer, Append
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps
from threadkeep.telemetry.tracing import Tracing

T = TypeVar("T")


class TracedDatabase:
    """The verbs of `database`, each in a span that lasts until its caller has the answer."""

    def __init__(self, database: Database, tracing: Tracing) -> None:
        self.dialect = database.dialect
        self._database = database
        self._tracing = tracing

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        with self._tracing.database("read", self.dialect):
            return await self._database.read(operation)

    async def scan(self, operation: Callable[[], Steps[T]]) -> T:
        with self._tracing.database("scan", self.dialect):
            return await self._database.scan(operation)

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        with self._tracing.database("write", self.dialect):
            return await self._database.write(operation)

    async def note(self, operation: Callable[[], Steps[T]]) -> T:
        with self._tracing.database("note", self.dialect):
            return await self._database.note(operation)

    async def append(self, wish: Append) -> Answer:
        with self._tracing.database("append", self.dialect):
            return await self._database.append(wish)

    async def close(self) -> None:
        await self._database.close()
