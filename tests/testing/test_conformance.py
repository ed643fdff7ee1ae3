"""The suite for chat stores: ours pass it on both engines and over HTTP, and so do the stores of the documentation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from docs.examples.memory_store import MemoryChats, MemoryMessages
from docs.examples.sql_store import SqlChats, SqlMessages, SqlStore
from tests.chat_history.stores import Store
from tests.conftest import Server
from threadkeep import embedded
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace
from threadkeep.testing.conformance import Repositories, RepositoryConformance


class OurStore(RepositoryConformance):
    """Our repositories on a space of a client."""

    def elsewhere(self, store: Repositories) -> Repositories:
        return repositories(spaces[store.chats])


spaces: dict[Any, DRMemorySpace] = {}


def repositories(space: DRMemorySpace) -> Repositories:
    opened = Store(space)
    spaces[opened.chats] = space
    return Repositories(opened.chats, opened.messages)


class TestEmbedded(OurStore):
    """In process, on both engines."""

    @pytest.fixture(autouse=True)
    def _database(self, database: str) -> None:
        self.database = database

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Repositories]:
        async with embedded.client(self.database, work=False) as client:
            yield repositories(await DRMemorySpace.post(client, deduplication_key="chats"))


@pytest.fixture(scope="module")
def shared_server(shared_database: str) -> Any:
    running = Server(shared_database)
    try:
        yield running
    finally:
        running.kill()


class TestOverHTTP(OurStore):
    """A server in a process of its own, on both engines. It keeps what all the tests have stored."""

    @pytest.fixture(autouse=True)
    def _server(self, shared_server: Server) -> None:
        self.server = shared_server

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Repositories]:
        endpoint = f"{self.server.url}/api/v2"
        async with DRMemoryServiceClient(endpoint=endpoint, api_token=self.server.token) as client:
            yield repositories(await DRMemorySpace.post(client, deduplication_key="chats"))


class TestMemoryStore(RepositoryConformance):
    """The store in memory of the documentation."""

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Repositories]:
        chats = MemoryChats()
        yield Repositories(chats, MemoryMessages(chats))


class TestSqlStore(RepositoryConformance):
    """The SQL store of the documentation."""

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "chats.db")

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Repositories]:
        store = SqlStore(self.path)
        try:
            yield Repositories(SqlChats(store), SqlMessages(store))
        finally:
            store.close()
