"""Databases to measure on: a file, and a PostgreSQL server."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from threadkeep.testing import postgres


@contextmanager
def sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as folder:
        yield f"sqlite:///{folder}/bench.db"


ENGINES = {"sqlite": sqlite, "postgresql": postgres.running}
