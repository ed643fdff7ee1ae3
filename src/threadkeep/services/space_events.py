"""What can be asked of the events of a whole space: which have a lookup key, which are the newest of their sessions."""

from collections.abc import Sequence
from functools import partial

from threadkeep import ids
from threadkeep.domain import limits
from threadkeep.domain.principal import Principal
from threadkeep.services.spaces import check_id, no_space
from threadkeep.storage import space_events
from threadkeep.storage.database import Database
from threadkeep.storage.space_events import Found

__all__ = ["Found", "SpaceEvents"]

_FEW = 20
"""Events that are looked up on the spot; a page of more may take long."""


class SpaceEvents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def having(
        self,
        principal: Principal,
        space_id: str,
        keys: Sequence[str],
        *,
        event_type: str | None = None,
        offset: int = 0,
        limit: int = limits.PAGE,
    ) -> tuple[Found, int]:
        """A page of the events that have any of 1 to 100 lookup keys, and the number of them all.

        Each comes with its session. Raises Invalid, NotFound.
        """
        check_id(space_id)
        limits.check_page(offset, limit)
        for key in keys:
            limits.check_text(key, limits.LOOKUP_KEY, "query", "lookupKey", minimum=1)
        limits.check_count(len(keys), limits.PAGE, "query", "lookupKey")
        look = self._database.read if len(keys) <= _FEW else self._database.scan
        at = (space_id, principal.user_id, keys, event_type, offset, limit)
        found = await look(partial(space_events.having, *at))
        if found is None:
            raise no_space(space_id)
        # Not before: whoever does not see the space hears no more than that.
        limits.check_count(len(keys), limits.PAGE, "query", "lookupKey", minimum=1)
        return found

    async def newest(
        self, principal: Principal, space_id: str, session_ids: Sequence[str], *, event_type: str | None = None
    ) -> Found:
        """The newest event of each of 1 to 100 sessions that is there and has one. Raises Invalid, NotFound."""
        check_id(space_id)
        limits.check_count(len(session_ids), limits.PAGE, "query", "sessionId")
        wanted = [session_id for session_id in session_ids if ids.is_id(session_id)]
        at = (space_id, principal.user_id, wanted, event_type)
        found = await self._database.scan(partial(space_events.newest, *at))
        if found is None:
            raise no_space(space_id)
        limits.check_count(len(session_ids), limits.PAGE, "query", "sessionId", minimum=1)
        return found
