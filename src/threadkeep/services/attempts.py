"""Jobs that ask a language model: each run is an attempt that may fail, is made again later, and fails for good.

What does not depend on the job is here: the lease while a model thinks, the model that the space wants, waiting where
there is none, and what is told of a failure. The rest is given by whoever knows what the job is about.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from threadkeep.domain import extraction
from threadkeep.domain.job import Job
from threadkeep.errors import LeaseLost, ModelFailed, NotFound, Unavailable
from threadkeep.memory.ports import ChatModel
from threadkeep.services.jobs import Held, Jobs
from threadkeep.storage import jobs
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps

NO_MODEL = "no language model is configured; the operator sets one by THREADKEEP_LLM_BASE_URL and THREADKEEP_LLM_MODEL"
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


class Plan(Protocol):
    """What a job is to do, as far as it matters here."""

    @property
    def llm_model_name(self) -> str | None: ...
    @property
    def llm_base_url(self) -> str | None: ...
    @property
    def attempts(self) -> int:
        """Attempts that failed since the last one that did not."""


P = TypeVar("P", bound=Plan)


class Fail(Protocol):
    """Notes why an attempt failed, and when to try again; without a time it has failed for good."""

    def __call__(self, job: Job, error: str, retry_at: int | None, now: int, *, counts: bool = True) -> Steps[None]: ...


class Attempts(Generic[P]):
    """The attempts at jobs of one kind.

    `plan` reads what is to be done (None: nothing any more), `begin` says that it is being done, `work` does it and
    lets go of the job, and `fail` notes that it was not done.
    """

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        models: Models,
        most: int,
        *,
        plan: Callable[[str, str], Steps[P | None]],
        begin: Callable[[Job, int], Steps[None]],
        work: Callable[[Held, P, ChatModel], Awaitable[None]],
        fail: Fail,
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._models = models
        self._most = most
        self._plan = plan
        self._begin = begin
        self._work = work
        self._fail = fail

    async def run(self, job: Job, now: int) -> None:
        """Make one attempt. Raises LeaseLost, and then nothing has happened; Unavailable."""
        async with self._jobs.held(job, now) as held:
            plan = await self._read_plan(job)
            if plan is None:
                await held.write(jobs.remove)
                return
            await held.write(self._begin)
            try:
                model = await self._models.chat(plan.llm_model_name, plan.llm_base_url)
                if model is None:
                    await self._wait(held)
                else:
                    await self._work(held, plan, model)
            except (LeaseLost, Unavailable):
                raise
            except NotFound:
                # The space was deleted meanwhile.
                await held.write(jobs.remove)
            except ModelFailed as error:
                await self._note(held, str(error), error.retry_after, is_final=error.is_final)
            except Exception as error:
                # The text of a foreign error may hold what somebody said.
                _log.exception("failed at a %s job, %s", job.kind, job.session_id)
                await self._note(held, f"{type(error).__name__} inside the server; see its log", None, is_final=False)

    async def _read_plan(self, job: Job) -> P | None:
        return await self._database.read(lambda: self._plan(job.space_id, job.session_id))

    async def _wait(self, held: Held) -> None:
        retry_at = held.now() + _WAIT_FOR_MODEL
        await held.write(lambda job, at: self._fail(job, NO_MODEL, retry_at, at, counts=False))

    async def _note(self, held: Held, error: str, retry_after: float | None, *, is_final: bool) -> None:
        # Read anew: what was done of it by now has put the count back.
        plan: Any = await self._read_plan(held.job)
        attempts = 1 + (0 if plan is None else plan.attempts)
        _log.warning("%s of %s failed, attempt %d: %s", held.job.kind, held.job.session_id, attempts, error)
        retry_at = extraction.retry_at(self._most if is_final else attempts, self._most, retry_after, held.now())
        await held.write(lambda job, at: self._fail(job, error, retry_at, at))
