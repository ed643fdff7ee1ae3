"""Whether this process can do its work now."""

import asyncio
import logging

from threadkeep.errors import ThreadkeepError, Unavailable
from threadkeep.storage import revision
from threadkeep.storage.database import Database
from threadkeep.storage.migrate import newest_revision

_PATIENCE_SECONDS = 5.0
_log = logging.getLogger("threadkeep.health")


class Health:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._wanted = newest_revision()
        self.is_stopping = False

    def stop(self) -> None:
        """From now on the process is not ready: it is going to stop."""
        self.is_stopping = True

    async def check(self) -> str:
        """The revision of the schema, which is the one that the code needs.

        Raises Unavailable, with a reason that names no address, where requests had better go elsewhere.
        """
        if self.is_stopping:
            raise Unavailable("The server is stopping")
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                found = await self._database.read(revision.stored)
        except Exception as error:
            # The text of a foreign error may hold what somebody said.
            reason = str(error) if isinstance(error, ThreadkeepError) else type(error).__name__
            _log.warning("not ready: %s", reason)
            raise Unavailable("The database gives no answer") from error
        if found != self._wanted:
            raise Unavailable(
                f"The database has the schema {found!r}; this version of Threadkeep needs {self._wanted!r}"
            )
        return found
