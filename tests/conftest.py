"""Fixtures: both engines, the services on them, the application, and a real server."""

import asyncio
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest
from hypothesis import settings
from starlette.applications import Starlette

from threadkeep.api.app import create_app
from threadkeep.persistence import DRMemoryServiceClient
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage.migrate import migrate
from threadkeep.storage.tables import metadata
from threadkeep.testing import postgres, valkey
from threadkeep.transport.in_process import InProcessTransport

# A busy machine is no failure.
settings.register_profile("threadkeep", deadline=None)
settings.load_profile("threadkeep")

ENGINES = ("sqlite", "postgresql")
_SERVER_START = 60
"""Seconds that a server may take to listen before the test fails."""


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server: from the environment, else one started from a wheel."""
    with postgres.running() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_database(postgres_url: str) -> Iterator[str]:
    """A migrated database of this test run's own; each test begins by emptying it."""
    with postgres.new_database(postgres_url) as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A Valkey server: from the environment, else one started from a wheel."""
    with valkey.running() as url:
        yield url


@pytest.fixture
def valkey_process() -> Iterator[valkey.ValkeyProcess]:
    """A Valkey server of the test's own, which may be killed."""
    with valkey.process() as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that each test copies."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh, migrated database of each engine."""
    return _fresh_database(request, tmp_path)


@pytest.fixture(scope="module", params=ENGINES)
def shared_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same for all tests of a module, which keep out of each other's way."""
    return _fresh_database(request, tmp_path_factory.mktemp("shared"))


def _fresh_database(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        path = folder / "threadkeep.db"
        path.write_bytes(template.read_bytes())
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("postgres_database")
    # Emptying takes a hundredth of the time that a copy of a template database takes.
    asyncio.run(postgres.administer(url, ";".join(f"DELETE FROM {table.name}" for table in metadata.sorted_tables)))
    return url


@pytest.fixture
async def container(database: str) -> AsyncIterator[Container]:
    """The services on a fresh database."""
    opened = await Container.open(Settings(database=database))
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def app(container: Container) -> Starlette:
    """The Memory Service."""
    return create_app(container)


@pytest.fixture
async def token(container: Container) -> str:
    """The secret of a token of the user `alice`, who may act for others."""
    _, secret = await container.tokens.create(user="alice", name="test", may_act_for=True)
    return secret


@pytest.fixture
async def http(app: Starlette, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A plain HTTP client on the application, with alice's token."""
    async with httpx.AsyncClient(
        transport=InProcessTransport(app),
        timeout=60,
        base_url="http://threadkeep.test/api/v2",
        headers={"Authorization": f"Bearer {token}"},
    ) as opened:
        yield opened


@pytest.fixture
async def client(app: Starlette, token: str) -> AsyncIterator[DRMemoryServiceClient]:
    """The async client on the application."""
    async with (
        httpx.AsyncClient(transport=InProcessTransport(app), timeout=60) as http_client,
        DRMemoryServiceClient(
            endpoint="http://threadkeep.test/api/v2", api_token=token, http_client=http_client
        ) as opened,
    ):
        yield opened


class Server:
    """`threadkeep serve` in a process of its own."""

    def __init__(self, database: str, *options: str) -> None:
        self.token = "tk_test_token_of_the_operator"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [
            *(sys.executable, "-m", "threadkeep", "serve"),
            *("--database", database, "--port", str(self.port), "--token", self.token),
            *options,
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent)
        try:
            # Told when it listens, and so not asked again and again on the cores that it needs to start.
            readable, _, _ = select.select([self._output], [], [], _SERVER_START)
            if not readable:
                raise AssertionError(f"the server does not listen after {_SERVER_START} s")
            if not self._output.readline():
                raise AssertionError(f"the server ended with {self._process.wait()}")
            httpx.get(f"{self.url}/api/v2/version/", timeout=_SERVER_START)
        except BaseException:
            self.kill()
            raise

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def returncode(self) -> int | None:
        """How the process has ended; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """kill -9"""
        self._process.kill()
        self._process.wait()
        self._output.close()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        """Ask it to stop, as a service manager would."""
        self.signal(signal.SIGTERM)
        self._process.wait(_SERVER_START)
        self._output.close()

    def restart(self) -> None:
        self.kill()
        self.start()


@pytest.fixture
def server(database: str) -> Iterator[Server]:
    """A running server; a test that needs options makes its own with `Server(database, ...)`."""
    running = Server(database)
    try:
        yield running
    finally:
        running.kill()
