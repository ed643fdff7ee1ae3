"""The gateway on real services, as its clients see it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette

from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.app import build_app
from threadkeep.services.container import Container
from threadkeep.transport.in_process import InProcessTransport

Json = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """One frame of a stream as it came; `id` is empty where it had none."""

    id: str
    data: bytes

    @property
    def json(self) -> Json:
        fields: Json = json.loads(self.data)
        return fields

    @property
    def type(self) -> str:
        return str(self.json["type"])


def read_frames(stream: bytes) -> list[Frame]:
    """The frames of a whole stream; anything that is no frame or comment fails."""
    *blocks, rest = stream.split(b"\n\n")
    assert rest == b""
    frames = []
    for block in blocks:
        if block == b": keepalive":
            continue
        lines = block.split(b"\n")
        # What is of a prelude, or not in the log yet, has no id.
        first = lines.pop(0)[4:] if lines[0].startswith(b"id: ") else b""
        assert all(line.startswith(b"data: ") for line in lines)
        frames.append(Frame(first.decode(), b"\n".join(line[6:] for line in lines)))
    return frames


def run_body(thread: str = "t1", run: str = "r1", text: str = "hi", user_id: str = "u1", **fields: Any) -> Json:
    """The body of a run that says one thing."""
    message = {"id": user_id, "role": "user", "content": text}
    whole = {"threadId": thread, "runId": run, "messages": [message], "tools": [], "context": [], "state": {}}
    return {**whole, "forwardedProps": {}, **fields}


class Client:
    """What a frontend does."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def run(self, body: Json | None = None, /, **fields: Any) -> list[Frame]:
        """Run to the end."""
        response = await self.http.post("/agui/", content=json.dumps(body or run_body(**fields)))
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream"
        return read_frames(response.content)

    @asynccontextmanager
    async def stream(self, body: Json | None = None, /, **fields: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of a run as they come; leaving the block is leaving the stream."""
        async with self.http.stream("POST", "/agui/", json=body or run_body(**fields)) as response:
            assert response.status_code == 200, await response.aread()
            yield response.aiter_bytes()

    async def get(self, path: str, **params: Any) -> Any:
        response = await self.http.get(f"/agui{path}", params=params)
        assert response.status_code == 200, response.text
        return response.json()

    async def messages(self, thread: str = "t1", **params: Any) -> list[Json]:
        items: list[Json] = (await self.get(f"/threads/{thread}/messages/", **params))["items"]
        return items

    async def runs(self, thread: str = "t1") -> list[Json]:
        items: list[Json] = (await self.get(f"/threads/{thread}/runs/"))["items"]
        return items

    async def cancel(self, thread: str = "t1", run: str = "r1") -> bool:
        response = await self.http.post(f"/agui/threads/{thread}/runs/{run}/cancel/")
        assert response.status_code == 200, response.text
        return bool(response.json()["cancelled"])


@asynccontextmanager
async def open_client(gateway: Starlette, token: str, user: str | None = None) -> AsyncIterator[Client]:
    """A client of the gateway in process, with its own token."""
    headers = {"Authorization": f"Bearer {token}"} | ({"X-Threadkeep-User": user} if user else {})
    async with httpx.AsyncClient(
        transport=InProcessTransport(gateway), timeout=60, base_url="http://threadkeep.test", headers=headers
    ) as http:
        yield Client(http)


@asynccontextmanager
async def serve(container: Container, app: Starlette, source: AgentSource, **settings: Any) -> AsyncIterator[Starlette]:
    """The gateway, open."""
    gateway = build_app(container, app, source, **settings)
    async with gateway.router.lifespan_context(gateway):
        yield gateway
    await source.aclose()


def summary(messages: list[Json]) -> list[Mapping[str, Any]]:
    """What a test looks at of each message."""
    return [
        {
            "role": message["role"],
            "content": message["content"],
            "status": message["status"],
            "calls": [
                (call["name"], call["arguments"], call["content"], call["status"]) for call in message["toolCalls"]
            ],
            "reasonings": [(step["content"], step["status"]) for step in message["reasonings"]],
        }
        for message in messages
    ]


def row(
    role: str,
    content: str,
    status: str = "complete",
    calls: tuple[tuple[str, str, str, str], ...] = (),
    reasonings: tuple[tuple[str, str], ...] = (),
) -> Mapping[str, Any]:
    """What `summary` says of such a message."""
    return {
        "role": role,
        "content": content,
        "status": status,
        "calls": list(calls),
        "reasonings": list(reasonings),
    }
