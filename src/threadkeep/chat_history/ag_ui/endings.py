"""The terminal events that Threadkeep itself adds to a stream, in the form that the client understands."""

from collections.abc import Sequence
from typing import Any

import ag_ui.core
from ag_ui.core import BaseEvent, RunErrorEvent

from threadkeep.chat_history.ag_ui.agent import ErrorCodes
from threadkeep.chat_history.ag_ui.open_blocks import Fields, OpenBlocks

OUTCOME_IS_KNOWN = hasattr(ag_ui.core, "RunFinishedCancelledOutcome")


def failure(message: str, code: str = ErrorCodes.INTERNAL_ERROR) -> RunErrorEvent:
    """The RUN_ERROR of a run that cannot end by itself."""
    return RunErrorEvent(message=message, code=str(code))


def speaks_1_x(run_input: Any) -> bool:
    """Whether the client said that it speaks AG-UI 1.x. Those that say nothing are older."""
    version = getattr(run_input, "protocol_version", None)
    return isinstance(version, str) and version.split(".")[0] == "1"


def cancelled(run_input: Any, blocks: OpenBlocks, *, outcome_is_known: bool = True) -> list[Fields]:
    """What ends a cancelled run, as fields under their wire names.

    A 1.x client gets everything closed and RUN_FINISHED with the outcome `cancelled`. Older ones do not know that
    outcome and get RUN_ERROR with the code CANCELLED, which may come at any time. So does everybody where the
    events are made with a release of the protocol that lacks the outcome.
    """
    if not (outcome_is_known and speaks_1_x(run_input)):
        return [{"type": "RUN_ERROR", "message": "The run was cancelled", "code": ErrorCodes.CANCELLED.value}]
    run = {"threadId": run_input.thread_id, "runId": run_input.run_id}
    start = [] if blocks.started else [{"type": "RUN_STARTED", **run}]
    return [*start, *blocks.closing(), {"type": "RUN_FINISHED", **run, "outcome": {"type": "cancelled"}}]


def as_events(endings: Sequence[Fields]) -> list[BaseEvent]:
    """The same as events of the installed release of the protocol; what it has no class for is left out."""
    events = []
    for fields in endings:
        name = "".join(word.capitalize() for word in fields["type"].split("_")) + "Event"
        cls = getattr(ag_ui.core, name, None)
        if cls is not None:
            events.append(cls.model_validate(fields))
    return events
