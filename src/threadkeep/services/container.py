"""The few objects of the server, built by hand in one place."""

from dataclasses import dataclass

from threadkeep.services.events import Events
from threadkeep.services.runs import Runs
from threadkeep.services.sessions import Sessions
from threadkeep.services.spaces import Spaces
from threadkeep.services.tokens import Tokens
from threadkeep.settings import Settings
from threadkeep.storage.database import Database, open_database
from threadkeep.storage.migrate import migrate


@dataclass(frozen=True, slots=True)
class Container:
    """The services on one open database."""

    settings: Settings
    database: Database
    spaces: Spaces
    sessions: Sessions
    events: Events
    tokens: Tokens
    runs: Runs

    @classmethod
    async def open(cls, settings: Settings) -> "Container":
        """Bring the schema up to date, open the database and wire the services.

        Raises BadDatabaseURL, MissingExtra, SchemaTooNew, Unavailable.
        """
        await migrate(settings.database)
        database = await open_database(settings.database, connections=settings.database_connections)
        return cls(
            settings,
            database,
            Spaces(database),
            Sessions(database),
            Events(database, max_content=settings.max_content),
            Tokens(database),
            Runs(database),
        )

    async def close(self) -> None:
        """Finish what was accepted and let go of the database."""
        await self.database.close()
