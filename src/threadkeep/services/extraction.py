"""Extraction: what people said in a session becomes memories. Asked for, carried out by a worker, told of.

A model may take a minute to answer, so it is asked outside of any transaction. What it found, how far the events are
read and how the extraction stands are then written together, under the lease of the job: a worker that was killed, or
woke up too late, has done all of a part or nothing of it, and each event is read once.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from threadkeep import clock
from threadkeep.domain import extraction
from threadkeep.domain.extraction import Extraction
from threadkeep.domain.job import Job
from threadkeep.domain.memory import MemoryScope
from threadkeep.domain.principal import Principal
from threadkeep.errors import LeaseLost, ModelFailed, NotFound, Unavailable
from threadkeep.memory.consolidation import Keeping
from threadkeep.memory.extraction import Wishes
from threadkeep.memory.ports import ChatModel
from threadkeep.memory.transcript import Line, as_context, parts, read_event, tokens_of
from threadkeep.services.consolidating import Candidates, Consolidating
from threadkeep.services.jobs import Held, Jobs
from threadkeep.services.sessions import check_ids, no_session
from threadkeep.storage import extractions, jobs, sessions
from threadkeep.storage.database import Database
from threadkeep.storage.extractions import Found, Plan, Settled
from threadkeep.storage.statement import Steps

PART_TOKENS = 6_000
"""Tokens of a transcript that one request holds."""
NO_MODEL = "no language model is configured; the operator sets one by THREADKEEP_LLM_BASE_URL and THREADKEEP_LLM_MODEL"
_EVENTS_AT_ONCE = 50
_WAIT_FOR_MODEL = 60_000_000
"""Microseconds until somebody looks again whether there is a model."""
_log = logging.getLogger("threadkeep.memory")


class Models(Protocol):
    """Where models come from: `memory.endpoints`, or a script."""

    @property
    def can_extract(self) -> bool:
        """Whether there is, or may be, a model for some space."""

    async def chat(self, model_name: str | None, base_url: str | None) -> ChatModel | None:
        """The model for a space that says this of it; None where there is none. Raises ModelFailed."""

    async def close(self) -> None:
        """Let go of all connections."""


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
        self._jobs = jobs
        self._models = models
        self._attempts = attempts
        self._part_tokens = part_tokens
        self._consolidating = Consolidating(candidates)

    async def request(
        self, principal: Principal, space_id: str, session_id: str, opts: str = "{}", *, soft_delete: bool = False
    ) -> Extraction:
        """Have the events read that were not read yet, or try again what failed. Returns how it stands.

        `opts` is a JSON object with `agentId` and `metadata`, for the memories that are added; with `soft_delete` the
        session is deleted once its events are read. Raises NotFound.
        """
        check_ids(space_id, session_id)
        asked = f'{{"trigger":null,"opts":{opts}}}'
        stands = await self._database.write(
            lambda: extractions.request(
                space_id, session_id, principal.user_id, asked, clock.now(), deletes=soft_delete
            )
        )
        return self._shown(stands, session_id)

    async def state(self, principal: Principal, space_id: str, session_id: str) -> Extraction:
        """How the extraction of a session stands, also of one that was deleted since. Raises NotFound."""
        check_ids(space_id, session_id)
        stands = await self._database.read(lambda: extractions.state(space_id, session_id, principal.user_id))
        return self._shown(stands, session_id)

    async def run(self, job: Job, now: int) -> None:
        """Carry out the extraction of a session as far as it can be, and let go of the job. Raises LeaseLost."""
        async with self._jobs.held(job, now) as held:
            plan = await self._database.read(lambda: extractions.plan(job.space_id, job.session_id))
            if plan is None:
                await held.write(jobs.remove)
                return
            await held.write(extractions.begin)
            try:
                model = await self._models.chat(plan.llm_model_name, plan.llm_base_url)
                if model is None:
                    retry_at = held.now() + _WAIT_FOR_MODEL
                    await held.write(lambda job, at: extractions.fail(job, NO_MODEL, retry_at, at, counts=False))
                    return
                await self._extract(held, plan, model)
            except (LeaseLost, Unavailable):
                raise
            except NotFound:
                # The space was deleted meanwhile.
                await held.write(jobs.remove)
            except ModelFailed as error:
                await self._fail(held, plan, str(error), error.retry_after, is_final=error.is_final)
            except Exception as error:
                # The text of a foreign error may hold what somebody said.
                _log.exception("an extraction failed, session %s", job.session_id)
                await self._fail(held, plan, f"{type(error).__name__} inside the server; see its log", None)

    async def _extract(self, held: Held, plan: Plan, model: ChatModel) -> None:
        place = (held.job.space_id, held.job.session_id)
        read_to, wanted_to = plan.read_to, plan.wanted_to
        before: list[Line] = []
        while True:
            lines, to = await self._read(*place, read_to, wanted_to)
            found = await self._find(place, [*before, *lines], plan, model)
            before = as_context(lines, self._part_tokens // 4)
            settled = await held.write(partial(_settle, read_to=max(to, read_to), found=found))
            if settled.is_done:
                return
            read_to, wanted_to = max(to, read_to), settled.wanted_to

    async def _read(self, space_id: str, session_id: str, after: int, last: int) -> tuple[list[Line], int]:
        """What was said behind a number: as much as fits one request, or one event; and the number it reaches to."""
        lines: list[Line] = []
        tokens, to = 0, after
        while to < last:
            page = partial(extractions.events_after, space_id, session_id, to, last, _EVENTS_AT_ONCE)
            events = await self._database.scan(page)
            for event in events:
                line = read_event(event)
                if line is not None:
                    tokens += tokens_of(line)
                    if lines and tokens > self._part_tokens:
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

    async def _fail(
        self, held: Held, plan: Plan, error: str, retry_after: float | None, *, is_final: bool = False
    ) -> None:
        known = await self._database.read(lambda: extractions.get(held.job.space_id, held.job.session_id))
        attempts = self._attempts if is_final else known.attempts + 1
        retry_at = extraction.retry_at(attempts, self._attempts, retry_after, held.now())
        _log.warning("an extraction failed, session %s, attempt %d: %s", held.job.session_id, known.attempts + 1, error)
        await held.write(lambda job, at: extractions.fail(job, error, retry_at, at))

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
