"""The seam between engines: what a database can do, and which one a URL means.

Five verbs: `read` for look-ups, `scan` for what may take long, `write` for a transaction of one caller,
`append` for the hot path, where many callers share one, `note` for what need not wait for the disk.
"""

import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from threadkeep.errors import MissingExtra, ThreadkeepError
from threadkeep.storage.appends import Answer, Append
from threadkeep.storage.statement import Steps

T = TypeVar("T")


class Database(Protocol):
    """A database, opened. All verbs raise Unavailable where the engine gives no answer."""

    dialect: str

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        """Run a short operation that changes nothing."""

    async def scan(self, operation: Callable[[], Steps[T]]) -> T:
        """Run an operation that changes nothing and may read much."""

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        """Run an operation in a transaction. When this returns, the change survives a crash."""

    async def note(self, operation: Callable[[], Steps[T]]) -> T:
        """Run an operation whose statements each stand for themselves, and do not wait for the disk.

        When this returns, every process sees the change, and it survives the end of any of them. The disk has it with
        the next `write` or `append` on SQLite, within a second on PostgreSQL: what a machine that loses its power
        before then has lost, is the newest of it.
        """

    async def append(self, wish: Append) -> Answer:
        """Append events, unless a key is taken or the session is not there. When this returns, they survive a crash."""

    async def close(self) -> None:
        """Finish what was accepted, then let go of every connection and thread."""


class BadDatabaseURL(ThreadkeepError, ValueError):
    """The URL names no database that Threadkeep knows."""


def engine_of(url: str) -> str:
    """`sqlite` or `postgresql`. Raises BadDatabaseURL."""
    scheme = url.partition("://")[0].partition("+")[0]
    if "://" in url and scheme in ("sqlite", "postgresql", "postgres"):
        return "sqlite" if scheme == "sqlite" else "postgresql"
    raise BadDatabaseURL(f"{url!r} is no database URL; give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME")


def sqlite_path(url: str) -> str:
    """The file that a SQLite URL names: `sqlite:///relative.db`, `sqlite:////absolute.db`. Raises BadDatabaseURL."""
    path = url.partition("://")[2].removeprefix("/")
    if not path or path == ":memory:":
        raise BadDatabaseURL(f"{url!r} names no file; give sqlite:///FILE (a store that is lost at exit keeps nothing)")
    return path


def check_database_url(url: str) -> None:
    """Raises BadDatabaseURL, or MissingExtra where the engine's driver is not installed."""
    if engine_of(url) == "sqlite":
        sqlite_path(url)
    elif find_spec("asyncpg") is None:
        raise MissingExtra("postgres", "A PostgreSQL database")


def identity_of(url: str) -> str:
    """The same for all URLs that name one database in one way, whoever they let in. Raises BadDatabaseURL."""
    if engine_of(url) == "sqlite":
        named = str(Path(sqlite_path(url)).resolve())
    else:
        parts = urlsplit(url)
        named = f"{parts.netloc.rpartition('@')[2].lower()}{parts.path}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]


async def open_database(url: str, *, connections: int = 10) -> Database:
    """Open the database that the URL names; its schema must be there.

    `connections` bounds the pool of PostgreSQL. Raises BadDatabaseURL, MissingExtra, Unavailable.
    """
    if engine_of(url) == "sqlite":
        from threadkeep.storage.sqlite import SqliteDatabase

        return SqliteDatabase(sqlite_path(url))
    try:
        from threadkeep.storage.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        raise MissingExtra("postgres", "A PostgreSQL database") from error
    return await PostgresDatabase.open(url, connections)
