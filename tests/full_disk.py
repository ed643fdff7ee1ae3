"""A disk that is full: SQLite's own limit on the pages of a file, set on the connections that write."""

import sqlite3
from typing import Any

from sqlalchemy import text

from threadkeep.errors import Unavailable
from threadkeep.services.container import Container
from threadkeep.storage.statement import Statement, Steps

_PLENTY = 1_073_741_823


async def fill_disk(container: Container) -> None:
    """From now on the file does not grow, and what needs another page fails with "database or disk is full"."""
    file = sqlite3.connect(container.settings.database.removeprefix("sqlite:///"))
    # Pages that were freed would be used first.
    file.execute("VACUUM")
    file.close()
    await _allow(container, 1)


async def free_disk(container: Container) -> None:
    """There is room again."""
    while True:
        try:
            await _allow(container, _PLENTY)
        except Unavailable:
            # It shared its transaction with something that did not fit.
            continue
        return


async def _allow(container: Container, pages: int) -> None:
    def steps() -> Steps[Any]:
        # SQLite takes no fewer than the file has.
        return (yield Statement(text(f"PRAGMA max_page_count = {pages}")), {})

    # Notes have a connection of their own.
    for verb in (container.database.note, container.database.write):
        await verb(steps)
