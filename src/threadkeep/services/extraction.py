"""Extraction: what people said in a session becomes memories. Asked for, carried out by a worker, told of.

A model may take a minute to answer, so it is asked outside of any transaction. What it found, how far the events are
read and how the extraction stands are then written together, under the lease of the job: a worker that was killed, or
woke up too late, has done all of a part or nothing of it, and each event is read once.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from threadkeep import clock
from threadkeep.domain import extraction
from threadkeep.domain.extraction import Extraction
from threadkeep.domain.job import Job
from threadkeep.domain.memory import MemoryScope
from threadkeep.domain.principal import Principal
from threadkeep.memory.consolidation import Keeping
from threadkeep.memory.extraction import Wishes
from threadkeep.memory.ports import ChatModel
from threadkeep.memory.transcript import Line, as_context, parts, read_event, tokens_of
from threadkeep.services.attempts import NO_MODEL, Attempts, Models
from threadkeep.services.consolidating import Candidates, Consolidating
from threadkeep.services.idempotency import Once, write
from threadkeep.services.jobs import Held, Jobs
from threadkeep.services.sessions import check_ids, no_session
from threadkeep.storage import extractions, sessions
from threadkeep.storage.database import Database
from threadkeep.storage.extractions import Found, Plan, Settled
from threadkeep.storage.statement import Steps

PART_TOKENS = 6_000
"""Tokens of a transcript that one request holds."""
_EVENTS_AT_ONCE = 50


class _Options(msgspec.Struct, rename="camel"):
    agent_id: str | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"null")


class _Asked(msgspec.Struct):
    opts: _Options | None = None


class Extractions:
    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        candidates: Candidates,
        models: Models,
        *,
        attempts: int = extraction.ATTEMPTS,
        part_tokens: int = PART_TOKENS,
    ) -> None:
        self._database = database
        self._models = models
        self._part_tokens = part_tokens
        self._consolidating = Consolidating(candidates)
        self._attempting = Attempts(
            database,
            jobs,
            models,
            attempts,
            plan=extractions.plan,
            begin=extractions.begin,
            work=self._extract,
            fail=extractions.fail,
        )

    async def request(
        self,
        principal: Principal,
        space_id: str,
        session_id: str,
        opts: str = "{}",
        *,
        soft_delete: bool = False,
        once: Once[Extraction] | None = None,
    ) -> Extraction:
        """Have the events read that were not read yet, or try again what failed. Returns how it stands.

        `opts` is a JSON object with `agentId` and `metadata`, for the memories that are added; with `soft_delete` the
        session is deleted once its events are read. Raises NotFound, Answered.
        """
        check_ids(space_id, session_id)
        asked = f'{{"trigger":null,"softDelete":{json.dumps(soft_delete)},"opts":{opts}}}'

        def operation() -> Steps[Extraction]:
            stands = yield from extractions.request(
                space_id, session_id, principal.user_id, asked, clock.now(), deletes=soft_delete
            )
            return self._shown(stands, session_id)

        return await write(self._database, operation, once)

    async def state(self, principal: Principal, space_id: str, session_id: str) -> Extraction:
        """How the extraction of a session stands, also of one that was deleted since. Raises NotFound."""
        check_ids(space_id, session_id)
        stands = await self._database.read(lambda: extractions.state(space_id, session_id, principal.user_id))
        return self._shown(stands, session_id)

    async def run(self, job: Job, now: int) -> None:
        """Carry out the extraction of a session as far as it can be, and let go of the job. Raises LeaseLost."""
        await self._attempting.run(job, now)

    async def _extract(self, held: Held, plan: Plan, model: ChatModel) -> None:
        place = (held.job.space_id, held.job.session_id)
        read_to, wanted_to = plan.read_to, plan.wanted_to
        before: list[Line] = []
        while True:
            room = self._part_tokens - sum(map(tokens_of, before))
            lines, to = await self._read(*place, read_to, wanted_to, room)
            found = await self._find(place, [*before, *lines], plan, model)
            before = as_context(lines, self._part_tokens // 4)
            settled = await held.write(partial(_settle, read_to=max(to, read_to), found=found))
            if settled.is_done:
                return
            read_to, wanted_to = max(to, read_to), settled.wanted_to

    async def _read(self, space_id: str, session_id: str, after: int, last: int, room: int) -> tuple[list[Line], int]:
        """What was said behind a number: as many tokens as there is room for, or one event; and where that ends."""
        lines: list[Line] = []
        tokens, to = 0, after
        while to < last:
            page = partial(extractions.events_after, space_id, session_id, to, last, _EVENTS_AT_ONCE)
            events = await self._database.scan(page)
            for event in events:
                line = read_event(event)
                if line is not None:
                    tokens += tokens_of(line)
                    if lines and tokens > room:
                        return lines, to
                    lines.append(line)
                to = event.sequence_id
            if len(events) < _EVENTS_AT_ONCE:
                to = last
        return lines, to

    async def _find(self, place: tuple[str, str], lines: Sequence[Line], plan: Plan, model: ChatModel) -> Found:
        space_id, session_id = place
        options = msgspec.json.decode(plan.asked.encode("utf-8", "surrogatepass"), type=_Asked).opts or _Options()
        metadata = None if bytes(options.metadata) == b"null" else bytes(options.metadata).decode()
        keeping = Keeping(session_id, metadata=metadata)
        wishes = Wishes((plan.custom_instructions,) if plan.custom_instructions else ())
        facts = await self._consolidating.find(model, parts(lines, self._part_tokens), wishes)
        scopes = {fact.person: MemoryScope(user_id=fact.person, agent_id=options.agent_id or None) for fact in facts}
        return await self._consolidating.changes(model, space_id, facts, scopes, keeping)

    def _shown(self, stands: Extraction | None, session_id: str) -> Extraction:
        if stands is None:
            raise no_session(session_id)
        if stands.state == "pending" and stands.error is None and not self._models.can_extract:
            return replace(stands, error=NO_MODEL)
        return stands


def _settle(job: Job, now: int, *, read_to: int, found: Found) -> Steps[Settled]:
    settled = yield from extractions.settle(job, read_to, found, now)
    if settled.deletes_session:
        yield from sessions.expire(job.space_id, job.session_id, now, final_extraction=False)
    return settled
