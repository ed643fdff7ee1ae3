"""What a stream has opened and not closed, so that it can be ended in good order. Pure."""

from collections.abc import Mapping
from typing import Any

Fields = dict[str, Any]

_CLOSERS = {
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
    "THINKING_START": ("THINKING_END", None),
    "THINKING_TEXT_MESSAGE_START": ("THINKING_TEXT_MESSAGE_END", None),
    "STEP_STARTED": ("STEP_FINISHED", "stepName"),
    "SUBAGENT_STARTED": ("SUBAGENT_FINISHED", "subagentRunId"),
}
_CLOSED_BY = {closer: (closer, key) for closer, key in _CLOSERS.values()} | {
    "SUBAGENT_ERROR": ("SUBAGENT_FINISHED", "subagentRunId")
}


class OpenBlocks:
    """The open blocks of one stream. Chunks open none: a client closes those by itself when the run ends."""

    def __init__(self) -> None:
        self.started = False
        self._open: dict[tuple[str, str], Fields] = {}

    def see(self, kind: str, fields: Mapping[str, Any]) -> None:
        """An event passes, by its type and its fields under their wire names."""
        if kind == "RUN_STARTED":
            self.started = True
        elif kind in _CLOSERS:
            closer, key = _CLOSERS[kind]
            closing = {"type": closer} | ({key: fields.get(key)} if key is not None else {})
            if fields.get("subagentRunId") is not None:
                closing["subagentRunId"] = fields["subagentRunId"]
            self._open[_key(closer, key, fields)] = closing
        elif kind in _CLOSED_BY:
            self._open.pop(_key(*_CLOSED_BY[kind], fields), None)

    def closing(self) -> list[Fields]:
        """The events that close what is open, the last opened first."""
        return [dict(fields) for fields in reversed(self._open.values())]


def _key(closer: str, key: str | None, fields: Mapping[str, Any]) -> tuple[str, str]:
    # Steps of two subagents may have one name; whatever stands in the fields has a text.
    owner = fields.get("subagentRunId") if closer == "STEP_FINISHED" else None
    return closer, f"{owner}/{fields.get(key) if key is not None else ''}"
