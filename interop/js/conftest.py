"""What the tests of JavaScript clients have: an agent, a server on each engine in front of it, and pages."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest

from interop.__main__ import TOKEN, serving
from interop.js import page, relay, upstream
from interop.js.page import Page
from interop.js.relay import Relay
from interop.js.upstream import Upstream

VERSIONS = ("1.0.0", "0.0.59")
Open = Callable[[], Page]


@dataclass(frozen=True)
class Served:
    """A server and the agent behind it."""

    url: str
    upstream: Upstream

    @property
    def http(self) -> httpx.Client:
        """A plain client of the gateway."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=f"{self.url}/agui", headers=headers, timeout=60)


@pytest.fixture(scope="session", params=("sqlite", "postgresql"))
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    database = os.environ[f"INTEROP_JS_{request.param.upper()}"]
    with upstream.running() as agent, serving(database, "--upstream", agent.url) as url:
        yield Served(url, agent)


@pytest.fixture
def network(served: Served) -> Iterator[Relay]:
    """What is between the pages and the server."""
    with relay.relaying(int(served.url.rpartition(":")[2])) as between:
        yield between


@pytest.fixture(params=VERSIONS)
def open_page(request: pytest.FixtureRequest, network: Relay) -> Iterator[Open]:
    """Opens a page with a published client; each is a process, and so a device, of its own."""
    with ExitStack() as stack:
        url = f"{network.url}/agui"
        yield lambda: stack.enter_context(page.opened("application.mjs", f"ag-ui-{request.param}", url, TOKEN))


@pytest.fixture
def thread() -> str:
    """The id of a thread that nobody has used."""
    return f"thread {uuid.uuid4()}"
