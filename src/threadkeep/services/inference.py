"""Messages that were handed in become memories: the work behind an add that infers. As durable as an extraction."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep import clock
from threadkeep.domain import extraction
from threadkeep.domain.job import Job
from threadkeep.domain.memory import SCOPE_FIELDS, MemoryChange, MemoryScope
from threadkeep.memory.consolidation import Keeping
from threadkeep.memory.extraction import Wishes
from threadkeep.memory.ports import ChatModel
from threadkeep.memory.transcript import parts, read_message
from threadkeep.services.attempts import Attempts, Models
from threadkeep.services.consolidating import Candidates, Consolidating
from threadkeep.services.extraction import PART_TOKENS
from threadkeep.services.jobs import Held, Jobs
from threadkeep.storage import additions
from threadkeep.storage.additions import Plan
from threadkeep.storage.database import Database


class Inference:
    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        candidates: Candidates,
        models: Models,
        *,
        attempts: int = extraction.ATTEMPTS,
    ) -> None:
        self._consolidating = Consolidating(candidates)
        self._attempting = Attempts(
            database,
            jobs,
            models,
            attempts,
            plan=additions.plan,
            begin=additions.begin,
            work=self._infer,
            fail=additions.fail,
        )

    async def run(self, job: Job, now: int) -> None:
        """Carry out one request as far as it can be, and let go of the job. Raises LeaseLost."""
        await self._attempting.run(job, now)

    async def _infer(self, held: Held, plan: Plan, model: ChatModel) -> None:
        request: dict[str, Any] = json.loads(plan.request)
        scope = MemoryScope(**{name: request["scope"].get(name) for name in SCOPE_FIELDS})
        said_at = request.get("timestamp")
        dated = [read_message(place, each, said_at or clock.now()) for place, each in enumerate(request["messages"], 1)]
        lines = [line for line in dated if line is not None]
        facts = await self._consolidating.find(model, parts(lines, PART_TOKENS), _wishes(plan, request))
        keeping = Keeping(metadata=_metadata(request), expiration_date=request.get("expiration_date"))
        scopes = dict.fromkeys((fact.person for fact in facts), scope)
        found = await self._consolidating.changes(model, held.job.space_id, facts, scopes, keeping)
        changes: Sequence[MemoryChange] = found[0][1] if found else ()
        await held.write(lambda job, at: additions.settle(job, scope, changes, at))


def _wishes(plan: Plan, request: Mapping[str, Any]) -> Wishes:
    told = [
        plan.custom_instructions,
        request.get("custom_instructions"),
        request.get("includes") and f"Note only: {request['includes']}",
        request.get("excludes") and f"Leave out: {request['excludes']}",
    ]
    return Wishes(tuple(each for each in told if isinstance(each, str) and each), _categories(request))


def _categories(request: Mapping[str, Any]) -> dict[str, str]:
    """Names of categories, each with what it is for; from a list of objects, or from one."""
    given = request.get("custom_categories")
    pairs: dict[str, str] = {}
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, dict):
            pairs |= {str(name): meaning if isinstance(meaning, str) else "" for name, meaning in each.items()}
    return pairs


def _metadata(request: Mapping[str, Any]) -> str | None:
    given = request.get("metadata")
    return given if given is None or isinstance(given, str) else json.dumps(given)
