"""A run between its row and its agent: it begins at once, or when its turn in line has come."""

from dataclasses import dataclass, replace
from typing import Any

from threadkeep.domain import run as states
from threadkeep.domain.run import Run
from threadkeep.errors import InterruptsChanged
from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import History
from threadkeep.gateway.inputs import RunBody
from threadkeep.gateway.interrupts import Reply, reply_of
from threadkeep.gateway.local_runs import LocalRuns
from threadkeep.services.container import Container

_TRIES = 3


@dataclass
class Turn:
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

    async def come(self) -> bool:
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
        """Carry the run out, which is active."""
        await self.local.carry_out(replace(self.row, status=states.ACTIVE), self.history, self.given, self.agent)


def prepare(source: AgentSource, body: RunBody) -> tuple[Any, GuardedAgent]:
    """The input as the agent takes it, and the agent. Raises Invalid."""
    given, agent = source.prepare(body)
    return given, GuardedAgent(agent)
