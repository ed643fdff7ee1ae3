"""What can be done with events."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from threadkeep import clock
from threadkeep.domain import event, limits
from threadkeep.domain.event import Event, EventChange, EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.errors import (
    BadRequest,
    EventDeduplicationConflict,
    EventLookupConflict,
    Invalid,
    NotFound,
    StaleEvent,
)
from threadkeep.services.idempotency import Once, write
from threadkeep.services.sessions import check_ids, no_session
from threadkeep.storage import appends, events, memory_pages, memory_removal, sessions, text
from threadkeep.storage.database import Database
from threadkeep.storage.event_keys import Taken
from threadkeep.storage.lookup_keys import Held
from threadkeep.storage.statement import Row, Steps
from threadkeep.telemetry import metrics

_KNOWN_SESSIONS = 10_000
_KNOWN_US = 10_000_000
"""Microseconds for which the participants of a session are believed."""
_UNKNOWN: tuple[tuple[str, ...], int] = ((), 0)
_FEW = 20
"""Events that are looked up on the spot; a page of more may take long."""
_STEP = 500
"""Events of a history that are read at once."""
_ROW_BYTES = 200
"""What an event's row takes besides its body, roughly."""


class Events:
    def __init__(self, database: Database, *, max_content: int = limits.CONTENT, memories_too: bool = False) -> None:
        """`memories_too`: whoever deletes an event deletes what is remembered of it."""
        self._database = database
        self._memories_too = memories_too
        self._max_content = max_content
        # No caller changes a session's participants, but an operator may take one out for good.
        self._participants: dict[tuple[str, str, str], tuple[tuple[str, ...], int]] = {}

    async def append(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        drafts: Sequence[EventDraft],
        *,
        once: Once[list[Event]] | None = None,
    ) -> list[Event]:
        """Append the events in order: all of them, or none.

        Numbers are gapless per session, whoever else appends.
        Raises Invalid, BadRequest, NotFound, EventDeduplicationConflict, EventLookupConflict, Answered.
        """
        wish = self._wish(principal, space_id, session_id, drafts)
        if once is None:
            await self._check_participants(principal, space_id, session_id, drafts)
            made = _appended(await self._database.append(wish), session_id)
        else:
            made = await self._append_once(wish, once)
        metrics.events_appended.inc(len(made))
        return made

    async def append_batch(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        drafts: Sequence[EventDraft],
        *,
        once: Once[list[Event]] | None = None,
    ) -> list[Event]:
        """As `append`, for 1 to 200 events."""
        limits.check_count(len(drafts), limits.BATCH, "events", minimum=1)
        return await self.append(principal, space_id, session_id, drafts, once=once)

    async def page(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        *,
        event_type: str | None = None,
        offset: int = 0,
        limit: int = limits.PAGE,
    ) -> tuple[list[Event], int]:
        """A page in sequence order, and the number of all that match. Raises Invalid, NotFound."""
        limits.check_page(offset, limit)
        check_ids(space_id, session_id)
        found = await self._database.scan(
            lambda: events.page(space_id, session_id, principal.user_id, event_type, offset, limit)
        )
        if found is None:
            raise no_session(session_id)
        return found

    async def page_after(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        after: int,
        *,
        event_type: str | None = None,
        limit: int = limits.PAGE,
    ) -> tuple[list[Event], int]:
        """The first events with numbers greater than `after`, and the number of all that match.

        Costs the same wherever the page is. Raises Invalid, NotFound.
        """
        limits.check_page(0, limit)
        limits.check_range(after, 0, limits.INTEGER, "after")
        check_ids(space_id, session_id)
        found = await self._database.scan(
            lambda: events.page_after(space_id, session_id, principal.user_id, event_type, after, limit)
        )
        if found is None:
            raise no_session(session_id)
        return found

    async def history(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        *,
        after: int = 0,
        event_type: str | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """All events with numbers greater than `after`, in order and in steps, with what is appended meanwhile.

        Each step costs the same wherever it is; the next one is read while the caller has the last. Only the last one
        may be empty. Raises Invalid, NotFound; the latter also where the session is deleted meanwhile.
        """
        limits.check_range(after, 0, limits.INTEGER, "after")
        check_ids(space_id, session_id)

        def read(after: int) -> asyncio.Task[list[Row] | None]:
            at = (space_id, session_id, principal.user_id, event_type, after, _STEP)
            return asyncio.create_task(self._database.scan(partial(events.rows_after, *at)))

        reading = read(after)
        try:
            while True:
                rows = await reading
                if rows is None:
                    raise no_session(session_id)
                if has_more := len(rows) == _STEP:
                    reading = read(rows[-1][0])
                    # Asked before the events are made of these rows: the database works meanwhile.
                    await asyncio.sleep(0)
                yield events.to_events(rows)
                if not has_more:
                    return
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def last(
        self, principal: Principal, space_id: str, session_id: str, n: int, *, event_type: str | None = None
    ) -> tuple[list[Event], int]:
        """The newest `n` events in sequence order, and the number of all that match. Raises Invalid, NotFound."""
        limits.check_range(n, 1, limits.PAGE, "lastN")
        return await self._back(principal, space_id, session_id, event_type, None, n)

    async def page_back(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        *,
        event_type: str | None = None,
        before: int | None = None,
        limit: int = limits.PAGE,
    ) -> list[Event]:
        """The newest events below the number `before`, in sequence order. Raises Invalid, NotFound."""
        limits.check_page(0, limit)
        if before is not None:
            limits.check_range(before, 0, limits.INTEGER, "before")
        found, _ = await self._back(principal, space_id, session_id, event_type, before, limit)
        return found

    async def last_before(self, principal: Principal, space_id: str, session_id: str, at: int) -> int:
        """The number of the last event that was appended before a time; 0 where there is none. Raises NotFound."""
        check_ids(space_id, session_id)

        def operation() -> Steps[int]:
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            return (yield from events.last_before(space_id, session_id, at))

        return await self._database.scan(operation)

    async def patch(
        self, principal: Principal, space_id: str, session_id: str, changes: Sequence[EventChange]
    ) -> list[Event]:
        """Apply all changes, or none. Raises Invalid, BadRequest, NotFound, StaleEvent, EventLookupConflict."""
        changed, _ = await self.patch_and_append(principal, space_id, session_id, changes, ())
        return changed

    async def patch_and_append(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        changes: Sequence[EventChange],
        drafts: Sequence[EventDraft],
    ) -> tuple[list[Event], list[Event]]:
        """Apply the changes and append the events: all of it, or nothing. Raises as `patch` and `append` do."""
        single = len(changes) == 1
        check_ids(space_id, session_id)
        event.check_distinct(changes)
        for index, change in enumerate(changes):
            try:
                event.check_change(change, self._max_content)
            except Invalid as error:
                raise error if single else error.under("events", index) from None
            if not 0 < change.sequence_id <= limits.INTEGER:
                raise _no_event(change.sequence_id)
        wish = self._wish(principal, space_id, session_id, drafts, "append") if drafts else None
        await self._check_participants(principal, space_id, session_id, changes)
        await self._check_participants(principal, space_id, session_id, drafts, "append")

        def operation() -> Steps[tuple[list[Event], list[Event]]]:
            made = yield from events.patch(space_id, session_id, principal.user_id, changes, clock.now())
            if isinstance(made, list):
                new = [] if wish is None else _appended((yield from appends.append_one(wish)), session_id)
                return made, new
            # Raised inside the transaction, so that it is undone.
            if isinstance(made, events.Stale):
                raise _stale(made)
            if isinstance(made, events.NoKeys):
                raise _no_keys(made, single)
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            raise _no_event(made)

        changed, new = await self._database.write(operation)
        metrics.events_appended.inc(len(new))
        return changed, new

    async def patch_batch(
        self, principal: Principal, space_id: str, session_id: str, changes: Sequence[EventChange]
    ) -> list[Event]:
        """As `patch`, for 1 to 200 events. Raises as `patch` does."""
        limits.check_count(len(changes), limits.BATCH, "events", minimum=1)
        return await self.patch(principal, space_id, session_id, changes)

    async def delete(self, principal: Principal, space_id: str, session_id: str, sequence_id: int) -> None:
        """Soft-delete an event; its number is never given out again, and its keys are free.

        Where memories go along, those of an event that is gone already go too, and then that is no error.
        Raises NotFound.
        """
        check_ids(space_id, session_id)
        if not 0 < sequence_id <= limits.INTEGER:
            raise _no_event(sequence_id)
        now = clock.now()

        def operation() -> Steps[None]:
            found = yield from events.delete(space_id, session_id, principal.user_id, sequence_id, now)
            gone: list[str] = []
            if self._memories_too and (found or (yield from memory_pages.is_mine(space_id, principal.user_id))):
                gone = yield from memory_removal.delete_along(space_id, session_id, sequence_id, now)
            if not found and not gone:
                raise _no_event(sequence_id)

        await self._database.write(operation)

    def _wish(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        drafts: Sequence[EventDraft],
        place: str = "events",
    ) -> appends.Append:
        """The wish for these events, once they are checked. Raises Invalid, BadRequest that name the place."""
        single = len(drafts) == 1 and place == "events"
        size = 0
        keys: tuple[str, ...] = ()
        lookups: tuple[tuple[str, str], ...] = ()
        for index, draft in enumerate(drafts):
            try:
                event.check_draft(draft, self._max_content)
            except Invalid as error:
                raise error if single else error.under(place, index) from None
            except BadRequest as error:
                raise error if single else BadRequest(f"{place}[{index}]: {error}") from None
            size += len(draft.body) + _ROW_BYTES
            if draft.deduplication_key is not None:
                keys += (text.encode(draft.deduplication_key),)
            if draft.lookup_keys:
                type_ = text.encode(draft.type or "")
                lookups += tuple((type_, text.encode(key)) for key in draft.lookup_keys)
                size += sum(map(len, draft.lookup_keys)) + _ROW_BYTES * len(draft.lookup_keys)
        if len(keys) > 1:
            event.check_distinct_keys(drafts)
        if lookups:
            event.check_distinct_lookups(drafts)
        check_ids(space_id, session_id)
        return appends.Append(space_id, session_id, principal.user_id, drafts, clock.now(), size, keys, lookups)

    async def _append_once(self, wish: appends.Append, once: Once[list[Event]]) -> list[Event]:
        """Append in a transaction of its own. Nothing is looked up before the key: the session may be gone by now."""

        def operation() -> Steps[list[Event]]:
            found = yield from sessions.get(wish.space_id, wish.session_id, wish.user_id)
            if found is None:
                raise no_session(wish.session_id)
            _check_emitters(wish.drafts, found.participants)
            return _appended((yield from appends.append_one(wish)), wish.session_id)

        return await write(self._database, operation, once)

    async def _back(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        event_type: str | None,
        before: int | None,
        limit: int,
    ) -> tuple[list[Event], int]:
        check_ids(space_id, session_id)
        look = self._database.read if limit <= _FEW else self._database.scan
        found = await look(lambda: events.page_back(space_id, session_id, principal.user_id, event_type, before, limit))
        if found is None:
            raise no_session(session_id)
        return found

    async def _check_participants(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        items: Sequence[EventDraft | EventChange],
        place: str = "events",
    ) -> None:
        users = [(n, item.emitter_id) for n, item in enumerate(items) if item.emitter_type == "user"]
        if not users:
            return
        key = (space_id, session_id, principal.user_id)
        known, until = self._participants.get(key, _UNKNOWN)
        now = clock.now()
        if until < now or any(emitter_id not in known for _, emitter_id in users):
            # A stranger is worth a look: the session may be gone by now, and then nothing is said of who was in it.
            known = await self._read_participants(principal, space_id, session_id)
            if len(self._participants) >= _KNOWN_SESSIONS:
                self._participants.clear()
            self._participants[key] = (known, now + _KNOWN_US)
        _check_emitters(items, known, place)

    async def _read_participants(self, principal: Principal, space_id: str, session_id: str) -> tuple[str, ...]:
        found = await self._database.read(lambda: sessions.get(space_id, session_id, principal.user_id))
        if found is None:
            raise no_session(session_id)
        return found.participants


def _check_emitters(
    items: Sequence[EventDraft | EventChange], participants: tuple[str, ...], place: str = "events"
) -> None:
    for index, item in enumerate(items):
        if item.emitter_type == "user":
            where = "" if len(items) == 1 and place == "events" else f"{place}[{index}]: "
            event.check_participant("user", item.emitter_id, participants, where)


def _appended(answer: appends.Answer, session_id: str) -> list[Event]:
    if isinstance(answer, list):
        return answer
    if answer is None:
        raise no_session(session_id)
    if isinstance(answer, Taken):
        raise EventDeduplicationConflict(text.decode(answer.key), answer.sequence_id)
    raise _lookup_conflict(answer)


def _lookup_conflict(held: Held) -> EventLookupConflict:
    return EventLookupConflict(text.decode(held.key), held.session_id, held.sequence_id)


def _no_keys(found: events.NoKeys, single: bool) -> EventLookupConflict | Invalid:
    if isinstance(found.reason, Held):
        return _lookup_conflict(found.reason)
    error = Invalid(
        f"{found.reason.count} lookup keys of one event; the limit is {limits.LOOKUP_KEYS}", ["lookupKeys"], "too_long"
    )
    return error if single else error.under("events", found.index)


def _stale(found: events.Stale) -> StaleEvent:
    return StaleEvent(
        f"Patch of incorrect version of event {found.sequence_id}: "
        f"the stored createdAt is {clock.format_timestamp(found.token)}",
        ["createdAt"],
    )


def _no_event(sequence_id: int) -> NotFound:
    return NotFound(f"There is no event {sequence_id} in this session")
