"""Reading whole lists."""

from typing import Any

import httpx

from threadkeep.persistence import DRMemoryServiceClient
from threadkeep.persistence.paging import read_all
from threadkeep.transport import calls


class Shelf:
    """A list of rows that loses some of them after a page was served."""

    def __init__(self, count: int, losses: dict[int, list[int]]) -> None:
        self.rows = list(range(count))
        self.losses = losses
        self.offsets: list[int] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        offset = int(request.url.params["offset"])
        limit = int(request.url.params["limit"])
        page: dict[str, Any] = {
            "items": [{"memorySpaceId": row} for row in self.rows[offset : offset + limit]],
            "total": len(self.rows),
        }
        for row in self.losses.get(len(self.offsets), []):
            self.rows.remove(row)
        self.offsets.append(offset)
        return httpx.Response(200, json=page)

    async def read(self) -> list[int]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self.answer)) as http_client:
            client = DRMemoryServiceClient(endpoint="http://t.test", api_token="t", http_client=http_client)
            rows: list[Any] = await read_all(
                client, lambda offset: calls.list_spaces(offset=offset, limit=10), lambda row: row["memorySpaceId"]
            )
        return [row["memorySpaceId"] for row in rows]


async def test_every_page_is_read() -> None:
    shelf = Shelf(25, {})
    assert await shelf.read() == list(range(25))
    assert shelf.offsets == [0, 10, 20]


async def test_an_empty_list_takes_one_call() -> None:
    shelf = Shelf(0, {})
    assert await shelf.read() == []
    assert shelf.offsets == [0]


async def test_a_row_deleted_between_pages_hides_no_other() -> None:
    shelf = Shelf(25, {0: [1, 2, 3], 2: [12]})
    assert set(await shelf.read()) == set(range(25))


async def test_a_list_that_is_emptied_meanwhile_ends() -> None:
    shelf = Shelf(25, {0: list(range(25))})
    assert await shelf.read() == list(range(10))
