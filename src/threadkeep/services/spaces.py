"""What can be done with memory spaces."""

from threadkeep import clock, ids
from threadkeep.domain import limits, space
from threadkeep.domain.principal import Principal
from threadkeep.domain.space import Space, SpaceDraft
from threadkeep.errors import DeduplicationConflict, NotFound
from threadkeep.services.idempotency import Once, write
from threadkeep.storage import spaces
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps


class Spaces:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, principal: Principal, draft: SpaceDraft, *, once: Once[Space] | None = None) -> Space:
        """Make a space. Raises Invalid, DeduplicationConflict, Answered."""
        space.check_draft(draft)
        made = Space(
            ids.new_id(),
            principal.user_id,
            principal.tenant_id,
            draft.description,
            draft.llm_model_name,
            draft.llm_base_url,
            draft.custom_instructions,
            draft.deduplication_key,
            clock.now(),
        )

        def operation() -> Steps[Space]:
            existing = yield from spaces.create(made)
            if existing is not None:
                raise DeduplicationConflict("memory space", draft.deduplication_key or "", existing)
            return made

        return await write(self._database, operation, once)

    async def get(self, principal: Principal, space_id: str) -> Space:
        """Raises NotFound."""
        check_id(space_id)
        found = await self._database.read(lambda: spaces.get(space_id, principal.user_id))
        if found is None:
            raise no_space(space_id)
        return found

    async def page(
        self, principal: Principal, *, offset: int = 0, limit: int = limits.PAGE, key: str | None = None
    ) -> tuple[list[Space], int]:
        """A page of the live spaces, newest first, and the number of all. Raises Invalid."""
        limits.check_page(offset, limit)
        return await self._database.read(lambda: spaces.page(principal.user_id, key, offset, limit))

    async def page_after(
        self, principal: Principal, after: str, *, limit: int = limits.PAGE, key: str | None = None
    ) -> tuple[list[Space], int, bool]:
        """As `page`, for the spaces after an id ('' is before the first); also says whether there are more.

        Raises Invalid.
        """
        limits.check_page(0, limit)
        items, total = await self._database.read(
            lambda: spaces.page(principal.user_id, key, 0, limit + 1, after or None)
        )
        return items[:limit], total, len(items) > limit

    async def patch(self, principal: Principal, space_id: str, fields: dict[str, str | None]) -> Space:
        """Set the text fields that are mentioned; None clears. Raises Invalid, NotFound."""
        space.check(fields)
        check_id(space_id)
        found = await self._database.write(lambda: spaces.patch(space_id, principal.user_id, fields))
        if found is None:
            raise no_space(space_id)
        return found

    async def delete(self, principal: Principal, space_id: str) -> None:
        """Soft-delete the space and all in it. Raises NotFound."""
        check_id(space_id)
        if not await self._database.write(lambda: spaces.delete(space_id, principal.user_id, clock.now())):
            raise no_space(space_id)


def check_id(space_id: str) -> None:
    """Raise NotFound for what can't be the id of a space, before any database sees it."""
    if not ids.is_id(space_id):
        raise no_space(space_id)


def no_space(space_id: str) -> NotFound:
    return NotFound(f"There is no memory space {space_id!r}")
