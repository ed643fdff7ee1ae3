"""What can be done with sessions."""

from dataclasses import dataclass

from threadkeep import clock, ids
from threadkeep.domain import lifecycle, limits, session
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import Session, SessionChange, SessionDraft, Unset
from threadkeep.errors import DeduplicationConflict, Invalid, NotFound, SessionVersionMismatch
from threadkeep.services.idempotency import Once, write
from threadkeep.services.spaces import check_id as check_space_id
from threadkeep.services.spaces import no_space
from threadkeep.storage import lifecycle as stored_lifecycle
from threadkeep.storage import memory_pages, memory_removal, recent_sessions, session_pages, sessions
from threadkeep.storage.database import Database
from threadkeep.storage.recent_sessions import RecentSession
from threadkeep.storage.session_pages import Filters
from threadkeep.storage.statement import Steps

__all__ = ["Filters", "RecentPage", "RecentSession", "Sessions"]


@dataclass(frozen=True, slots=True)
class RecentPage:
    """Sessions by newest activity, and the cursor of the next page if there is one."""

    items: list[RecentSession]
    next: str | None


class Sessions:
    def __init__(self, database: Database, *, final_extraction: bool = True, memories_too: bool = False) -> None:
        """`memories_too`: whoever deletes a session deletes what is remembered of it, and nothing more is extracted."""
        self._database = database
        self._final_extraction = final_extraction and not memories_too
        self._memories_too = memories_too

    async def create(
        self, principal: Principal, space_id: str, draft: SessionDraft, *, once: Once[Session] | None = None
    ) -> Session:
        """Make a session; without strategies it gets the default one.

        Raises Invalid, NotFound, DeduplicationConflict, Answered.
        """
        session.check_draft(draft)
        check_space_id(space_id)
        made = Session(
            space_id,
            ids.new_id(),
            draft.participants,
            draft.description,
            draft.metadata,
            lifecycle.to_json(draft.strategies or lifecycle.DEFAULT),
            1,
            draft.deduplication_key,
            clock.now(),
        )

        def operation() -> Steps[Session]:
            has_space, existing = yield from sessions.create(made, principal.user_id)
            if not has_space:
                raise no_space(space_id)
            if existing is not None:
                raise DeduplicationConflict("session", draft.deduplication_key or "", existing)
            return made

        return await write(self._database, operation, once)

    async def get(self, principal: Principal, space_id: str, session_id: str) -> Session:
        """Raises NotFound."""
        check_ids(space_id, session_id)
        found = await self._database.read(lambda: sessions.get(space_id, session_id, principal.user_id))
        if found is None:
            raise no_session(session_id)
        return found

    async def page(
        self, principal: Principal, space_id: str, filters: Filters, *, offset: int = 0, limit: int = limits.PAGE
    ) -> tuple[list[Session], int]:
        """A page of the live sessions, oldest first, and the number of all that match. Raises Invalid, NotFound."""
        limits.check_page(offset, limit)
        session.check_needle(filters.needle)
        check_space_id(space_id)
        found = await self._database.scan(
            lambda: session_pages.page(space_id, principal.user_id, filters, offset, limit)
        )
        if found is None:
            raise no_space(space_id)
        return found

    async def page_after(
        self, principal: Principal, space_id: str, filters: Filters, after: str, *, limit: int = limits.PAGE
    ) -> tuple[list[Session], int, bool]:
        """As `page`, for the sessions after an id ('' is before the first); also says whether there are more.

        Raises Invalid, NotFound.
        """
        limits.check_page(0, limit)
        session.check_needle(filters.needle)
        check_space_id(space_id)
        found = await self._database.scan(
            lambda: session_pages.page(space_id, principal.user_id, filters, 0, limit + 1, after)
        )
        if found is None:
            raise no_space(space_id)
        items, total = found
        return items[:limit], total, len(items) > limit

    async def recent(
        self,
        principal: Principal,
        space_id: str,
        *,
        participant: str,
        prefix: str,
        event_type: str = "message",
        limit: int = limits.PAGE,
        before: str | None = None,
        with_archived: bool = True,
    ) -> RecentPage:
        """The participant's sessions by newest activity, each with its newest event of a type, in one query.

        `before` is the cursor of an earlier page. Archived are those whose metadata says so. Raises Invalid.
        """
        limits.check_page(0, limit)
        check_space_id(space_id)
        at = (limits.INTEGER, "") if before is None else _parse_cursor(before)
        found = await self._database.scan(
            lambda: recent_sessions.recent(
                space_id,
                principal.user_id,
                participant=participant,
                prefix=prefix,
                event_type=event_type,
                limit=limit + 1,
                before=at,
                with_archived=with_archived,
            )
        )
        if len(found) <= limit:
            return RecentPage(found, None)
        last = found[limit - 1]
        return RecentPage(found[:limit], f"{last.updated_at}_{last.session.id}")

    async def patch(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        change: SessionChange,
        *,
        expected_version: int | None = None,
    ) -> Session:
        """Apply a change and count the version up; an empty change leaves it.

        Strategies take effect from their own anchor: the creation, or the last event.
        Raises Invalid, NotFound, SessionVersionMismatch, StrategyClosed.
        """
        session.check_change(change)
        check_ids(space_id, session_id)
        if change.is_empty():
            found: Session | int | None = await self.get(principal, space_id, session_id)
            if isinstance(found, Session) and expected_version not in (None, found.version):
                found = found.version
        else:

            def operation() -> Steps[Session | int | None]:
                strategies = change.strategies
                held = (
                    None if isinstance(strategies, Unset) else (yield from stored_lifecycle.hold(space_id, session_id))
                )
                made = yield from sessions.patch(space_id, session_id, principal.user_id, change, expected_version)
                if isinstance(made, Session) and held is not None and not isinstance(strategies, Unset):
                    # Raised inside the transaction, so that the patch is undone.
                    lifecycle.check_closed(held.strategies, strategies, held.ran)
                    yield from stored_lifecycle.change(space_id, session_id, held, strategies, clock.now())
                return made

            found = await self._database.write(operation)
        if found is None:
            raise no_session(session_id)
        if isinstance(found, int):
            raise SessionVersionMismatch(expected_version or 0, found)
        return found

    async def delete(self, principal: Principal, space_id: str, session_id: str) -> None:
        """Soft-delete the session; its events are gone with it.

        Where memories go along, those of a session that is gone already go too, and then that is no error.
        Raises NotFound.
        """
        check_ids(space_id, session_id)
        now = clock.now()

        def operation() -> Steps[None]:
            found = yield from sessions.delete(
                space_id, session_id, principal.user_id, now, final_extraction=self._final_extraction
            )
            gone: list[str] = []
            if self._memories_too and (found or (yield from memory_pages.is_mine(space_id, principal.user_id))):
                gone = yield from memory_removal.delete_along(space_id, session_id, None, now)
            if not found and not gone:
                raise no_session(session_id)

        await self._database.write(operation)


def check_ids(space_id: str, session_id: str) -> None:
    """Raise NotFound for what can't be ids, before any database sees them."""
    check_space_id(space_id)
    if not ids.is_id(session_id):
        raise no_session(session_id)


def no_session(session_id: str) -> NotFound:
    return NotFound(f"There is no session {session_id!r} in this memory space")


def _parse_cursor(cursor: str) -> tuple[int, str]:
    at, _, session_id = cursor.partition("_")
    if not (at.isascii() and at.isdigit() and len(at) < 19 and ids.is_id(session_id)):
        raise Invalid(f"{cursor!r} is no cursor of this list", ["cursor"])
    return int(at), session_id
