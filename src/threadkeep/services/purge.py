"""Removing for good what was deleted longer ago than the operator wants it kept."""

from threadkeep.domain.job import Job
from threadkeep.storage import jobs, purge
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps

_DAY = 86_400 * 1_000_000
_EVERY = 60 * 1_000_000
ANSWERS_KEPT = _DAY
"""Microseconds for which the first answer to an Idempotency-Key is kept."""


class Purge:
    def __init__(self, database: Database, *, after_days: int) -> None:
        self._database = database
        self._after = after_days * _DAY or None

    async def run(self, job: Job, now: int) -> None:
        """Remove some rows; the job is due again at once if there may be more, else in a minute. Raises LeaseLost."""

        def operation() -> Steps[None]:
            before = None if self._after is None else now - self._after
            has_more = yield from purge.step(before, now - ANSWERS_KEPT)
            yield from jobs.finish(job, now if has_more else now + _EVERY, now)

        await self._database.write(operation)
