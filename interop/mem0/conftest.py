"""A client of the version that is installed, synchronous and asynchronous, in a space with nothing in it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import version
from typing import Any

import pytest
from mem0 import AsyncMemoryClient, MemoryClient

from interop.rows import Account

VERSION = tuple(int(part) for part in version("mem0ai").split("."))


class Client:
    """What all versions can do, in the words of each. `kind` is the class of the client."""

    def __init__(self, account: Account, kind: Callable[..., Any]) -> None:
        self.http = account.http
        self.space_id = account.http.post("new/", json={}).raise_for_status().json()["memorySpaceId"]
        self.host = f"{account.endpoint}/memory/{self.space_id}"
        self.kind = kind
        self.raw = kind(api_key=account.token, host=self.host)

    async def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        answer = getattr(self.raw, name)(*arguments, **options)
        return await answer if inspect.isawaitable(answer) else answer

    async def add(self, messages: Any, **options: Any) -> Any:
        return await self.call("add", messages, **options)

    async def search(self, query: str, **filters: Any) -> list[Any]:
        """Through `filters`; 0.1 has them in its second version only."""
        more = {"version": "v2"} if VERSION[0] == 0 else {}
        return results(await self.call("search", query, filters={"AND": [filters]}, **more))

    async def get_all(self, **filters: Any) -> list[Any]:
        more = {"version": "v2"} if VERSION[0] == 0 else {}
        return results(await self.call("get_all", filters={"AND": [filters]}, **more))

    async def close(self) -> None:
        closed = self.raw.async_client.aclose() if hasattr(self.raw, "async_client") else self.raw.client.close()
        if inspect.isawaitable(closed):
            await closed


def results(answer: Any) -> list[Any]:
    """The list in an answer: bare, or under `results`."""
    found = answer["results"] if isinstance(answer, dict) else answer
    assert isinstance(found, list)
    return found


Play = Callable[[Callable[[Client], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=[MemoryClient, AsyncMemoryClient], ids=["sync", "async"])
def play(request: pytest.FixtureRequest, account: Account) -> Play:
    """Runs a scenario with the client."""

    def run(scenario: Callable[[Client], Awaitable[None]]) -> None:
        async def played() -> None:
            client = Client(account, request.param)
            try:
                await scenario(client)
            finally:
                await client.close()

        asyncio.run(played())

    return run
