"""CopilotKit's routes as its frontends see them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.gateway.stack import Client, Frame, Json, read_frames, run_body


class Frontend:
    """What a CopilotKit frontend asks, of the agent `default`."""

    def __init__(self, client: Client) -> None:
        self.http = client.http

    async def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        response = await self.http.request(method, f"/copilotkit{path}", **options)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    async def stream(self, path: str, body: Json | None = None, /, **fields: Any) -> list[Frame]:
        """A whole stream; that of a run without more."""
        response = await self.http.post(f"/copilotkit{path}", json=body or run_body(**fields))
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream"
        return read_frames(response.content)

    async def run(self, **fields: Any) -> list[Frame]:
        return await self.stream("/agent/default/run", **fields)

    @asynccontextmanager
    async def running(self, **fields: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of a run as they come."""
        path = "/copilotkit/agent/default/run"
        async with self.http.stream("POST", path, json=run_body(**fields)) as response:
            assert response.status_code == 200, await response.aread()
            yield response.aiter_bytes()

    async def threads(self, **params: str) -> list[Json]:
        """The first page of the list."""
        found: list[Json] = (await self.ask("GET", "/threads", params={"agentId": "default", **params}))["threads"]
        return found


async def until(stream: AsyncIterator[bytes], what: bytes) -> None:
    """Read until something has come."""
    seen = b""
    while what not in seen:
        seen += await anext(stream)
