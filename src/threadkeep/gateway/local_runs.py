"""The runs that this process carries out: an agent each, its events on their way to history, the log and readers."""

import asyncio
import logging
from functools import partial
from typing import Any

from threadkeep.chat_history import AGUIStorageAgent, RunHandle, StreamPersistenceManager, repair_messages
from threadkeep.domain.run import Run, RunKey
from threadkeep.gateway.failures import FailureCode
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import History, in_the_name_of
from threadkeep.gateway.inputs import INPUT_RULES
from threadkeep.services.container import Container
from threadkeep.services.run_writer import RunWriter
from threadkeep.settings import Settings
from threadkeep.streams.run_log import RunWriter as Writer

STOP_SECONDS = 10.0
"""How long a run that was stopped is waited for when the process ends."""
_SHUT_DOWN = "The server was stopped"

_log = logging.getLogger("threadkeep.gateway")


def storing(agent: GuardedAgent, history: History, settings: Settings) -> AGUIStorageAgent:
    """The agent with its history kept, as the gateway keeps it."""
    return AGUIStorageAgent(
        # A speaker is called what its events say: so a page that opens the thread shows what one does that saw the run.
        "",
        history.user_uuid,
        history.chats,
        history.messages,
        agent,
        # More than may wait for the log, at which the agent is held up: so the record misses nothing.
        max_pending_bytes=2 * settings.run_bytes,
        repair=partial(repair_messages, keep_unsigned=settings.keep_unsigned) if settings.repair else None,
        input_rules=INPUT_RULES[settings.client_messages],
    )


class LocalRuns:
    """Runs by their key, each from its start until its end is stored."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._handles: dict[RunKey, RunHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._handles)

    def __contains__(self, key: RunKey) -> bool:
        return key in self._handles

    def keys(self) -> list[RunKey]:
        """Which runs they are."""
        return [*self._handles]

    def key_of(self, space_id: str, thread_id: str, run_id: str) -> RunKey | None:
        """The key of a run of this process, found without asking the store."""
        for key, handle in self._handles.items():
            if (key.space_id, handle.thread_id, key.run_id) == (space_id, thread_id, run_id):
                return key
        return None

    def get(self, key: RunKey) -> RunHandle | None:
        """The run, if this process carries it out."""
        return self._handles.get(key)

    async def carry_out(self, row: Run, history: History, given: Any, agent: GuardedAgent) -> RunHandle:
        """Run the agent on `given`, the input as it takes it, for a row that is active and this process's own."""
        settings = self._container.settings
        writer = RunWriter(self._container.runs, self._container.run_log, row)
        manager = StreamPersistenceManager(
            lambda: storing(agent, history, settings), _Begun(writer), max_waiting_bytes=settings.run_bytes
        )
        with in_the_name_of(row):
            handle = await manager.run(given)
        self._handles[row.key] = handle
        ending = asyncio.create_task(self._see_off(row.key, handle), name=f"see off {row.run_id}")
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return handle

    async def close(self) -> None:
        """Stop the runs, and let what they have said be stored."""
        for handle in self._handles.values():
            # Nobody asked for this end: to the client it is a failure.
            handle.fail(_SHUT_DOWN, FailureCode.STOPPED)
        if self._endings:
            await asyncio.wait([*self._endings], timeout=STOP_SECONDS)
        if self._handles:
            _log.error(
                "the records of %d runs are not stored after %s s: %s; what is missing of them is lost",
                len(self._handles),
                STOP_SECONDS,
                ", ".join(key.run_id for key in self._handles),
            )
        for handle in [*self._handles.values()]:
            await handle.abandon()
        if self._endings:
            await asyncio.wait([*self._endings])

    async def _see_off(self, key: RunKey, handle: RunHandle) -> None:
        """It counts as this process's until its row has ended."""
        try:
            await handle.wait()
        finally:
            del self._handles[key]


class _Begun:
    """The log of a run whose row is there."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer

    async def begin(self, run_input: Any, cancel: object) -> Writer:
        return self._writer
