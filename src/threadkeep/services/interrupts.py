"""What can be done with the interrupts of a thread: list them, cancel one, and see what a run would do to them."""

from collections.abc import Sequence

from threadkeep import clock
from threadkeep.domain import limits
from threadkeep.domain.interrupt import Interrupt
from threadkeep.domain.principal import Principal
from threadkeep.domain.resume import Answers, Settled, lineage, settle
from threadkeep.domain.run import Run
from threadkeep.errors import InterruptConflict, NotFound
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

    async def preview(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        answers: Answers,
        *,
        parent_run_id: str | None = None,
    ) -> list[Settled]:
        """What a run with these answers would do, if it began now: what its agent is to be told is known by this.

        Raises NotFound, Invalid, InterruptAnswered, InterruptExpired, InterruptsOpen.
        """
        check_ids(space_id, session_id)

        def operation() -> Steps[list[Settled]]:
            yield from _check_session(principal, space_id, session_id)
            return (yield from _settled(space_id, session_id, answers, parent_run_id))

        return await self._database.read(operation)


def settle_with(run: Run, answers: Answers, seen: Sequence[Settled]) -> Steps[None]:
    """Give the pending interrupts the ends that the run brings, in the transaction in which it begins.

    `seen` is the preview by which its agent is told. Raises as `preview` does, and InterruptConflict where that has
    changed.
    """
    settled = yield from _settled(run.space_id, run.session_id, answers, run.parent_run_id)
    if _told(settled) != _told(seen):
        raise _changed()
    for each in settled:
        if not (yield from interrupts.settle(run, each.interrupt, each.status)):
            raise _changed()


def _told(settled: Sequence[Settled]) -> set[tuple[str, str]]:
    return {(each.interrupt.run_id, each.interrupt.interrupt_id) for each in settled if each.is_told}


def _changed() -> InterruptConflict:
    return InterruptConflict("The interrupts of the thread have changed in this moment; try again")


def _settled(space_id: str, session_id: str, answers: Answers, parent_run_id: str | None) -> Steps[list[Settled]]:
    found = yield from interrupts.pending(space_id, session_id, answers.said)
    if found and parent_run_id is not None:
        line = lineage(parent_run_id, (yield from runs.parents(space_id, session_id)))
        if line is not None:
            # What waits on another branch is not in this one's way.
            found = [each for each in found if each.run_id in line or each.interrupt_id in answers.said]
    return settle(answers, found, clock.now())


def _check_session(principal: Principal, space_id: str, session_id: str) -> Steps[None]:
    if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
        raise no_session(session_id)
