"""What an agent is to this package: a name and a stream of AG-UI events."""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from enum import StrEnum

from ag_ui.core import BaseEvent, RunAgentInput

logger = logging.getLogger("threadkeep.chat_history")


class ErrorCodes(StrEnum):
    """The codes of RUN_ERROR events that Threadkeep itself sends."""

    INVALID_INPUT = "INVALID_INPUT"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class AGUIAgent(ABC):
    """An AG-UI agent: anything with a name and a stream of events.

    ```python
    class Greeter(AGUIAgent):
        async def run(self, input):
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            yield TextMessageChunkEvent(message_id="m1", role="assistant", delta="Hello!")
            yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)
    ```

    Args:
        name: what the agent is called, e.g. in logs.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def run(self, input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        """The events of one run, in order.

        Args:
            input: the run's input, its messages included.
        """


async def close_events(events: object) -> None:
    """Let whoever gave events clean up, wherever their reader stopped; what goes wrong there is not the run's."""
    aclose = getattr(events, "aclose", None)
    if aclose is not None:
        try:
            await aclose()
        except Exception:
            logger.exception("a source of events failed while it was closed")
