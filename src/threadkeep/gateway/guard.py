"""An agent that always ends with exactly one terminal event, whatever the agent inside it does."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ag_ui.core import RunAgentInput

from threadkeep.chat_history import AGUIAgent
from threadkeep.chat_history.ag_ui.endings import failure as run_error
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.wire import WireInput, event_type
from threadkeep.gateway.failures import AgentFailure, FailureCode

DRAIN_SECONDS = 5.0
"""How long an agent may go on after its terminal event, to tidy up; nobody sees what it emits then."""

_log = logging.getLogger("threadkeep.gateway")


class GuardedAgent(AGUIAgent):
    """Passes the events of `inner` on as they are. A stream that raises, or stops early, ends with a RUN_ERROR."""

    def __init__(self, inner: AGUIAgent) -> None:
        super().__init__(inner.name)
        self._inner = inner
        self._called = inner.name or type(inner).__name__

    async def run(self, input: RunAgentInput | WireInput) -> AsyncGenerator[Any, None]:
        """The events of the inner agent up to the first terminal one, or to the one that it failed to send."""
        ended = False
        failure = AgentFailure("The agent's stream ended without a terminal event", FailureCode.INCOMPLETE)
        try:
            stream: AsyncGenerator[Any, None] = self._inner.run(input)  # type: ignore[arg-type]
            async with aclosing(stream):
                async for event in stream:
                    ended = event_type(event) in TERMINAL_TYPES
                    yield event
                    if ended:
                        await self._drain(stream)
                        return
        except AgentFailure as error:
            _log.warning("agent failed run=%s code=%s: %s", input.run_id, error.code, error)
            failure = error
        except Exception as error:
            _log.exception("agent raised run=%s", input.run_id)
            failure = AgentFailure(f"The agent failed: {type(error).__name__}: {error}", FailureCode.RAISED)
        if not ended:
            yield run_error(str(failure), failure.code)

    async def _drain(self, stream: AsyncGenerator[Any, None]) -> None:
        """Let the agent run to its end: code behind its last `yield` belongs to it too."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for event in stream:
                    _log.warning("dropped an event after the end of its run agent=%s: %r", self._called, event)
        except TimeoutError:
            _log.warning(
                "agent %s was stopped: it went on for %s s after its run had ended", self._called, DRAIN_SECONDS
            )
