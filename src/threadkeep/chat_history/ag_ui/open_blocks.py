"""What a stream has opened and not closed: to end it in good order, or to go on with it for a new reader. Pure."""

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
_NOT_AGAIN = frozenset({"metadata", "rawEvent", "timestamp"})
"""What is of the event itself, or was merged into its message when it came."""


class OpenBlocks:
    """The open blocks of one stream. Chunks open none: a client closes those by itself when the run ends."""

    def __init__(self) -> None:
        self.started = False
        self._open: dict[tuple[str, str], Fields] = {}
        self._subagents: dict[str, list[Fields]] = {}

    def see(self, kind: str, fields: Mapping[str, Any]) -> None:
        """An event passes, by its type and its fields under their wire names."""
        if kind == "RUN_STARTED":
            self.started = True
        elif kind in _CLOSERS:
            opener = opening_again(kind, fields)
            self._open[_key(*_CLOSERS[kind], fields)] = opener
            if kind == "SUBAGENT_STARTED":
                self._subagents[str(fields.get("subagentRunId"))] = [opener]
        elif kind in _CLOSED_BY:
            was_open = self._open.pop(_key(*_CLOSED_BY[kind], fields), None) is not None
            if was_open and kind.startswith("SUBAGENT_"):
                self._subagents[str(fields.get("subagentRunId"))].append(opening_again(kind, fields))

    def closing(self) -> list[Fields]:
        """The events that close what is open, the last opened first."""
        return [_closing(opener) for opener in reversed(self._open.values())]

    def reopening(self) -> list[Fields]:
        """The events that open again what is open, the first opened first.

        Subagents that have ended are among them, with their end: one that starts later may name one as its parent.
        """
        subagents = [event for events in self._subagents.values() for event in events]
        return [*subagents, *(each for each in self._open.values() if each["type"] != "SUBAGENT_STARTED")]


def opening_again(kind: str, fields: Mapping[str, Any]) -> Fields:
    """An event as it is sent once more to a reader who has what it brought."""
    kept = {name: value for name, value in fields.items() if value is not None and name not in _NOT_AGAIN}
    return {**kept, "type": kind}


def _closing(opener: Fields) -> Fields:
    closer, key = _CLOSERS[opener["type"]]
    closing = {"type": closer} | ({key: opener.get(key)} if key is not None else {})
    if "subagentRunId" in opener:
        closing["subagentRunId"] = opener["subagentRunId"]
    return closing


def _key(closer: str, key: str | None, fields: Mapping[str, Any]) -> tuple[str, str]:
    # Steps of two subagents may have one name; whatever stands in the fields has a text.
    owner = fields.get("subagentRunId") if closer == "STEP_FINISHED" else None
    return closer, f"{owner}/{fields.get(key) if key is not None else ''}"
