"""What can be done with runs: begin one, hold it under a lease, end it, and find those whose owner is gone."""

import json
from typing import Any

from threadkeep import clock
from threadkeep.domain import limits
from threadkeep.domain import run as states
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.errors import Conflict, RunActive
from threadkeep.services.sessions import check_ids, no_session
from threadkeep.storage import runs, sessions
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        *,
        run_id: str,
        parent_run_id: str | None,
        owner: str,
        lease_seconds: int,
    ) -> Run:
        """Make the run the active one of its session.

        A run whose lease has run out is in the way until whoever takes it over has ended it and its records.
        Raises NotFound, RunActive (another one is active), Conflict (the id was used before).
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
            now + lease_seconds * 1_000_000,
        )

        def operation() -> Steps[Run | None]:
            if (yield from sessions.get(space_id, session_id, principal.user_id)) is None:
                raise no_session(session_id)
            return (yield from runs.begin(run))

        in_the_way = await self._database.write(operation)
        if in_the_way is None:
            return run
        if in_the_way.status == states.ACTIVE:
            raise RunActive(session_id, in_the_way.run_id)
        raise Conflict(f"The run {run_id!r} of this thread has ended already; a new run needs an id of its own")

    async def finish(
        self, run: Run, *, status: str, outcome: Any | None = None, usage: Any | None = None, error: str | None = None
    ) -> bool:
        """End the run. Returns whether its owner still held it."""
        return await self._database.write(
            lambda: runs.end(run, status, _to_json(outcome), _to_json(usage), error, clock.now())
        )

    async def renew(self, owner: str, lease_seconds: int) -> None:
        """Prolong the leases of all runs that the owner carries out."""
        await self._database.write(lambda: runs.renew(owner, clock.now() + lease_seconds * 1_000_000))

    async def expired(self, limit: int = 100) -> list[Run]:
        """Active runs whose lease has run out, of all users, the longest gone first."""
        return await self._database.read(lambda: runs.expired(clock.now(), limit))

    async def take_over(self, run: Run, owner: str, lease_seconds: int) -> bool:
        """Become the owner of a run as it was read. Returns False where somebody was faster."""
        until = clock.now() + lease_seconds * 1_000_000
        return await self._database.write(lambda: runs.take_over(run, owner, until))

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
