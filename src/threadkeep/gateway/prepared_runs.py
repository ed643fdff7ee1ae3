"""A run between its row and its agent: it begins at once, or when its turn in line has come."""

import logging
from dataclasses import dataclass, replace
from typing import Any

from threadkeep.chat_history.ag_ui.endings import failure
from threadkeep.chat_history.ag_ui.wire import event_json
from threadkeep.domain import run as states
from threadkeep.domain.run import Run
from threadkeep.errors import InterruptsChanged, InterruptsOpen, Unavailable
from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.failures import FailureCode
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import History
from threadkeep.gateway.inputs import RunBody
from threadkeep.gateway.interrupts import Reply, reply_of
from threadkeep.gateway.local_runs import LocalRuns
from threadkeep.services.container import Container

_TRIES = 3

_log = logging.getLogger("threadkeep.gateway")


@dataclass
class PreparedRun:
    """One run with all that it takes to carry it out. `given` is its input as `agent` takes it, made from `reply`."""

    container: Container
    source: AgentSource
    local: LocalRuns
    history: History
    row: Run
    body: RunBody
    reply: Reply
    given: Any
    agent: GuardedAgent

    async def promote(self) -> bool:
        """Make a queued run the active one, if it is the first in line and none is active. Returns whether it is.

        What the runs before it have asked gets its answer from this one's input, by the same rules as if it came now.
        Raises Invalid, InterruptConflict, Unavailable.
        """
        for _ in range(_TRIES):
            try:
                return await self.container.runs.promote(self.row, answers=self.reply.answers, seen=self.reply.seen)
            except InterruptsChanged:
                self.reply = await reply_of(self.container, self.history, self.row.session_id, self.body)
                self.given, self.agent = prepare(self.source, self.reply.body)
        return False

    async def begin(self) -> None:
        """Carry the run out, which is active. One that cannot begin ends with the reason."""
        try:
            await self.local.carry_out(replace(self.row, status=states.ACTIVE), self.history, self.given, self.agent)
        except Exception as error:
            await end_unbegun(self.container, self.row, error)


async def end_unbegun(container: Container, row: Run, error: Exception) -> None:
    """End a run that cannot begin. Where the store is down, it is ended as one that nobody has any more."""
    is_refused = isinstance(error, InterruptsOpen)
    if is_refused:
        _log.warning("a run that was in line is refused run=%s: %s", row.run_id, error)
    else:
        _log.error("a run could not begin run=%s", row.run_id, exc_info=error)
    code = FailureCode.INTERRUPTS_OPEN if is_refused else FailureCode.RAISED
    terminal = failure(f"The run could not begin: {error}", code)
    try:
        await container.runs.finish(
            row, status=states.ERRORED, error=str(error), events=[event_json(terminal)], first=0
        )
    except Unavailable as outage:
        _log.warning("the end of a run cannot be stored run=%s: %s", row.run_id, outage)


def prepare(source: AgentSource, body: RunBody) -> tuple[Any, GuardedAgent]:
    """The input as the agent takes it, and the agent. Raises Invalid."""
    given, agent = source.prepare(body)
    return given, GuardedAgent(agent)
