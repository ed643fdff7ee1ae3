"""Fixtures of the synchronous SDK's tests: its client on the real service, which runs in a thread of its own."""

from collections.abc import Iterator

import anyio.from_thread
import httpx
import pytest

import threadkeep
from threadkeep.api.app import create_app
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.transport.in_process import ASGIApp, InProcessTransport

USER = "65f000000000000000000001"


class AcrossThreads(httpx.BaseTransport):
    """A blocking transport that calls an ASGI app in the event loop of another thread."""

    def __init__(self, app: ASGIApp, portal: anyio.from_thread.BlockingPortal) -> None:
        self._app = app
        self._portal = portal

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return self._portal.call(self._exchange, request)

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        async with httpx.AsyncClient(transport=InProcessTransport(self._app), timeout=60) as client:
            copy = httpx.Request(request.method, request.url, headers=request.headers.raw, content=request.content)
            response = await client.send(copy)
        return httpx.Response(response.status_code, headers=response.headers, content=response.content)


@pytest.fixture
def sdk(database: str) -> Iterator[threadkeep.Client]:
    """The default client, as alice."""
    with anyio.from_thread.start_blocking_portal() as portal:
        container = portal.call(Container.open, Settings(database=database))
        try:
            _, secret = portal.call(lambda: container.tokens.create(user="alice", name="test"))
            with (
                httpx.Client(transport=AcrossThreads(create_app(container), portal)) as http_client,
                threadkeep.Client("http://threadkeep.test/api/v2", secret, http_client=http_client) as client,
            ):
                yield client
        finally:
            portal.call(container.close)
