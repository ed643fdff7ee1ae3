"""Chunk events as their readers take them: each lane of them is a message or a call that begins and ends. Pure.

The published clients keep one lane for each subagent and one for the agent; `lanes` keeps them for the fold, which is
more lenient.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history.ag_ui.lanes import ENDS_ALL, STAYS_OPEN
from threadkeep.chat_history.ag_ui.lenient import identifier_of

Fields = Mapping[str, Any]
Event = tuple[str, Fields]

_TEXT = ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "messageId")
_CALL = ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "toolCallId")
_REASONING = ("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "messageId")
_FORMS = {"TEXT_MESSAGE_CHUNK": _TEXT, "TOOL_CALL_CHUNK": _CALL, "REASONING_MESSAGE_CHUNK": _REASONING}
_OF_THE_LANE = ("messageId", "toolCallId", "toolCallName", "parentMessageId", "role", "name", "subagentRunId")


@dataclass(frozen=True, slots=True)
class _Lane:
    kind: str
    agui_id: str
    opener: Fields


class ChunkStreams:
    """The chunk lanes of one stream."""

    def __init__(self) -> None:
        self._lanes: dict[str | None, _Lane] = {}

    def expand(self, kind: str, fields: Fields) -> list[Event]:
        """What an event is for a reader who knows no chunks. A chunk that begins nothing and goes on with nothing is
        nothing to anybody.
        """
        if kind in _FORMS:
            return self._expand_chunk(kind, fields)
        if not self._lanes or kind in STAYS_OPEN:
            return [(kind, fields)]
        owners = [*self._lanes] if kind in ENDS_ALL else [identifier_of(fields.get("subagentRunId"))]
        return [*(end for owner in owners for end in self._end(owner)), (kind, fields)]

    def openers(self) -> list[Fields]:
        """The chunks with which the open lanes begin again, without a delta."""
        return [lane.opener for lane in self._lanes.values()]

    def _expand_chunk(self, kind: str, fields: Fields) -> list[Event]:
        start, content, _, key = _FORMS[kind]
        agui_id = identifier_of(fields.get(key))
        owner = self._owner(kind, agui_id, identifier_of(fields.get("subagentRunId")))
        lane = self._lanes.get(owner)
        events: list[Event] = []
        if lane is None or lane.kind != kind or agui_id not in (None, lane.agui_id):
            events += self._end(owner)
            if agui_id is None:
                return events
            kept = {name: fields[name] for name in _OF_THE_LANE if fields.get(name) is not None}
            lane = self._lanes[owner] = _Lane(kind, agui_id, {"type": kind, **kept})
            events.append((start, {name: value for name, value in fields.items() if name != "delta"}))
        if fields.get("delta") is not None or not events:
            events.append((content, {**fields, key: lane.agui_id}))
        return events

    def _owner(self, kind: str, agui_id: str | None, tag: str | None) -> str | None:
        """Whose lane a chunk is of: by its id, its tag, or because there is only one."""
        of_kind = {owner: lane for owner, lane in self._lanes.items() if lane.kind == kind}
        if agui_id is not None:
            return next((owner for owner, lane in of_kind.items() if lane.agui_id == agui_id), tag)
        if tag is None and None not in of_kind and len(of_kind) == 1:
            return next(iter(of_kind))
        return tag

    def _end(self, owner: str | None) -> list[Event]:
        lane = self._lanes.pop(owner, None)
        if lane is None:
            return []
        _, _, end, key = _FORMS[lane.kind]
        return [(end, {key: lane.agui_id} | ({} if owner is None else {"subagentRunId": owner}))]
