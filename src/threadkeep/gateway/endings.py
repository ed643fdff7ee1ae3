"""How a run ends: what it has opened and not closed, the events that close it, and the terminal events that we write.

Values in, values out. Events are looked at as their camelCase fields, whatever line of AG-UI they come from.
"""

from collections.abc import Mapping
from typing import Any

RUN_STARTED = "RUN_STARTED"
RUN_FINISHED = "RUN_FINISHED"
RUN_ERROR = "RUN_ERROR"
TERMINAL = frozenset({RUN_FINISHED, RUN_ERROR})

# What a start opens: the event that ends it, and the field that says which one is meant.
_STARTS: dict[str, tuple[str, str | None]] = {
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
    "STEP_STARTED": ("STEP_FINISHED", "stepName"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
    "THINKING_START": ("THINKING_END", None),
    "THINKING_TEXT_MESSAGE_START": ("THINKING_TEXT_MESSAGE_END", None),
    "SUBAGENT_STARTED": ("SUBAGENT_FINISHED", "subagentRunId"),
}
_ENDS = {**dict(_STARTS.values()), "SUBAGENT_ERROR": "subagentRunId"}
# Two ways to end one thing.
_SAME_END = {"SUBAGENT_ERROR": "SUBAGENT_FINISHED"}
_SUBAGENT = "subagentRunId"


class OpenParts:
    """The texts, calls, steps, reasonings and subagents of one run that are open, in the order of their start."""

    def __init__(self) -> None:
        self.started = False
        """Whether the run's RUN_STARTED has been seen."""
        self._open: dict[tuple[str, str | None, str | None], dict[str, Any]] = {}

    def see(self, fields: Mapping[str, Any]) -> None:
        """Take the next event of the run into account. An event that makes no sense changes nothing."""
        kind = fields.get("type")
        if not isinstance(kind, str):
            return
        if kind in _STARTS:
            end, name = _STARTS[kind]
            if (key := _key(end, name, fields)) is not None:
                self._open.setdefault(key, _end_event(end, name, fields))
        elif kind in _ENDS:
            if (key := _key(_SAME_END.get(kind, kind), _ENDS[kind], fields)) is not None:
                self._open.pop(key, None)
        elif kind == RUN_STARTED:
            self.started = True
        elif kind in TERMINAL:
            self._open.clear()

    def closing(self) -> list[dict[str, Any]]:
        """The events that close what is open, the last opened first."""
        return list(reversed(self._open.values()))


def run_error(message: str, code: str) -> dict[str, Any]:
    """A RUN_ERROR."""
    return {"type": RUN_ERROR, "message": message, "code": code}


def cancelled(parts: OpenParts, thread_id: str, run_id: str, protocol_version: str | None) -> list[dict[str, Any]]:
    """The end of a run that its user has cancelled: what is open is closed, and the run is finished, not failed.

    The outcome `cancelled` is fatal to clients from before AG-UI 1.0; those get a plain RUN_FINISHED.
    """
    start = [] if parts.started else [{"type": RUN_STARTED, "threadId": thread_id, "runId": run_id}]
    finish: dict[str, Any] = {"type": RUN_FINISHED, "threadId": thread_id, "runId": run_id}
    if understands_outcomes(protocol_version):
        finish["outcome"] = {"type": "cancelled"}
    return [*start, *parts.closing(), finish]


def understands_outcomes(protocol_version: str | None) -> bool:
    """Whether a client that named this `protocolVersion` knows what AG-UI 1.0 added; one that named none does not."""
    major = (protocol_version or "").partition(".")[0]
    return major.isdecimal() and int(major) >= 1


def _key(end: str, name: str | None, fields: Mapping[str, Any]) -> tuple[str, str | None, str | None] | None:
    which = fields.get(name) if name else None
    if name and not isinstance(which, str):
        return None
    # Steps have a name only; two subagents may each have a step of that name.
    owner = fields.get(_SUBAGENT) if name == "stepName" else None
    return end, which, owner if isinstance(owner, str) else None


def _end_event(end: str, name: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    event = {"type": end}
    for field in dict.fromkeys(filter(None, (name, _SUBAGENT))):
        if isinstance(value := fields.get(field), str):
            event[field] = value
    return event
