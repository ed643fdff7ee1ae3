"""The embedded client: the ORM without a server."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from tests.conftest import Server
from tests.persistence.declared import Chat, ChatMessage
from threadkeep import embedded
from threadkeep.contract.sessions import LifecycleStrategy
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace, DRSession
from threadkeep.services.container import Container
from threadkeep.settings import Settings


async def test_what_was_stored_is_there_when_the_database_is_opened_again(database: str) -> None:
    async with embedded.client(database) as client:
        space = await DRMemorySpace.post(client, deduplication_key="app")
        chat = await Chat.post(space, tenant="acme", topic="x", chat_id="c-1", title="Hello")
        await ChatMessage.post(chat, content="hi\x00\ud83d", score=0.5)
    async with embedded.client(database) as client:
        space = await DRMemorySpace.post(client, deduplication_key="app")
        chat = await Chat.get(space, chat_id="c-1")
        (message,) = await ChatMessage.list(chat)
    assert (chat.title, message.content, message.score) == ("Hello", "hi\x00\ud83d", 0.5)


async def test_a_client_in_process_runs_the_lifecycle_while_it_is_open(database: str) -> None:
    class Passing(DRSession):
        __description_prefix__ = "passing"
        __lifecycle_strategies__: ClassVar[list[LifecycleStrategy]] = [{"type": "soft_delete", "trigger": {"ttl": 1}}]

    async with embedded.client(database, work=False) as client:
        space = await DRMemorySpace.post(client, deduplication_key="app")
        await Passing.post(space, participants=["p"])
        assert workers() == 0
    async with embedded.client(database) as client:
        space = await DRMemorySpace.post(client, deduplication_key="app")
        assert workers() == 1
        # The number is there so that a loss of the feature ends the test.
        for _ in range(100_000):
            if not await Passing.list(space):
                break
        assert await Passing.list(space) == []
    assert workers() == 0


def workers() -> int:
    return sum(task.get_name() == "threadkeep-worker" for task in asyncio.all_tasks())


async def test_each_user_sees_only_their_own(database: str) -> None:
    async with embedded.client(database, user="alice") as client:
        await DRMemorySpace.post(client)
    async with embedded.client(database, user="bob") as client:
        assert await DRMemorySpace.list(client) == []


async def test_a_new_file_is_made_with_its_schema(tmp_path: Path) -> None:
    async with embedded.client(f"sqlite:///{tmp_path / 'new.db'}") as client:
        assert await DRMemorySpace.list(client) == []


async def test_the_database_may_be_served_later(database: str) -> None:
    async with embedded.client(database) as client:
        space = await DRMemorySpace.post(client, deduplication_key="app", description="made in process")
    container = await Container.open(Settings(database=database))
    _, secret = await container.tokens.create(user="local", name="later")
    await container.close()
    server = Server(database)
    try:
        async with DRMemoryServiceClient(endpoint=f"{server.url}/api/v2", api_token=secret) as client:
            assert (await DRMemorySpace.get(client, space.id)).description == "made in process"
    finally:
        server.kill()


def test_a_missing_server_extra_is_named_with_its_install_line() -> None:
    code = "import sys; sys.modules['starlette'] = None; import threadkeep.embedded"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'threadkeep[server]'" in run.stderr


@pytest.mark.parametrize("module", ["threadkeep", "threadkeep.persistence", "threadkeep.models.memory"])
def test_the_light_client_imports_no_server_part(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"starlette", "sqlalchemy", "msgspec", "asyncpg", "ag_ui", "uvicorn"}.isdisjoint(loaded)
    assert ("httpx" in loaded) == (module != "threadkeep")
