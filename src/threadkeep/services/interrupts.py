"""What can be done with the interrupts of a thread: list them, cancel one, and see what a run would do to them."""

from collections.abc import Collection, Sequence

from threadkeep import clock
from threadkeep.domain import limits
from threadkeep.domain.interrupt import OPEN, Interrupt
from threadkeep.domain.principal import Principal
from threadkeep.domain.resume import Answers, Settled, lineage, settle_again
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import InterruptsChanged, NotFound
from threadkeep.services.sessions import check_ids, no_session
from threadkeep.storage import interrupts, runs, sessions
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps


class Interrupts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, principal: Principal, space_id: str, session_id: str, *, offset: int = 0, limit: int = limits.PAGE
    ) -> list[Interrupt]:
        """The interrupts of a thread, those that can be answered first, the newest first. Raises Invalid, NotFound."""
        limits.check_page(offset, limit)
        check_ids(space_id, session_id)

        def operation() -> Steps[list[Interrupt]]:
            yield from _check_session(principal, space_id, session_id)
            return (yield from interrupts.page(space_id, session_id, clock.now(), offset, limit))

        return await self._database.read(operation)

    async def cancel(self, principal: Principal, space_id: str, session_id: str, interrupt_id: str) -> bool:
        """Cancel an interrupt; the agent is told with the next run. Returns False where it has ended already.

        Raises Invalid, NotFound.
        """
        check_ids(space_id, session_id)

        def operation() -> Steps[bool]:
            yield from _check_session(principal, space_id, session_id)
            if (yield from interrupts.cancel(space_id, session_id, interrupt_id, clock.now())):
                return True
            if (yield from interrupts.is_there(space_id, session_id, interrupt_id)):
                return False
            raise NotFound(f"There is no interrupt {interrupt_id!r} in this thread")

        return await self._database.write(operation)

    async def waiting(self, principal: Principal, key: RunKey) -> list[Interrupt]:
        """Those that a run has to answer which follows this one, the oldest first. Raises NotFound (the session)."""
        check_ids(key.space_id, key.session_id)

        def operation() -> Steps[list[Interrupt]]:
            yield from _check_session(principal, key.space_id, key.session_id)
            return (yield from _concerning(key, (), key.run_id))

        now = clock.now()
        return [each for each in await self._database.read(operation) if each.state(now) == OPEN]

    async def preview(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        answers: Answers,
        *,
        run_id: str,
        parent_run_id: str | None = None,
    ) -> list[Settled]:
        """What a run with these answers would do, if it began now: what its agent is to be told is known by this.

        What it has ended already, since it waits in line, is among it.

        Raises NotFound, Invalid, InterruptAnswered, InterruptExpired, InterruptsOpen.
        """
        check_ids(space_id, session_id)

        def operation() -> Steps[list[Settled]]:
            yield from _check_session(principal, space_id, session_id)
            return (yield from _settled(RunKey(space_id, session_id, run_id), answers, parent_run_id))

        return await self._database.read(operation)


def settle_with(run: Run, answers: Answers, seen: Sequence[Settled]) -> Steps[None]:
    """Give the pending interrupts the ends that the run brings, in the transaction in which it begins.

    `seen` is the preview by which its agent is told. Raises as `preview` does, and InterruptsChanged where that has
    changed.
    """
    settled = yield from _settled(run.key, answers, run.parent_run_id)
    if _told(settled) != _told(seen):
        raise InterruptsChanged
    for each in settled:
        if each.interrupt.is_pending and not (yield from interrupts.settle(run, each.interrupt, each.status)):
            raise InterruptsChanged


def _told(settled: Sequence[Settled]) -> set[tuple[str, str]]:
    return {(each.interrupt.run_id, each.interrupt.interrupt_id) for each in settled if each.is_told}


def _settled(key: RunKey, answers: Answers, parent_run_id: str | None) -> Steps[list[Settled]]:
    found = yield from _concerning(key, answers.said, parent_run_id)
    return settle_again(answers, found, key.run_id, clock.now())


def _concerning(key: RunKey, named: Collection[str], parent_run_id: str | None) -> Steps[list[Interrupt]]:
    """Those that a run may have to settle, by the run that it follows; None for the newest one."""
    found = yield from interrupts.pending(key, named)
    if found and parent_run_id is not None:
        line = lineage(parent_run_id, (yield from runs.parents(key.space_id, key.session_id)))
        if line is not None:
            # What waits on another branch is not in this one's way.
            found = [each for each in found if each.run_id in line or each.interrupt_id in named]
    return found


def _check_session(principal: Principal, space_id: str, session_id: str) -> Steps[None]:
    if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
        raise no_session(session_id)
