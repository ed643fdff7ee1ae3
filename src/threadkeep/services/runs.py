"""What can be done with runs: begin one, hold it under a lease, end it, and find those whose owner is gone."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from threadkeep import clock
from threadkeep.domain import limits
from threadkeep.domain import run as states
from threadkeep.domain.interrupt import InterruptDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.resume import Answers, Settled, has_failed
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import Conflict, LeaseLost, NotFound, RunActive
from threadkeep.services.interrupts import settle_with
from threadkeep.services.run_log import topic_of
from threadkeep.services.sessions import check_ids, no_session
from threadkeep.storage import interrupts as stored_interrupts
from threadkeep.storage import run_compaction as compaction_queue
from threadkeep.storage import run_events, runs, sessions
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps
from threadkeep.streams.bus import Bus, owner_topic, thread_topic

COMPACT_AFTER = 60 * 1_000_000
"""Microseconds after the end of a run until its log is compacted: its readers have left by then, mostly."""


class Runs:
    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus

    async def begin(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        *,
        run_id: str,
        parent_run_id: str | None,
        owner: str,
        lease_seconds: float,
        input: str | None = None,
        queue: bool = False,
        answers: Answers | None = None,
        seen: Sequence[Settled] = (),
    ) -> Run:
        """Make the run the active one of its session, or let it wait in line: see the status of what is returned.

        With `queue` it waits where another one is active or waits already; `promote` makes it the active one, and is
        to be tried at once, when the topic of the thread wakes, and now and then.
        The interrupts of the thread get the ends that `answers` bring, or nothing begins; `seen` is the preview of that
        by which the agent is told (`Interrupts.preview`).
        A run whose lease has run out is in the way until whoever takes it over has ended it and its records.
        Raises NotFound, RunActive (another one is active, or the id is that of one that has not ended), Conflict (the
        id is that of one that has), Invalid, InterruptAnswered, InterruptExpired, InterruptsOpen.
        """
        check_ids(space_id, session_id)
        now = clock.now()
        run = Run(
            space_id,
            session_id,
            run_id,
            parent_run_id,
            principal.user_id,
            principal.tenant_id,
            owner,
            states.ACTIVE,
            None,
            None,
            None,
            now,
            None,
            now + round(lease_seconds * 1_000_000),
            input=input,
        )

        def operation() -> Steps[tuple[Run, bool]]:
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            found, is_new = yield from runs.begin(run, queue=queue)
            if is_new and answers is not None:
                # Behind the row: of two runs with answers the one that waits for it sees what the other has done.
                yield from settle_with(run, answers, seen)
            return found, is_new

        found, is_new = await self._database.write(operation)
        if is_new:
            return found
        if found.is_open:
            raise RunActive(session_id, found.run_id)
        raise Conflict(f"The run {run_id!r} of this thread has ended already; a new run needs an id of its own")

    async def get(self, principal: Principal, space_id: str, session_id: str, run_id: str) -> Run:
        """One run, with its input. Raises Invalid, NotFound."""
        check_ids(space_id, session_id)

        def operation() -> Steps[Run | None]:
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            return (yield from runs.get(RunKey(space_id, session_id, run_id)))

        found = await self._database.read(operation)
        if found is None:
            raise NotFound(f"There is no run {run_id!r} in this session")
        return found

    async def promote(self, run: Run, *, answers: Answers | None = None, seen: Sequence[Settled] = ()) -> bool:
        """Make a queued run the active one, if it is the first in line and none is active. Returns whether it is.

        The interrupts that the runs before it have left get the ends that `answers` bring, as in `begin`, or the run
        stays in line. Raises Invalid, InterruptAnswered, InterruptExpired, InterruptsOpen, and InterruptsChanged where
        the agent was to be told something else by `seen`.
        """

        def operation() -> Steps[bool]:
            is_active = yield from runs.promote(run)
            if is_active and answers is not None:
                yield from settle_with(run, answers, seen)
            return is_active

        return await self._database.write(operation)

    async def in_line(self, space_id: str, session_id: str, limit: int = limits.PAGE) -> list[Run]:
        """The queued runs of a session, the first in line first."""
        return await self._database.read(lambda: runs.in_line(space_id, session_id, limit))

    async def finish(
        self,
        run: Run,
        *,
        status: str,
        outcome: Any | None = None,
        usage: Any | None = None,
        error: str | None = None,
        events: Sequence[bytes] = (),
        first: int | None = None,
        interrupts: Sequence[InterruptDraft] = (),
    ) -> bool:
        """End the run, with the last events of its log and what it asks of people: all of it or nothing.

        What it has answered itself is open again where it has failed or was lost: clients go by that too.

        The events have the indexes from `first` on, or without it those behind what the log has. The same call again,
        after Unavailable, does what is missing. Returns False where the owner does not hold the run any more: it is
        another's, or has ended otherwise. Raises Unavailable.
        """
        now = clock.now()
        ending = (status, _to_json(outcome), _to_json(usage), error)

        def operation() -> Steps[bool]:
            # The row first: it is locked then, so that the owner is the owner until all is written.
            if not (yield from runs.end(run, *ending, now)):
                found = yield from runs.get(run.key)
                return found is not None and (found.owner, found.status) == (run.owner, status)
            start = (yield from run_events.length(run.key)) if first is None else first
            yield from run_events.put(run, start, events, now)
            yield from stored_interrupts.put(run.key, interrupts, now)
            yield from compaction_queue.ask(run.space_id, run.session_id, now + COMPACT_AFTER, now)
            if has_failed(status, outcome):
                yield from stored_interrupts.reopen(run)
            return True

        try:
            ended = await self._database.write(operation)
        except LeaseLost:
            return False
        if ended:
            self._bus.publish(topic_of(run.key))
            self._bus.publish(thread_topic(run.space_id, run.session_id))
        return ended

    async def want_cancel(self, principal: Principal, space_id: str, session_id: str, run_id: str) -> bool:
        """Ask the owner of a run to end it. Returns False where it has ended, or is not there.

        Raises Invalid, NotFound (the session).
        """
        check_ids(space_id, session_id)

        def operation() -> Steps[str | None]:
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            return (yield from runs.want_cancel(RunKey(space_id, session_id, run_id), clock.now()))

        owner = await self._database.write(operation)
        if owner is None:
            return False
        self._bus.publish(owner_topic(owner))
        return True

    async def cancels_wanted(self, owner: str) -> list[RunKey]:
        """The runs of the owner that somebody wants to end and that have not ended."""
        return await self._database.read(lambda: runs.cancels_wanted(owner))

    async def renew(self, owner: str, lease_seconds: float) -> set[RunKey]:
        """Prolong the leases of all runs that the owner has. Returns which they are."""
        until = clock.now() + round(lease_seconds * 1_000_000)
        return await self._database.write(lambda: runs.renew(owner, until))

    async def renew_held(self, owner: str, lease_seconds: float, is_held: Callable[[RunKey], bool]) -> set[RunKey]:
        """As `renew`, for the runs that the owner holds.

        The leases of others that are its own by their row run out at once: it has them since the answer to what it
        asked was lost, and nobody carries them out.
        """
        renewed = await self.renew(owner, lease_seconds)
        orphans = {key for key in renewed if not is_held(key)}
        if orphans:
            await self._database.write(lambda: runs.let_go(owner, orphans))
        return renewed - orphans

    async def owner_of(self, key: RunKey) -> str | None:
        """Who has a run, or had it when it ended; None where there is no such run."""
        found = await self._database.read(lambda: runs.get(key))
        return None if found is None else found.owner

    async def expired(self, limit: int = 100) -> list[Run]:
        """Runs that have not ended and whose lease has run out, of all users, the longest gone first."""
        return await self._database.read(lambda: runs.expired(clock.now(), limit))

    async def take_over(self, run: Run, owner: str, lease_seconds: float) -> bool:
        """Become the owner of a run as it was read. Returns False where somebody was faster.

        From here on the log is what it is: what the owner before has under way is in it, or comes never.
        """
        now = clock.now()
        until = now + round(lease_seconds * 1_000_000)
        taken = await self._database.write(lambda: runs.take_over(run, owner, until))
        if taken:
            # Apart: from the commit on the owner before can begin nothing new, and what is under way is one group.
            await self._database.write(lambda: run_events.bar(run.key, now))
        return taken

    async def page(
        self, principal: Principal, space_id: str, session_id: str, *, offset: int = 0, limit: int = limits.PAGE
    ) -> list[Run]:
        """The runs of a session, newest first. Raises Invalid, NotFound."""
        limits.check_page(offset, limit)
        check_ids(space_id, session_id)

        def operation() -> Steps[list[Run]]:
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            return (yield from runs.page(space_id, session_id, offset, limit))

        return await self._database.read(operation)


def _to_json(value: Any | None) -> str | None:
    return None if value is None else json.dumps(value)
