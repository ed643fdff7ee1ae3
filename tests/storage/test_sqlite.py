"""What only SQLite needs: threads that read, and a file that is closed."""

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import literal_column, select

from threadkeep.errors import Unavailable
from threadkeep.storage.sqlite import SqliteDatabase
from threadkeep.storage.statement import Statement, Steps

_ONE = Statement(select(literal_column("1")))


async def test_a_scan_whose_caller_has_gone_ends_before_the_file_is_closed(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "t.db"))
    begun, go_on = threading.Event(), threading.Event()
    read: list[int] = []

    def operation() -> Steps[None]:
        begun.set()
        go_on.wait(10)
        ((one,),) = yield _ONE, {}
        read.append(one)

    scan = asyncio.create_task(database.scan(operation))
    await asyncio.to_thread(begun.wait, 10)
    scan.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scan
    closing = asyncio.create_task(database.close())
    await asyncio.to_thread(database._thread.join, 10)
    await asyncio.sleep(0)
    assert not closing.done()

    go_on.set()
    await closing

    assert read == [1]
    with pytest.raises(Unavailable, match="closed"):
        await database.scan(operation)
