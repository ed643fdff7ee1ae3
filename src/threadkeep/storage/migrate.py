"""Bring a database to the schema of this version, and say which one it has."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from threadkeep.errors import MissingExtra, ThreadkeepError, Unavailable
from threadkeep.storage.database import engine_of, sqlite_path

T = TypeVar("T")
_SCRIPTS = Path(__file__).parent / "migrations"


class SchemaTooNew(ThreadkeepError):
    """The database was migrated by a later version of Threadkeep than this one."""


async def migrate(url: str) -> tuple[str | None, str]:
    """Upgrade to the newest schema. Returns the revision before and after.

    Raises SchemaTooNew, Unavailable.
    """
    try:
        return await _connected(url, _upgrade)
    except SQLAlchemyError as error:
        # Another process may have done the same at the same time.
        if await revision(url) != newest_revision():
            raise Unavailable(f"The schema could not be upgraded: {error}") from error
        return newest_revision(), newest_revision()


async def revision(url: str) -> str | None:
    """The revision that the database is at; None where it has no schema. Raises Unavailable."""
    return await _connected(url, _revision)


def newest_revision() -> str:
    """The revision of this version of Threadkeep."""
    head = ScriptDirectory(str(_SCRIPTS)).get_current_head()
    assert head is not None
    return head


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(connection: Connection) -> tuple[str | None, str]:
    before = _revision(connection)
    known = {script.revision for script in ScriptDirectory(str(_SCRIPTS)).walk_revisions()}
    if before is not None and before not in known:
        raise SchemaTooNew(
            f"The database has the schema {before!r}, which this version of Threadkeep does not know: "
            "it was used by a later version. Upgrade Threadkeep, or give it another database."
        )
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()
    return before, newest_revision()


async def _connected(url: str, work: Callable[[Connection], T]) -> T:
    try:
        if engine_of(url) == "sqlite":
            return await asyncio.to_thread(_on_sqlite, sqlite_path(url), work)
        return await _on_postgres(url, work)
    except OSError as error:
        raise Unavailable(f"The database cannot be reached: {error}") from error


def _on_sqlite(path: str, work: Callable[[Connection], T]) -> T:
    if not Path(path).parent.is_dir():
        raise Unavailable(f"The folder of the database file {path!r} does not exist")
    engine = create_engine("sqlite://", creator=lambda: _open_sqlite(path), poolclass=NullPool)
    with engine.connect() as connection:
        return work(connection)


def _open_sqlite(path: str) -> Any:
    import sqlite3

    connection = sqlite3.connect(path, timeout=30)
    connection.execute("PRAGMA journal_mode=WAL")
    return connection


async def _on_postgres(url: str, work: Callable[[Connection], T]) -> T:
    _, _, rest = url.partition("://")
    try:
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(f"postgresql+asyncpg://{rest}", poolclass=NullPool)
    except ImportError as error:
        raise MissingExtra("postgres", "A PostgreSQL database") from error
    async with engine.connect() as connection:
        return await connection.run_sync(work)
