"""What is opened together is closed together, also where opening fails in the middle."""

import asyncio
from pathlib import Path

import pytest

from threadkeep.errors import Unavailable
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.streams.local import LocalBus
from threadkeep.streams.valkey import BadValkeyURL, ValkeyBus


async def test_the_bus_is_the_one_that_the_settings_name_and_ends_with_the_services(
    database: str, valkey_url: str
) -> None:
    alone = await Container.open(Settings(database=database))
    running = asyncio.all_tasks()
    together = await Container.open(Settings(database=database, valkey=valkey_url))

    assert (type(alone.bus), type(together.bus)) == (LocalBus, ValkeyBus)
    await together.close()
    assert {task.get_name() for task in asyncio.all_tasks() - running} == set()
    await alone.close()


async def test_no_bus_is_left_where_there_is_no_database(valkey_url: str) -> None:
    running = asyncio.all_tasks()

    with pytest.raises(Unavailable, match="folder of the database file"):
        await Container.open(Settings(database="sqlite:////nowhere/at/all.db", valkey=valkey_url))

    assert asyncio.all_tasks() == running


async def test_a_bus_that_cannot_be_is_said_before_a_database_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadValkeyURL):
        await Container.open(Settings(database=f"sqlite:///{tmp_path}/new.db", valkey="http://x"))

    assert list(tmp_path.iterdir()) == []
