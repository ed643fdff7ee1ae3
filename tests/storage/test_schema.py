"""The schema that the migrations make is the one that the tables say."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from threadkeep.errors import Unavailable
from threadkeep.storage import migrate
from threadkeep.storage.database import BadDatabaseURL, identity_of, open_database
from threadkeep.storage.tables import metadata


async def test_migrating_an_empty_database_gives_the_tables(database: str) -> None:
    def compare(connection: Connection) -> list[Any]:
        # What each engine searches with is its own, and not in the tables that they share.
        def is_shared(name: object) -> bool:
            return "search" not in str(name) and "trigram" not in str(name)

        options = {
            "include_name": lambda name, kind, parents: is_shared(name),
            "include_object": lambda item, name, kind, reflected, other: is_shared(name),
        }
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    assert await migrate._connected(database, compare) == []


async def test_migrating_again_changes_nothing(database: str) -> None:
    assert await migrate.migrate(database) == (migrate.newest_revision(), migrate.newest_revision())


async def test_a_new_database_has_no_revision(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"

    assert await migrate.revision(url) is None
    assert await migrate.migrate(url) == (None, migrate.newest_revision())


async def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    await migrate.migrate(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '2099_01_01_from_the_future'")
    connection.commit()
    connection.close()

    with pytest.raises(migrate.SchemaTooNew, match=r"2099_01_01_from_the_future.*Upgrade Threadkeep"):
        await migrate.migrate(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite://", "sqlite:///:memory:"])
async def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseURL, match="sqlite:///FILE"):
        await open_database(url)


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"folder of the database file .*/absent/x.db' does not exist"):
        await migrate.migrate(f"sqlite:///{tmp_path}/absent/x.db")


async def test_a_server_that_does_not_answer_is_told_as_such() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await open_database("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("postgresql://u:p@DB.example:5432/x", "postgresql+asyncpg://v@db.example:5432/x?ssl=on", True),
        ("postgresql://u@db.example/x", "postgresql://u@db.example/y", False),
        ("postgresql://u@db.example/x", "postgresql://u@db2.example/x", False),
        ("sqlite:///a/../b.db", "sqlite:///b.db", True),
        ("sqlite:///a.db", "sqlite:///b.db", False),
    ],
)
def test_urls_of_one_database_have_one_identity(one: str, other: str, alike: bool) -> None:
    assert (identity_of(one) == identity_of(other)) is alike
