"""What a client sends, counted: each request, and its bytes."""

from typing import Any

import httpx

from threadkeep.persistence import DRMemoryServiceClient


class Counted:
    """The requests that a client sends from now on, as `METHOD what`, and the bytes of their bodies."""

    def __init__(self, client: DRMemoryServiceClient) -> None:
        self.requests: list[str] = []
        self.bytes = 0
        self._send = client._http.send
        setattr(client._http, "send", self.send)  # noqa: B010 (a method is no variable to mypy)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        self.requests.append(f"{request.method} {_what(request.url)}")
        self.bytes += len(request.content)
        return await self._send(request, **options)

    def taken(self) -> list[str]:
        """The requests since the last time that somebody asked."""
        requests, self.requests = self.requests, []
        return requests


def _what(url: httpx.URL) -> str:
    parts = [part for part in url.path.split("/") if part]
    if parts[-1] == "version":
        return "version"
    if parts[-1] == "newest":
        return "newest"
    if parts[-1] == "history":
        return "history"
    if "events" in parts:
        return "look-up" if "sessions" not in parts else "events"
    return "locator" if "loc" in str(url.params) or "deduplicationKey" in url.params else "sessions"
