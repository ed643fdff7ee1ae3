"""The runs that this process carries out: begun, followed, cancelled, held under a lease; and the ends of lost ones.

A run is a row that is `active` while somebody renews its lease. The agent's events pass through the guard (which sees
to one terminal event) and the storage agent (which folds them into history) into the channel of the run's handle, where
its readers are; the agent never waits for a reader. Readers get the terminal event when the history is stored and the
row is finished: whoever has seen it may at once read the whole history and start the next run, on any process. A store
that hangs holds it back for a few seconds at most.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from threadkeep.chat_history import AGUIStorageAgent, ChatCreate, RunHandle, StreamPersistenceManager, repair_messages
from threadkeep.chat_history.ag_ui.endings import failure as run_error
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.wire import event_fields, event_json, event_type
from threadkeep.chat_history.chat_names import name_of_chat
from threadkeep.domain import run as states
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.errors import NotFound, RunActive, ThreadkeepError, Unavailable
from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.failures import FailureCode
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import Histories, History, find_session
from threadkeep.gateway.inputs import INPUT_RULES, RunBody
from threadkeep.gateway.recovery import WHY, close_records
from threadkeep.ids import new_id
from threadkeep.persistence.errors import DRMemoryServiceError
from threadkeep.services.container import Container

SETTLE_SECONDS = 5.0
"""How long a terminal event waits for the store."""
STOP_SECONDS = 10.0
"""How long a run that was stopped is waited for."""
CANCELLED = "The run was cancelled"
_SHUT_DOWN = "The server was stopped"
_UNSENDABLE = "The agent sent an event that is no JSON"
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0

_log = logging.getLogger("threadkeep.gateway")
T = TypeVar("T")


class ActiveRun:
    """One run of this process, between its row and its readers."""

    def __init__(self, row: Run, handle: RunHandle) -> None:
        self.row = row
        self.settled = asyncio.Event()
        """Set when the history is stored and the row is finished, or when the store has taken too long."""
        self._handle = handle
        self._stopped_for: str | None = None

    async def follow(self) -> AsyncIterator[bytes]:
        """The JSON of each event from the first one on, as it comes. For any number of readers."""
        async for event in self._handle.events():
            data = self._to_send(event)
            if data is None or event_type(event) in TERMINAL_TYPES:
                await self.settled.wait()
                if self._stopped_for == _SHUT_DOWN:
                    # Nobody asked for this end: to the client it is a failure.
                    data = event_json(run_error(_SHUT_DOWN, FailureCode.STOPPED))
                yield data or event_json(run_error(_UNSENDABLE, FailureCode.RAISED))
                return
            yield data

    def stop(self, why: str) -> bool:
        """Stop the agent. Returns False where the run has come to its end already."""
        if not self._handle.cancel():
            return False
        self._stopped_for = why
        return True

    async def terminal(self) -> object:
        """The terminal event, as soon as there is one."""
        last: object = None
        async for event in self._handle.events():
            last = event
        return last

    async def stored(self) -> None:
        """Returns when the history of the run is stored."""
        await self._handle.wait()

    def result(self, terminal: object) -> dict[str, Any]:
        """How the row ends."""
        fields = event_fields(terminal)
        outcome = fields.get("outcome")
        result: dict[str, Any] = {"status": states.FINISHED, "outcome": outcome, "usage": fields.get("usage")}
        if self._stopped_for == CANCELLED:
            result |= {"status": states.INTERRUPTED, "outcome": {"type": "cancelled"}}
        elif self._stopped_for is not None:
            status = states.ERRORED if self._stopped_for == _UNSENDABLE else states.INTERRUPTED
            result |= {"status": status, "outcome": None, "error": self._stopped_for}
        elif event_type(terminal) != "RUN_FINISHED":
            result |= {"status": states.ERRORED, "error": str(fields.get("message") or "The agent gave no reason")}
        elif isinstance(outcome, Mapping) and outcome.get("type") == "cancelled":
            result["status"] = states.INTERRUPTED
        return result

    def _to_send(self, event: object) -> bytes | None:
        try:
            return event_json(event)
        except (TypeError, ValueError, RecursionError):
            _log.exception("an event cannot be sent run=%s", self.row.run_id)
            self.stop(_UNSENDABLE)
            return None


class Runs:
    """Carries runs out. Between `open` and `close` it keeps the leases, and ends runs that have lost their process."""

    def __init__(self, container: Container, histories: Histories, source: AgentSource) -> None:
        self._container = container
        self._histories = histories
        self._source = source
        self._owner = new_id()
        self._lease_seconds = container.settings.run_lease
        self._run_bytes = container.settings.run_bytes
        self._repairs = container.settings.repair
        self._input_rules = INPUT_RULES[container.settings.client_messages]
        self._active: dict[tuple[str, str, str], ActiveRun] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """End what earlier processes have left behind, and go on watching for more."""
        await self._recover()
        self._watch = asyncio.create_task(self._keep_watch(), name="keep the leases of runs")

    async def close(self) -> None:
        """Stop the runs, let what they have said be stored, and stop watching."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        for active in self._active.values():
            active.stop(_SHUT_DOWN)
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=STOP_SECONDS)
        if self._active:
            _log.error(
                "the records of %d runs are not stored after %s s: %s; what is missing of them is lost",
                len(self._active),
                STOP_SECONDS,
                ", ".join(active.row.run_id for active in self._active.values()),
            )
        for task in [*self._tasks]:
            task.cancel()
            await asyncio.wait([task])

    async def start(self, history: History, body: RunBody) -> ActiveRun:
        """Begin a run. Raises Invalid, RunActive, Conflict (the id was used before)."""
        given, agent = self._source.prepare(body)
        await self._recover()
        begun = self._spawn(self._begin(history, body, given, GuardedAgent(agent)))
        # A caller that leaves in this moment must not leave a row behind that nobody carries out.
        return await asyncio.shield(begun)

    async def cancel(self, history: History, thread_id: str, run_id: str) -> bool:
        """Stop a run of this process and wait until it is over. Returns False where there is nothing to stop."""
        active = self._active.get((history.space_id, thread_id, run_id))
        if active is None or not active.stop(CANCELLED):
            return False
        await active.settled.wait()
        return True

    async def cancel_thread(self, history: History, thread_id: str) -> None:
        """Stop what this process runs in a thread, and wait until it is over."""
        for space_id, at_thread, run_id in [*self._active]:
            if (space_id, at_thread) == (history.space_id, thread_id):
                await self.cancel(history, thread_id, run_id)

    def is_known(self, history: History, thread_id: str, run_id: str) -> bool:
        """Whether this process is still busy with the run."""
        return (history.space_id, thread_id, run_id) in self._active

    async def _begin(self, history: History, body: RunBody, given: Any, agent: GuardedAgent) -> ActiveRun:
        try:
            row = await self._container.runs.begin(
                history.principal,
                history.space_id,
                await self._session_of(history, body),
                run_id=body.run_id,
                parent_run_id=body.parent_run_id,
                owner=self._owner,
                lease_seconds=self._lease_seconds,
            )
        except RunActive as error:
            raise RunActive(body.thread_id, error.run_id) from None
        manager = StreamPersistenceManager(
            lambda: AGUIStorageAgent(
                agent.name,
                history.user_uuid,
                history.chats,
                history.messages,
                agent,
                max_pending_bytes=self._run_bytes,
                repair=repair_messages if self._repairs else None,
                input_rules=self._input_rules,
            )
        )
        active = ActiveRun(row, await manager.run(given))
        self._active[history.space_id, body.thread_id, body.run_id] = active
        self._spawn(self._carry(active, (history.space_id, body.thread_id, body.run_id)))
        return active

    async def _session_of(self, history: History, body: RunBody) -> str:
        """The session that holds the thread; a thread begins with its first run."""
        session = await find_session(self._container.sessions, history, body.thread_id)
        if session is not None:
            return session.id
        name = name_of_chat(body.fields["messages"])
        new = ChatCreate(user_uuid=history.user_uuid, thread_id=body.thread_id, name=name)
        chat = await history.chats.create_chat(new)
        return str(chat.id)

    async def _carry(self, active: ActiveRun, key: tuple[str, str, str]) -> None:
        """See a run to its end. It counts as this process's until its row is finished."""
        try:
            ending = self._spawn(self._end(active, await active.terminal()))
            await asyncio.wait([ending], timeout=SETTLE_SECONDS)
            active.settled.set()
            await asyncio.wait([ending])
        finally:
            active.settled.set()
            del self._active[key]

    async def _end(self, active: ActiveRun, terminal: object) -> None:
        await active.stored()
        await self._finish(active.row, active.result(terminal))

    async def _finish(self, row: Run, result: dict[str, Any]) -> None:
        """End the row, whatever it takes: nobody else will while this process keeps its leases."""
        delay = _FIRST_RETRY
        while True:
            try:
                if not await self._container.runs.finish(row, **result):
                    _log.warning("another process has ended run=%s", row.run_id)
                return
            except Unavailable as error:
                _log.warning("run cannot be finished yet run=%s: %s", row.run_id, error)
            except Exception:
                _log.exception("run cannot be finished with what its agent said run=%s", row.run_id)
                result = {"status": result["status"], "error": result.get("error")}
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_RETRY)

    async def _keep_watch(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                if self._active:
                    await self._container.runs.renew(self._owner, self._lease_seconds)
                await self._recover()
            except Exception:
                _log.exception("leases could not be kept; next attempt in %.1f s", self._lease_seconds / 3)

    async def _recover(self) -> None:
        """End the runs whose owner has let the lease run out."""
        for found in await self._container.runs.expired():
            # A process that was asleep finds its own leases run out; its runs go on all the same.
            is_ours = found.owner == self._owner
            if not is_ours and await self._container.runs.take_over(found, self._owner, self._lease_seconds):
                row = replace(found, owner=self._owner)
                try:
                    await self._close_records(row)
                except Exception:
                    _log.exception("records of a lost run could not be closed run=%s", row.run_id)
                await self._finish(row, {"status": states.INTERRUPTED, "error": WHY})

    async def _close_records(self, row: Run) -> None:
        principal = Principal(row.user_id, row.tenant_id)
        try:
            session = await self._container.sessions.get(principal, row.space_id, row.session_id)
        except NotFound:
            return
        await close_records(await self._histories.of(principal), session)

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
