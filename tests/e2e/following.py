"""A reader that follows a run over several gateways: cut off anywhere, it goes on after the last event that it has."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = dict[str, Any]
TERMINALS = ("RUN_FINISHED", "RUN_ERROR")


@dataclass
class Reader:
    """What a client has seen of one run: `seen` are the events with an index, and `unnumbered` those that came without
    one, as the log did not have them yet, by the index that they are to have.
    """

    thread_id: str
    run_id: str
    seen: dict[int, bytes] = field(default_factory=dict)
    unnumbered: dict[int, bytes] = field(default_factory=dict)
    terminal: Json | None = None
    place: int = 0

    @property
    def path(self) -> str:
        return f"/agui/threads/{self.thread_id}/runs/{self.run_id}/events/"

    @property
    def last_id(self) -> str | None:
        return f"{self.run_id}:{max(self.seen)}" if self.seen else None

    def body(self, text: str) -> Json:
        """The input of the run."""
        message = {"id": f"{self.run_id}-u", "role": "user", "content": text}
        whole = {"threadId": self.thread_id, "runId": self.run_id, "messages": [message], "tools": [], "context": []}
        return {**whole, "state": {}, "forwardedProps": {}}

    async def begin(self, http: httpx.AsyncClient, text: str, frames: int | None = None) -> int:
        """Send the input and read; the status of the answer."""
        async with http.stream("POST", "/agui/", json=self.body(text)) as response:
            return await self._read(response, frames)

    async def go_on(self, http: httpx.AsyncClient, frames: int | None = None) -> int:
        """Read on after the last event; the status of the answer."""
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        async with http.stream("GET", self.path, headers=headers) as response:
            return await self._read(response, frames)

    async def _read(self, response: httpx.Response, frames: int | None) -> int:
        if response.status_code != 200:
            await response.aread()
            return response.status_code
        self.place = max(self.seen, default=-1) + 1
        async with aclosing(blocks(response)) as incoming:
            async for block in incoming:
                self.take(block)
                frames = None if frames is None else frames - 1
                if self.terminal is not None or frames == 0:
                    break
        return 200

    def take(self, block: bytes) -> None:
        """One frame. A stream leaves no event out, repeats none, and gives each the index that is its place.

        Where a process has lost its run, what it sent without an index is not in the log: what is comes in its place.
        """
        if block.startswith(b":"):
            return
        assert self.terminal is None, f"{block!r} comes after the end"
        lines = block.split(b"\n")
        data = b"\n".join(line[6:] for line in lines if line.startswith(b"data: "))
        event = json.loads(data)
        if lines[0].startswith(b"id: "):
            run_id, _, index = lines[0][4:].decode().rpartition(":")
            assert run_id == self.run_id
            last = max(self.seen, default=-1)
            assert last < int(index) <= self.place, f"{lines[0]!r} follows {self.run_id}:{last}, at {self.place}"
            self.place = int(index)
            self.seen[self.place] = data
        else:
            self.unnumbered[self.place] = data
        self.place += 1
        if event["type"] in TERMINALS:
            self.terminal = event


async def blocks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """What stands between empty lines, as it comes."""
    rest = b""
    async for chunk in response.aiter_raw():
        *whole, rest = (rest + chunk).split(b"\n\n")
        for block in whole:
            yield block


def client_of(url: str, token: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits)
