"""Chunk lanes: what a chunk without an id goes on with. One lane per subagent; whatever else happens in it ends it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import identifier_of
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row
from threadkeep.chat_history.ag_ui.turn import Turn

STAYS_OPEN = frozenset(
    {
        "TEXT_MESSAGE_CHUNK",
        "TOOL_CALL_CHUNK",
        "REASONING_MESSAGE_CHUNK",
        "RAW",
        "ACTIVITY_SNAPSHOT",
        "ACTIVITY_DELTA",
        "REASONING_ENCRYPTED_VALUE",
        "SUBAGENT_STARTED",
    }
)
ENDS_ALL = frozenset({"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"})


@dataclass(slots=True)
class _Lane:
    kind: str
    agui_id: str | None
    record: Row | Call | Reasoning


class Lanes:
    """The open lanes of a run."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._lanes: dict[str | None, _Lane] = {}

    def see(self, kind: str, fields: Mapping[str, Any]) -> None:
        """An event comes: it may end lanes."""
        if self._lanes and kind not in STAYS_OPEN:
            owners = list(self._lanes) if kind in ENDS_ALL else [_owner(fields)]
            for owner in owners:
                self._end(owner)

    def follow(self, kind: str, agui_id: str | None, fields: Mapping[str, Any]) -> Row | Call | Reasoning | None:
        """What a chunk goes on with; None where it begins something new, which ends the lane as it was."""
        owner = _owner(fields)
        lane = self._lanes.get(owner)
        if lane is not None and lane.kind == kind and agui_id in (None, lane.agui_id):
            return lane.record
        self._end(owner)
        return None

    def begin(self, kind: str, record: Row | Call | Reasoning, fields: Mapping[str, Any]) -> None:
        self._lanes[_owner(fields)] = _Lane(kind, record.agui_id, record)

    def _end(self, owner: str | None) -> None:
        lane = self._lanes.pop(owner, None)
        if lane is None:
            return
        if isinstance(lane.record, Row):
            self._turn.end_text(lane.record)
        elif isinstance(lane.record, Reasoning):
            self._turn.end_reasoning(lane.record)


def _owner(fields: Mapping[str, Any]) -> str | None:
    return identifier_of(fields.get("subagentRunId"))
