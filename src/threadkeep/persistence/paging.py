"""Reading a whole list, page after page."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from threadkeep.contract.pages import Page
from threadkeep.persistence.client import DRMemoryServiceClient
from threadkeep.transport.calls import Call

T = TypeVar("T")


async def read_all(
    client: DRMemoryServiceClient, page_at: Callable[[int], Call[Page[T]]], key: Callable[[T], Hashable]
) -> list[T]:
    """Every row of a list, each once.

    A row deleted between two pages moves the later ones forward, over the edge of the page just read. The total shows
    by how many, and that page is read again from as much earlier.
    """
    rows: dict[Hashable, T] = {}
    offset = 0
    total = 0
    while True:
        page = await client.send(page_at(offset))
        for row in page["items"]:
            rows.setdefault(key(row), row)
        gone, total = total - page["total"], page["total"]
        if gone > 0:
            offset = max(0, offset - gone)
            continue
        offset += len(page["items"])
        if not page["items"] or offset >= total:
            return list(rows.values())
