"""Notes: writes that every process sees at once, and that do not wait for the disk."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import bindparam, func, insert, select

from threadkeep.errors import Unavailable
from threadkeep.storage.database import Database, open_database
from threadkeep.storage.sqlite import SqliteDatabase
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import users

_PUT = Statement(
    insert(users).values(user_id=bindparam("id"), tenant_id="t", name=bindparam("name"), created_at=bindparam("at"))
)
_NAMES = Statement(select(users.c.name).order_by(users.c.name))
_WAITS = Statement(select(func.current_setting("synchronous_commit")), only="postgresql")


def put(name: str) -> Steps[None]:
    yield _PUT, {"id": f"u-{name}", "name": name, "at": 1}


def names() -> Steps[list[str]]:
    return [name for (name,) in (yield _NAMES, {})]


def waits() -> Steps[Any]:
    return (yield _WAITS, {})


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Database]:
    opened = await open_database(database)
    yield opened
    await opened.close()


async def test_a_note_is_seen_by_everybody_when_it_returns(opened: Database, database: str) -> None:
    other = await open_database(database)
    try:
        await opened.note(lambda: put("ann"))
        assert await other.read(names) == ["ann"]
    finally:
        await other.close()


async def test_a_note_that_fails_is_no_others_loss(opened: Database) -> None:
    await opened.note(lambda: put("ann"))

    notes = [opened.note(lambda name=name: put(name)) for name in ("bob", "ann", "cid")]
    answers = await asyncio.gather(*notes, opened.write(lambda: put("dan")), return_exceptions=True)

    assert [answer is None for answer in answers] == [True, False, True, True]
    assert await opened.read(names) == ["ann", "bob", "cid", "dan"]


async def test_whoever_notes_again_and_again_lets_others_go_on(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.storage.sqlite._NOTES_APART", 3_600.0)
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(go_on())
    for number in range(20):
        await opened.note(lambda number=number: put(f"n{number}"))
    other.cancel()
    assert turns >= 19


async def test_a_note_on_a_closed_database_is_refused(database: str) -> None:
    opened = await open_database(database)
    await opened.close()
    with pytest.raises(Unavailable, match="closed"):
        await opened.note(lambda: put("ann"))


async def test_only_notes_do_not_wait_for_the_disk_of_postgresql(opened: Database) -> None:
    if opened.dialect != "postgresql":
        return
    assert await opened.note(waits) == [("off",)]
    assert await opened.write(waits) == [("on",)]


async def test_a_note_waits_its_turn_where_somebody_writes(tmp_path: Path, said: list[str]) -> None:
    database = SqliteDatabase(str(tmp_path / "t.db"))
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    try:
        other.execute("CREATE TABLE users (user_id, tenant_id, name, created_at)")
        other.execute("BEGIN IMMEDIATE")
        said.clear()
        notes = [asyncio.create_task(database.note(lambda name=name: put(name))) for name in ("ann", "bob")]
        await asyncio.sleep(0)
        assert await database.read(names) == []
        other.commit()
        await asyncio.gather(*notes)
        assert await database.read(names) == ["ann", "bob"]
        assert said[0] == "synchronous=NORMAL"
        said.clear()
        await database.write(lambda: put("cid"))
        assert said == ["synchronous=FULL", "COMMIT"]
    finally:
        await database.close()
        other.close()


async def test_a_note_of_sqlite_never_waits_on_the_loop(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "t.db"))
    try:
        settings = {
            name: database._noter.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "busy_timeout", "wal_autocheckpoint")
        }
        # 1 is NORMAL: not for the disk; nor for other writers, nor for the log to be moved into the file.
        assert settings == {"synchronous": 1, "busy_timeout": 0, "wal_autocheckpoint": 0}
    finally:
        await database.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How commits are made, of all connections that are opened from now on."""
    said: list[str] = []
    connect = sqlite3.connect

    class Heard(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous=") or sql == "COMMIT":
                said.append(sql.removeprefix("PRAGMA "))
            return super().execute(sql, *values)

    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Heard))
    return said
