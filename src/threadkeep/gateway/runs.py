"""The runs of the gateway: begin one by the policy, follow one from any process, cancel one on any process.

A run is a row that is open while its owner renews the lease. Its owner is a process, which carries it out
(`local_runs.py`) or waits with it in line (`waiting_line.py`). Everybody else reads the log: readers of this process
are near the source, those of others are woken by the bus.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from threadkeep.chat_history import ChatCreate
from threadkeep.chat_history.chat_names import name_of_chat
from threadkeep.domain import run as states
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import Conflict, InterruptConflict, Invalid, NotFound, RunActive, ThreadkeepError
from threadkeep.gateway import cancels
from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import Histories, History, find_session
from threadkeep.gateway.inputs import RunBody, input_text, parse_body
from threadkeep.gateway.interrupts import reply_of, unseen_reply
from threadkeep.gateway.leases import Leases
from threadkeep.gateway.local_runs import STOP_SECONDS, LocalRuns
from threadkeep.gateway.prepared_runs import PreparedRun, end_unbegun, prepare
from threadkeep.gateway.recovery import end_lost_run
from threadkeep.gateway.waiting_line import WaitingLine
from threadkeep.ids import new_id
from threadkeep.persistence.errors import DRMemoryServiceError
from threadkeep.services.container import Container
from threadkeep.services.run_following import pages_through
from threadkeep.settings import ENQUEUE, SUPERSEDE
from threadkeep.streams.locks import Locks
from threadkeep.streams.run_log import Batch

_SUPERSEDED_AT_MOST = 10

_log = logging.getLogger("threadkeep.gateway")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunStream:
    """What a reader of a run gets: its events, as they come.

    `is_at_end` says that the run has ended and the reader has seen it all.
    """

    run_id: str
    batches: AsyncGenerator[Batch, None]
    is_at_end: bool = False


class NoSuchIndex(Invalid):
    """A reader wants to go on after an event that the log does not have."""


class Runs:
    """Carries runs out between `open` and `close`, keeps their leases, and ends those that have lost their process."""

    def __init__(self, container: Container, histories: Histories, source: AgentSource) -> None:
        self._container = container
        self._histories = histories
        self._source = source
        self._owner = new_id()
        self._local = LocalRuns(container)
        self._services = (container, source, self._local)
        self._line = WaitingLine(container)
        self._beginning: Locks[RunKey] = Locks()
        self._leases = Leases(
            container,
            self._owner,
            self._local,
            self._has,
            adopt=self._adopt,
            end=partial(end_lost_run, container, histories, source),
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watches: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """End what earlier processes have left behind, and go on watching for more."""
        await self._leases.recover()
        await self._leases.ended()
        self._watches = [
            asyncio.create_task(self._leases.keep(self._has_runs), name="keep the leases of runs"),
            asyncio.create_task(
                cancels.obey(self._container, self._owner, self._has_runs, self._stop_here), name="hear of cancels"
            ),
        ]

    async def close(self) -> None:
        """Stop the runs, let what they have said be stored, and stop watching. Those in line stay there."""
        for watch in self._watches:
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches)
        if self._tasks:
            # One that waits for the end of a run that it is to supersede may have to wait for long.
            await asyncio.wait([*self._tasks], timeout=STOP_SECONDS)
        for task in [*self._tasks]:
            task.cancel()
            await asyncio.wait([task])
        await self._line.close()
        await self._local.close()
        await self._leases.close()

    async def start(self, history: History, body: RunBody, after: int | None = None) -> RunStream:
        """Begin a run, or find it where it was begun before with the same input; `after` is for one that was.

        Raises Invalid, RunActive, Conflict (another input had this id), NotFound and NoSuchIndex (of `after`).
        """
        if after is not None:
            return await self._again(history, body, after)
        given, agent = prepare(self._source, body)
        await self._leases.recover()
        begun = self._spawn(self._begin(history, body, given, agent))
        # A caller that leaves in this moment must not leave a row behind that nobody carries out.
        row = await asyncio.shield(begun)
        if row is None:
            return await self._again(history, body, -1)
        return RunStream(body.run_id, self._batches(row.key, -1))

    async def follow(self, history: History, thread_id: str, run_id: str, after: int = -1) -> RunStream:
        """The events of a run behind an index, to its end. Raises NotFound, NoSuchIndex."""
        return await self._follow(await self._find(history, thread_id, run_id), after)

    async def cancel(self, history: History, thread_id: str, run_id: str) -> bool:
        """Stop a run, wherever it is, and wait until it is over. Returns False where there is nothing to stop.

        Raises NotFound (the thread), Unavailable.
        """
        key = self._local.key_of(history.space_id, thread_id, run_id)
        if key is None:
            session = await find_session(self._container.sessions, history, thread_id)
            if session is None:
                raise no_thread(thread_id)
            key = RunKey(history.space_id, session.id, run_id)
        return await self._cancel(history.principal, key)

    async def cancel_session(self, history: History, session_id: str) -> None:
        """Stop what runs and waits in a thread, on any process, and wait until it is over."""
        line = await self._container.runs.in_line(history.space_id, session_id)
        # Those in line first, from its end: none of them is to begin.
        newest = await self._container.runs.page(history.principal, history.space_id, session_id)
        for run in [*reversed(line), *(run for run in newest if run.status == states.ACTIVE)]:
            await self._cancel(history.principal, run.key)

    async def _begin(self, history: History, body: RunBody, given: Any, agent: GuardedAgent) -> Run | None:
        """Make the run's row, and carry it out or let it wait. None where it is there already."""
        session_id = await self._session_of(history, body)
        # From before its row is there until it is carried out, so that nobody takes it for one that was lost.
        async with self._beginning.of(RunKey(history.space_id, session_id, body.run_id)):
            return await self._begin_in(session_id, history, body, given, agent)

    async def _begin_in(
        self, session_id: str, history: History, body: RunBody, given: Any, agent: GuardedAgent
    ) -> Run | None:
        policy = self._container.settings.run_policy
        await self._leases.ended(history.space_id, session_id)
        try:
            reply = await reply_of(self._container, history, session_id, body)
        except (Invalid, InterruptConflict):
            if await self._is_known(history, session_id, body.run_id):
                # It is the run that has answered them.
                return None
            raise
        if reply.body is not body:
            given, agent = prepare(self._source, reply.body)
        for _ in range(_SUPERSEDED_AT_MOST):
            try:
                row = await self._container.runs.begin(
                    history.principal,
                    history.space_id,
                    session_id,
                    run_id=body.run_id,
                    parent_run_id=body.parent_run_id,
                    owner=self._owner,
                    lease_seconds=self._leases.held_seconds,
                    input=input_text(body),
                    queue=policy == ENQUEUE,
                    answers=reply.answers,
                    seen=reply.seen,
                )
                break
            except RunActive as error:
                if error.run_id == body.run_id:
                    if (begun := await self._begun_unheard(history, session_id, body)) is None:
                        return None
                    row = begun
                    break
                active = error.run_id
            except InterruptConflict:
                raise
            except Conflict:
                return None
            if policy != SUPERSEDE:
                raise RunActive(body.thread_id, active)
            await self._cancel(history.principal, RunKey(history.space_id, session_id, active))
        else:
            raise RunActive(body.thread_id, active)
        await self._take(
            PreparedRun(self._container, self._source, self._local, history, row, body, reply, given, agent)
        )
        return row

    async def _begun_unheard(self, history: History, session_id: str, body: RunBody) -> Run | None:
        """The run's row, if this process made it and the database's answer to that was lost."""
        run = await self._container.runs.get(history.principal, history.space_id, session_id, body.run_id)
        is_ours = run.is_open and run.owner == self._owner and _is_of(run, body)
        is_in_hand = run.key in self._local or run.key in self._line or run.key in self._leases
        return run if is_ours and not is_in_hand else None

    async def _is_known(self, history: History, session_id: str, run_id: str) -> bool:
        try:
            await self._container.runs.get(history.principal, history.space_id, session_id, run_id)
        except NotFound:
            return False
        return True

    async def _take(self, prepared: PreparedRun) -> None:
        if prepared.row.status == states.QUEUED:
            self._line.enter(prepared)
        else:
            await prepared.begin()

    async def _adopt(self, row: Run) -> None:
        """Wait in line with a run whose process has gone."""
        principal = Principal(row.user_id, row.tenant_id)
        try:
            whole = await self._container.runs.get(principal, row.space_id, row.session_id, row.run_id)
            body = parse_body((whole.input or "").encode("utf-8", "surrogatepass"))
            history = await self._histories.of(principal)
            reply = unseen_reply(self._container, body)
            given, agent = prepare(self._source, body)
            await self._take(
                PreparedRun(self._container, self._source, self._local, history, row, body, reply, given, agent)
            )
        except (Invalid, NotFound) as error:
            await end_unbegun(self._container, row, error)

    async def _again(self, history: History, body: RunBody, after: int) -> RunStream:
        """A run whose id was used before: the same one, if its input was the same. Raises Conflict, NotFound."""
        run = await self._find(history, body.thread_id, body.run_id)
        if not _is_of(run, body):
            raise Conflict(
                f"The run {body.run_id!r} of this thread began with another input; a new run needs an id of its own"
            )
        return await self._follow(run, after)

    async def _find(self, history: History, thread_id: str, run_id: str) -> Run:
        session = await find_session(self._container.sessions, history, thread_id)
        if session is None:
            raise no_thread(thread_id)
        try:
            return await self._container.runs.get(history.principal, history.space_id, session.id, run_id)
        except NotFound:
            raise NotFound(f"There is no run {run_id!r} in the thread {thread_id!r}") from None

    async def _follow(self, run: Run, after: int) -> RunStream:
        length = await self._container.run_log.length(run.key) if after >= 0 else 0
        if after >= 0 and after >= length:
            raise NoSuchIndex(f"The run {run.run_id!r} has {length} events by now; none of them is number {after}")
        is_at_end = after >= 0 and not run.is_open and after == length - 1
        return RunStream(run.run_id, self._batches(run.key, after), is_at_end)

    def _batches(self, key: RunKey, after: int) -> AsyncGenerator[Batch, None]:
        handle = self._local.get(key)
        return self._batches_of_others(key, after) if handle is None else handle.batches(after)

    async def _batches_of_others(self, key: RunKey, after: int) -> AsyncGenerator[Batch, None]:
        """Of a run that another process carries out, or that waits in line."""
        await self._line.turn(key)
        handle = self._local.get(key)
        if handle is not None:
            async with aclosing(handle.batches(after)) as batches:
                async for batch in batches:
                    yield batch
            return
        async with aclosing(pages_through(self._container.run_log, key, after)) as pages:
            async for page in pages:
                yield [(event.index, event.data) for event in page]

    async def _cancel(self, principal: Principal, key: RunKey) -> bool:
        is_stopped = await self._stop_here(key)
        if is_stopped is None:
            return await cancels.ask(self._container, principal, key, self._leases.recover)
        if is_stopped and (handle := self._local.get(key)) is not None:
            await handle.over()
        return is_stopped

    async def _stop_here(self, key: RunKey) -> bool | None:
        """Cancel a run of this process. False where it has come to its end already, None where it is not here."""
        if await self._line.cancel(key):
            return True
        handle = self._local.get(key)
        return None if handle is None else handle.cancel()

    async def _session_of(self, history: History, body: RunBody) -> str:
        """The session that holds the thread; a thread begins with its first run."""
        session = await find_session(self._container.sessions, history, body.thread_id)
        if session is not None:
            return session.id
        name = name_of_chat(body.fields["messages"])
        new = ChatCreate(user_uuid=history.user_uuid, thread_id=body.thread_id, name=name)
        chat = await history.chats.create_chat(new)
        return str(chat.id)

    def _has(self, key: RunKey) -> bool:
        return key in self._local or key in self._line or key in self._beginning

    def _has_runs(self) -> bool:
        return len(self._local) + len(self._line) > 0

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ThreadkeepError | DRMemoryServiceError):
            _log.error("a task of the gateway failed", exc_info=error)


def _is_of(run: Run, body: RunBody) -> bool:
    """Whether a run began with this input."""
    return run.input is not None and json.loads(run.input) == body.fields


def no_thread(thread_id: str) -> NotFound:
    """One that does not exist and one of somebody else are the same."""
    return NotFound(f"There is no thread {thread_id!r}")
