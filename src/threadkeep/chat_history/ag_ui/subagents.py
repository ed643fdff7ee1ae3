"""Subagents of one run: announced, ended, and what they left open ended with them. Pure."""

from collections.abc import Mapping
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import error_of, identifier_of, mapping_of, plain, text_of
from threadkeep.chat_history.ag_ui.records import Row, Subagent, merged
from threadkeep.chat_history.ag_ui.turn import Turn
from threadkeep.chat_history.constants import MessageStatus

Fields = Mapping[str, Any]


class Subagents:
    """The subagents of a run, by their run id."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._by_id: dict[str, Subagent] = {}

    def start(self, fields: Fields) -> None:
        """One is announced; announced again, it is the same one."""
        run_id = identifier_of(fields.get("subagentRunId"))
        if run_id is None:
            self._turn.stray += 1
            return
        subagent = self._by_id.get(run_id)
        is_new = subagent is None
        if subagent is None:
            subagent = self._by_id[run_id] = Subagent(run_id, self._turn.stamp())
        subagent.name = text_of(fields.get("name")) or subagent.name
        subagent.description = text_of(fields.get("description")) or subagent.description
        subagent.parent_subagent_run_id = _given(fields, "parentSubagentRunId", subagent.parent_subagent_run_id)
        subagent.parent_tool_call_id = _given(fields, "parentToolCallId", subagent.parent_tool_call_id)
        subagent.parent_message_id = _given(fields, "parentMessageId", subagent.parent_message_id)
        self._note_metadata(subagent, fields)
        self._turn.voice(run_id).name = subagent.name or None
        if is_new:
            self._turn.house(subagent, self._row_for(subagent))
        elif subagent.row is not None:
            self._turn.touch(subagent.row)

    def finish(self, fields: Fields) -> str | None:
        """One has ended by itself; its run id."""
        subagent = self._ending(fields)
        if subagent is None:
            return None
        subagent.result, subagent.outcome = plain(fields.get("result")), plain(fields.get("outcome"))
        suspended = mapping_of(fields.get("outcome")).get("type") == "suspended"
        if not suspended:
            subagent.status = MessageStatus.COMPLETE
        return subagent.subagent_run_id

    def fail(self, fields: Fields) -> tuple[str, str] | None:
        """One has failed; its run id, and why."""
        subagent = self._ending(fields)
        if subagent is None:
            return None
        message, code = error_of(fields.get("message")) or "the subagent failed", text_of(fields.get("code"))
        subagent.status, subagent.error = MessageStatus.ERRORED, f"[{code}] {message}" if code else message
        return subagent.subagent_run_id, subagent.error

    def _ending(self, fields: Fields) -> Subagent | None:
        """The subagent that an end is for; the first end counts."""
        subagent = self._by_id.get(identifier_of(fields.get("subagentRunId")) or "")
        if subagent is None or subagent.status is not MessageStatus.ACTIVE:
            self._turn.stray += 1
            return None
        self._note_metadata(subagent, fields)
        if subagent.row is not None:
            self._turn.touch(subagent.row)
        return subagent

    def _row_for(self, subagent: Subagent) -> Row | None:
        """The row that a subagent works for: that of the call, or the message, that it was started by."""
        call = self._turn.call_of(subagent.parent_tool_call_id) if subagent.parent_tool_call_id else None
        if call is not None and not call.sealed:
            return call.row
        named = self._turn.row_of(subagent.parent_message_id)
        return named or self._turn.voice(subagent.parent_subagent_run_id).last_assistant

    def _note_metadata(self, subagent: Subagent, fields: Fields) -> None:
        if metadata := mapping_of(fields.get("metadata")):
            subagent.metadata = merged(subagent.metadata, plain(metadata))


def _given(fields: Fields, name: str, otherwise: str | None) -> str | None:
    return identifier_of(fields.get(name)) or otherwise
