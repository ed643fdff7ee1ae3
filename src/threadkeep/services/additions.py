"""Handing in messages for memories to be found in them, and asking how it goes."""

import json
from typing import Any

from threadkeep import clock, ids
from threadkeep.domain import limits, memory
from threadkeep.domain.memory import MemoryScope
from threadkeep.domain.principal import Principal
from threadkeep.errors import NotFound
from threadkeep.services.idempotency import Once, write
from threadkeep.services.spaces import check_id as check_space_id
from threadkeep.services.spaces import no_space
from threadkeep.storage import additions, memory_pages
from threadkeep.storage.additions import Addition
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps

__all__ = ["Addition", "Additions"]


class Additions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def queue(
        self,
        principal: Principal,
        space_id: str,
        scope: MemoryScope,
        request: dict[str, Any],
        *,
        once: Once[str] | None = None,
    ) -> str:
        """Keep the messages, and let a worker find memories in them. Returns the id to ask by.

        Raises Invalid, NotFound, Answered.
        """
        memory.check_scope(scope)
        kept = json.dumps(request)
        limits.check_count(len(request["messages"]), limits.MEMORY_BATCH, "messages", minimum=1)
        limits.check_bytes(len(kept), limits.BODY_BYTES, "messages")
        check_space_id(space_id)
        event_id = ids.new_id()

        def operation() -> Steps[str]:
            if not (yield from memory_pages.is_mine(space_id, principal.user_id)):
                raise no_space(space_id)
            yield from additions.queue(space_id, event_id, scope.user_id, kept, clock.now())
            return event_id

        return await write(self._database, operation, once)

    async def get(self, principal: Principal, space_id: str, event_id: str) -> Addition:
        """Raises NotFound."""
        check_space_id(space_id)

        def operation() -> Steps[Addition | None]:
            mine = yield from memory_pages.is_mine(space_id, principal.user_id)
            return (yield from additions.get(space_id, event_id)) if mine else None

        found = await self._database.read(operation) if ids.is_id(event_id) else None
        if found is None:
            raise NotFound(f"There is no event {event_id!r} in this memory space")
        return found

    async def page(self, principal: Principal, space_id: str, *, offset: int, limit: int) -> tuple[list[Addition], int]:
        """Requests, newest first, and the number of all of them. Raises Invalid, NotFound."""
        limits.check_range(offset, 0, limits.INTEGER, "offset")
        limits.check_range(limit, 1, limits.MEMORY_PAGE, "limit")
        check_space_id(space_id)

        def operation() -> Steps[tuple[list[Addition], int]]:
            if not (yield from memory_pages.is_mine(space_id, principal.user_id)):
                raise no_space(space_id)
            return (yield from additions.page(space_id, offset, limit))

        return await self._database.scan(operation)
