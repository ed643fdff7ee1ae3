"""The lifecycle of sessions: what their strategies ask for is done when it is due."""

import asyncio
from functools import partial

from threadkeep.domain.job import Job
from threadkeep.domain.message_text import texts
from threadkeep.services.token_counting import count_tokens
from threadkeep.storage import lifecycle, token_counts
from threadkeep.storage.database import Database

_EVENTS_AT_ONCE = 2_000
"""Events that are counted in one go; the job of a session that has more is due again at once."""


class Lifecycle:
    def __init__(self, database: Database, *, final_extraction: bool = True) -> None:
        self._database = database
        self._final_extraction = final_extraction

    async def run(self, job: Job, now: int) -> tuple[str, ...]:
        """Do what is due for the job's session, once, and let go of the job until something may be due again.

        A session that is deleted, or whose space is, loses its job.
        Returns the types of strategy that ran. Raises LeaseLost, and then nothing has happened.
        """
        tokens, is_counted = await self._count(job)
        return await self._database.write(
            lambda: lifecycle.act(job, tokens, now, is_counted=is_counted, final_extraction=self._final_extraction)
        )

    async def _count(self, job: Job) -> tuple[int, bool]:
        """The tokens of the session where a strategy asks for them, and whether these are all.

        Counted outside of any transaction: whoever appends or patches meanwhile wakes the job.
        """
        place = (job.space_id, job.session_id)
        state = await self._database.read(lambda: token_counts.state(*place))
        if state is None:
            return 0, True
        total, to = state.count, state.to
        settled = (total, to)
        settles_to = state.last_seq - token_counts.TAIL
        while to < state.last_seq:
            if to - state.to >= _EVENTS_AT_ONCE and to < settles_to:
                break
            page = partial(token_counts.bodies, *place, to, state.last_seq)
            bodies, to = await self._database.scan(page)
            total += await asyncio.to_thread(_count_all, bodies)
            if to <= settles_to:
                settled = (total, to)
        if settled[1] > state.to:
            await self._database.write(lambda: token_counts.settle(*place, state, *settled))
        return total, to >= state.last_seq


def _count_all(bodies: list[str]) -> int:
    return sum(count_tokens(text) for body in bodies for text in texts(body))
