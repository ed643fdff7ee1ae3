"""The terminal events that Threadkeep itself adds to a stream, in the form that the client understands."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ag_ui.core
from ag_ui.core import BaseEvent, RunErrorEvent
from pydantic import ValidationError

from threadkeep.chat_history.ag_ui.agent import ErrorCodes
from threadkeep.chat_history.ag_ui.open_blocks import Fields, OpenBlocks
from threadkeep.chat_history.ag_ui.wire import WireEvent


def failure(message: str, code: str = ErrorCodes.INTERNAL_ERROR) -> RunErrorEvent:
    """The RUN_ERROR of a run that cannot end by itself."""
    return RunErrorEvent(message=message, code=str(code))


def speaks_1_x(run_input: Any) -> bool:
    """Whether the client said that it speaks AG-UI 1.x. Those that say nothing are older."""
    # To releases before 1.0 the field is an extra one, under its wire name.
    return is_1_x(getattr(run_input, "protocol_version", None) or getattr(run_input, "protocolVersion", None))


def is_1_x(version: Any) -> bool:
    """Whether a protocol version, as a client sends it, is of the 1.x line."""
    return isinstance(version, str) and version.split(".")[0] == "1"


def cancelled(run_input: Any, blocks: OpenBlocks) -> list[Fields]:
    """What ends a cancelled run, as fields under their wire names: what is open is closed, and the run finishes.

    A cancel is no failure. The outcome `cancelled` goes only to clients that said that they speak 1.x: older ones
    would fail on it, and see a run that finished.
    """
    run = {"threadId": run_input.thread_id, "runId": run_input.run_id}
    start = [] if blocks.started else [{"type": "RUN_STARTED", **run}]
    outcome = {"outcome": {"type": "cancelled"}} if speaks_1_x(run_input) else {}
    return [*start, *blocks.closing(), {"type": "RUN_FINISHED", **run, **outcome}]


def as_events(endings: Sequence[Fields]) -> list[BaseEvent | WireEvent]:
    """The same as events of the installed release of the protocol; as wire events where it does not know them."""
    return [_as_event(fields) for fields in endings]


def _as_event(fields: Fields) -> BaseEvent | WireEvent:
    name = "".join(word.capitalize() for word in fields["type"].split("_")) + "Event"
    cls = getattr(ag_ui.core, name, None)
    if cls is not None:
        with suppress(ValidationError):
            event: BaseEvent = cls.model_validate(fields)
            return event
    return WireEvent.of(fields)
