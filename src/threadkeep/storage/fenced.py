"""A database whose writes need a run to be held: each looks at the run in its own transaction, or is undone.

So a process that was asleep while another one took its run over writes nothing more, however late it wakes.
"""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import bindparam, or_, select

from threadkeep.domain import run as states
from threadkeep.domain.run import Fence
from threadkeep.errors import LeaseLost
from threadkeep.storage import text
from threadkeep.storage.appends import Answer, Append, append_one
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import runs

T = TypeVar("T")

# Shared: the writes of a run do not wait for each other, and whoever takes the run over waits for them.
_HOLD = Statement(
    select(runs.c.run_id)
    .where(
        runs.c.space_id == bindparam("space_id"),
        runs.c.session_id == bindparam("session_id"),
        runs.c.run_id == bindparam("run_id"),
        runs.c.owner == bindparam("owner"),
        or_(runs.c.status == states.ACTIVE, runs.c.status == states.QUEUED),
    )
    .with_for_update(read=True)
)


class FencedDatabase:
    """`database` for what is done in the name of a run. Writes raise LeaseLost where the fence does not hold."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence
        self.dialect = database.dialect

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._database.read(operation)

    async def scan(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._database.scan(operation)

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._database.write(lambda: _behind(self._fence, operation))

    async def note(self, operation: Callable[[], Steps[T]]) -> T:
        return await self.write(operation)

    async def append(self, wish: Append) -> Answer:
        # A transaction of its own: the group that others share knows no fence, and is as fast as it was.
        return await self.write(lambda: append_one(wish))

    async def close(self) -> None:
        """Nothing: it is somebody else's database."""


def _behind(fence: Fence, operation: Callable[[], Steps[T]]) -> Steps[T]:
    key = fence.key
    at = {"space_id": key.space_id, "session_id": key.session_id, "run_id": text.encode(key.run_id)}
    if not (yield _HOLD, {**at, "owner": text.encode(fence.owner)}):
        raise LeaseLost(f"The run {key.run_id!r} of session {key.session_id!r} is not held by {fence.owner!r} any more")
    return (yield from operation())
