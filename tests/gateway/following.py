"""What tests do who read runs: the bytes of a stream, whole or from a place on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.gateway.stack import Client
from threadkeep.testing.agents import Step

STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}


def say(text: str, message: str = "m1") -> list[Step]:
    """A message of one delta."""
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": text},
        {"type": "TEXT_MESSAGE_END", "messageId": message},
    ]


HALF: list[Step] = [STARTED, *say("One, two")[:2]]
WHOLE: list[Step] = [STARTED, *say("All of it"), FINISHED]


def events_path(thread: str = "t1", run: str = "r1") -> str:
    return f"/agui/threads/{thread}/runs/{run}/events/"


async def ask(
    client: Client, *, run: str = "r1", after: str | None = None, header: str | None = None
) -> httpx.Response:
    """The answer of the events route, read to its end."""
    params = {} if after is None else {"after": after}
    headers = {} if header is None else {"Last-Event-ID": header}
    return await client.http.get(events_path(run=run), params=params, headers=headers)


async def read(client: Client, **where: Any) -> bytes:
    """A run from a place to its end."""
    response = await ask(client, **where)
    assert response.status_code in (200, 204), response.text
    return response.content


@asynccontextmanager
async def follow(client: Client, after: str | None = None, run: str = "r1") -> AsyncIterator[AsyncIterator[bytes]]:
    """The bytes of a run as they come."""
    params = {} if after is None else {"after": after}
    async with client.http.stream("GET", events_path(run=run), params=params) as response:
        assert response.status_code == 200, await response.aread()
        yield response.aiter_bytes()


async def until(stream: AsyncIterator[bytes], text: bytes) -> bytes:
    """What comes up to and with the text."""
    seen = b""
    while text not in seen:
        seen += await anext(stream)
    return seen


async def rest(stream: AsyncIterator[bytes]) -> bytes:
    """What comes to the end."""
    return b"".join([chunk async for chunk in stream])


def cut(stream: bytes) -> list[bytes]:
    """The frames of a stream, each with its empty line, without comments."""
    blocks = [block + b"\n\n" for block in stream.split(b"\n\n") if block]
    return [block for block in blocks if not block.startswith(b":")]
