"""A scripted agent: it emits what it is told to, and ends as it is told to."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput

from threadkeep.chat_history import AGUIAgent
from threadkeep.chat_history.ag_ui.wire import WireEvent, WireInput

Step = BaseEvent | WireEvent | Mapping[str, Any] | bytes | asyncio.Event
"""An event as an object, as a dict of its camelCase fields, or as the bytes of its JSON; or something to wait for."""


class ScriptedAgent(AGUIAgent):
    """Emits the steps of a script in order.

    An `asyncio.Event` among them is a gate: the agent waits until it is set. After the last step the stream ends, or,
    with `then`: an exception is raised, or `"hang"` waits for ever, as an agent does that is busy.

        agent = ScriptedAgent([{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}], then=RuntimeError("boom"))

    What it was given is in `inputs`; `open_runs` counts the runs that have neither ended nor been stopped.
    """

    def __init__(
        self, events: Sequence[Step] = (), then: Exception | str | None = None, name: str = "scripted"
    ) -> None:
        super().__init__(name)
        self.events = list(events)
        self.then = then
        self.inputs: list[RunAgentInput | WireInput] = []
        self.open_runs = 0
        if isinstance(then, str) and then != "hang":
            raise ValueError(f"then is an exception, 'hang' or None, not {then!r}")

    async def run(self, input: RunAgentInput | WireInput) -> AsyncGenerator[Any, None]:
        """Play the script as it is now; one that is changed later is for later runs."""
        events, then = self.events, self.then
        self.inputs.append(input)
        self.open_runs += 1
        try:
            for step in events:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    yield WireEvent(step) if isinstance(step, bytes) else step
            if isinstance(then, Exception):
                raise then
            if then == "hang":
                await asyncio.Event().wait()
        finally:
            self.open_runs -= 1
