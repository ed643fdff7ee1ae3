"""Giving memories their vectors: at once where that is quick, else as a job; again where the model has changed."""

import asyncio
from collections.abc import Sequence

from threadkeep import clock
from threadkeep.domain.job import Job
from threadkeep.domain.memory import Memory
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.memory.ports import Embedder
from threadkeep.storage import jobs, memories, vectors
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps

AT_ONCE = 64
"""Texts that one call of the embedder takes."""
_PATIENCE = 3.0
"""Seconds that somebody who adds memories waits for their vectors; after that they come by the job."""
_ONE_RUN = 15 * 1_000_000
"""Microseconds after which a run begins nothing new: half of what a lease lasts."""
_SPACES = 1_000


class Embedding:
    """`embedder` is None where the operator has set none: then there is nothing to do here."""

    def __init__(self, database: Database, embedder: Embedder | None) -> None:
        self._database = database
        self.embedder = embedder

    async def prepare(self, now: int) -> None:
        """See to it that what has vectors of another model gets those of this one."""
        if self.embedder is None:
            return
        model = self.embedder.name
        for space_id in await self._database.scan(lambda: vectors.spaces_of_other_models(model, _SPACES)):
            await self._database.write(lambda at=space_id: vectors.want(at, now))  # type: ignore[misc]

    async def embed_now(self, space_id: str, made: Sequence[Memory]) -> bool:
        """Give memories that were just written their vectors, if that is quick. Returns whether it was.

        Where it is not, or fails, the job is there that does it.
        """
        if self.embedder is None or not made or len(made) > AT_ONCE:
            return False
        rows = [(memory.id, memory.text, memories.digest(memory.text)) for memory in made]
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._embed(space_id, rows)
        except (ThreadkeepError, TimeoutError):
            return False
        return True

    async def queries(self, texts: Sequence[str]) -> list[bytes] | None:
        """Vectors of what is looked for; None where no model gives any now."""
        if self.embedder is None or not texts:
            return None
        try:
            return [vector.tobytes() for vector in await self.embedder.embed(texts)]
        except ThreadkeepError:
            return None

    async def run(self, job: Job, now: int) -> int:
        """Embed what has no vector of the model; the job is due again at once if there may be more.

        Returns how many were embedded. Raises LeaseLost, and what the embedder raises.
        """
        assert self.embedder is not None, "the job has no handler where there is no embedder"
        model, space_id, after, count = self.embedder.name, job.space_id, "", 0
        started, has_more, is_first = clock.now(), True, True
        # One step at least, however late it is: a run that does nothing would come again and again.
        while has_more and (is_first or clock.now() - started < _ONE_RUN):
            is_first = False
            rows = await self._database.scan(
                lambda behind=after: vectors.without(space_id, model, behind, AT_ONCE)  # type: ignore[misc]
            )
            try:
                count += await self._embed(space_id, rows)
            except NotFound:
                # The space was deleted, and nobody will search it any more.
                await self._database.write(lambda: jobs.remove(job, now))
                return count
            has_more = len(rows) == AT_ONCE
            after = rows[-1][0] if rows else after

        def operation() -> Steps[None]:
            yield from jobs.finish(job, now if has_more else None, now)

        await self._database.write(operation)
        return count

    async def _embed(self, space_id: str, rows: Sequence[tuple[str, str, str]]) -> int:
        if self.embedder is None or not rows:
            return 0
        model = self.embedder.name
        made = await self.embedder.embed([text for _, text, _ in rows])
        kept = [(row[0], row[2], vector.tobytes()) for row, vector in zip(rows, made, strict=True)]
        return await self._database.write(lambda: vectors.put(space_id, model, kept))
