"""The fold: AG-UI's events into rows. A pure state machine; time is an argument, nothing is read or written."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from threadkeep.chat_history.ag_ui import snapshot
from threadkeep.chat_history.ag_ui.activities import Activities
from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.kept_events import KeptEvent, KeptEvents
from threadkeep.chat_history.ag_ui.lanes import Lanes
from threadkeep.chat_history.ag_ui.lenient import error_of, identifier_of, list_of, plain, text_of
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row, Subagent, merged
from threadkeep.chat_history.ag_ui.run_end import RunEnd, read_error, read_finish
from threadkeep.chat_history.ag_ui.subagents import Subagents
from threadkeep.chat_history.ag_ui.thoughts import Thoughts
from threadkeep.chat_history.ag_ui.thread_state import ThreadState
from threadkeep.chat_history.ag_ui.turn import Turn
from threadkeep.chat_history.constants import MessageStatus, Role

_SPEAKERS = {role.value: role for role in (Role.ASSISTANT, Role.USER, Role.SYSTEM, Role.DEVELOPER)}
Fields = Mapping[str, Any]


class Fold:
    """One run, folded event by event.

    `apply` takes an event's type, its fields under their wire names, and the time at which it came. Types that it
    does not know and fields that it cannot use change nothing; no sequence of events raises. The first terminal
    event, or the first call of `finish`, decides how the records of the run end; what comes later is ignored.

    Args:
        now: the time before the first event.
        client_tools: names of the tools that the frontend runs; their calls outlive the run.
        carried: calls of earlier runs that have no result yet.
        known: messages stored before this run, so that a MESSAGES_SNAPSHOT does not bring them again.
        state: the state that the client sent, which the first STATE_DELTA applies to.
    """

    def __init__(
        self,
        now: datetime,
        *,
        client_tools: Collection[str] = (),
        carried: Iterable[Call] = (),
        known: snapshot.Known = snapshot.NOTHING_KNOWN,
        state: Any = None,
    ) -> None:
        self.turn = Turn(now, carried)
        self.state = ThreadState(plain(state))
        self.kept_events = KeptEvents()
        self.status: MessageStatus | None = None
        self.applied = 0
        self._client_tools = frozenset(client_tools)
        self._known = known
        self._lanes = Lanes(self.turn)
        self._thoughts = Thoughts(self.turn)
        self._activities = Activities(self.turn)
        self._subagents = Subagents(self.turn)

    @property
    def rows(self) -> list[Row]:
        """The rows that are worth keeping, in order."""
        return [row for row in self.turn.rows if row.kept]

    def apply(self, kind: str, fields: Fields, at: datetime) -> None:
        """Fold one event."""
        step = _STEPS.get(kind)
        if self.status is not None or step is None:
            return
        self.turn.now = at
        self._lanes.see(kind, fields)
        step(self, fields)
        self.applied += 1

    def keep_event(self, kind: str, fields: Fields, at: datetime) -> None:
        """Keep an event as it came, beside what is folded of it."""
        if self.status is None:
            copy = {name: value for name, value in plain(fields).items() if name != "rawEvent"}
            self.kept_events.events.append(KeptEvent(kind, copy, at))
            self.turn.dirty.setdefault(self.kept_events, at)

    def finish(self, status: MessageStatus, at: datetime, error: str | None = None) -> None:
        """End the run: what is open gets `status`, and the last assistant row too where the run did not end well."""
        if self.status is None:
            self.turn.now = at
            self._finish(RunEnd(status, error))

    # The run

    def _run_finished(self, fields: Fields) -> None:
        self._finish(read_finish(fields))

    def _run_error(self, fields: Fields) -> None:
        self._finish(read_error(fields))

    def _finish(self, end: RunEnd) -> None:
        turn = self.turn
        self.status = status = end.status
        self._thoughts.settle()
        turn.settle_alone()
        last = None if end.is_good else self._last_row(status)
        for row in list(turn.rows):
            for call in row.calls:
                if call.status is MessageStatus.ACTIVE:
                    if end.is_good and (call.name in self._client_tools or end.awaits(call.agui_id)):
                        call.awaiting = True
                    else:
                        call.status, call.error = status, end.error
                    turn.touch(row)
            inner: list[Reasoning | Subagent] = [*row.reasonings, *row.subagents]
            for record in inner:
                if record.status is MessageStatus.ACTIVE:
                    record.status, record.error = status, end.error
                    turn.touch(row)
            turn.end(row, status, end.error)
        if last is not None:
            turn.keep(last)
            turn.overrule(last, status, end.error)
        self._note_end(end)
        self.state.status = self.kept_events.status = status

    def _note_end(self, end: RunEnd) -> None:
        """What a run says at its end stands on its last message."""
        row = next((row for row in reversed(self.rows) if row.role is Role.ASSISTANT), None)
        if row is None and end.needs_row:
            row = self.turn.last_assistant or self.turn.empty_row()
            row.status = end.status
            self.turn.keep(row)
        if row is not None and end.says_something:
            row.interrupts, row.outcome, row.result, row.usage = end.interrupts, end.outcome, end.result, end.usage
            self._merge_metadata(row, end.fields)
            self.turn.touch(row)

    def _last_row(self, status: MessageStatus) -> Row | None:
        """The row that shows how a run ended that did not end well; a failure is shown even where there is none."""
        for row in reversed(self.turn.rows):
            if row.role is Role.ASSISTANT and (row.kept or row.open):
                return row
        if status is MessageStatus.ERRORED:
            return self.turn.last_assistant or self.turn.empty_row()
        return None

    def _step_started(self, fields: Fields) -> None:
        name = identifier_of(fields.get("stepName"))
        if name is not None:
            self.turn.voice(_owner(fields)).steps.append(name)

    def _step_finished(self, fields: Fields) -> None:
        name, steps = identifier_of(fields.get("stepName")), self.turn.voice(_owner(fields)).steps
        if name in steps:
            del steps[len(steps) - 1 - steps[::-1].index(name)]

    def _messages_snapshot(self, fields: Fields) -> None:
        snapshot.merge(self.turn, list_of(fields.get("messages")), self._known, self._activities)

    # Text

    def _text_start(self, fields: Fields) -> Row:
        role, agui_id = fields.get("role"), identifier_of(fields.get("messageId"))
        speaker = _SPEAKERS.get(role, Role.ASSISTANT) if isinstance(role, str) else Role.ASSISTANT
        return self._begin_text(agui_id, speaker, fields)

    def _begin_text(self, agui_id: str | None, role: Role, fields: Fields) -> Row:
        if role is Role.ASSISTANT:
            self._thoughts.before_row(agui_id)
        row = self.turn.begin_text(agui_id, role, identifier_of(fields.get("name")), _owner(fields))
        self._thoughts.after_row(agui_id, row)
        self._merge_metadata(row, fields)
        return row

    def _text_content(self, fields: Fields) -> None:
        turn = self.turn
        agui_id = identifier_of(fields.get("messageId"))
        row = turn.voice(_owner(fields)).last_text if agui_id is None else turn.row_of(agui_id)
        if row is None or not row.open:
            row = self._begin_text(agui_id, Role.ASSISTANT if row is None else row.role, fields)
        elif "metadata" in fields:
            self._merge_metadata(row, fields)
        turn.say(row, text_of(fields.get("delta")))

    def _text_end(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        row = self.turn.voice(_owner(fields)).last_text if agui_id is None else self.turn.row_of(agui_id)
        if row is not None:
            self._merge_metadata(row, fields)
            if row.open:
                self.turn.end_text(row)

    def _text_chunk(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        row = self._lanes.follow("text", agui_id, fields)
        if not isinstance(row, Row) or not row.open:
            last = self.turn.voice(_owner(fields)).last_text
            if agui_id is None and last is not None:
                fields = {**fields, "messageId": last.agui_id}
            row = self._text_start(fields)
            self._lanes.begin("text", row, fields)
        else:
            row.name = identifier_of(fields.get("name")) or row.name
            self._merge_metadata(row, fields)
        self.turn.say(row, text_of(fields.get("delta")))

    # Calls

    def _call_start(self, fields: Fields) -> Call:
        agui_id = identifier_of(fields.get("toolCallId"))
        name, parent = text_of(fields.get("toolCallName")), identifier_of(fields.get("parentMessageId"))
        self._thoughts.before_row(agui_id)
        call = self.turn.begin_call(agui_id, name, parent, _owner(fields))
        self._thoughts.after_row(agui_id, call)
        self._thoughts.after_row(parent, call.row)
        self._merge_metadata(call, fields)
        return call

    def _call_args(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("toolCallId"))
        call = self.turn.call_of(agui_id, _owner(fields))
        if call is None:
            self.turn.wait_for_call(agui_id, lambda call: self._argue(call, fields))
        else:
            self._argue(call, fields)

    def _argue(self, call: Call, fields: Fields) -> None:
        self.turn.argue(call, text_of(fields.get("delta")))
        self._merge_metadata(call, fields)

    def _call_end(self, fields: Fields) -> None:
        """Nothing ends: a call is open until its result is there, or until the run ends."""
        call = self.turn.call_of(identifier_of(fields.get("toolCallId")), _owner(fields))
        if call is not None:
            self._merge_metadata(call, fields)

    def _call_chunk(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("toolCallId"))
        call = self._lanes.follow("call", agui_id, fields)
        if not isinstance(call, Call):
            if agui_id is None and not fields.get("toolCallName"):
                self.turn.stray += 1
                return
            call = self._call_start(fields)
            self._lanes.begin("call", call, fields)
        else:
            self.turn.name_call(call, text_of(fields.get("toolCallName")))
            self._merge_metadata(call, fields)
        self.turn.argue(call, text_of(fields.get("delta")))

    def _call_result(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("toolCallId"))
        call = self.turn.call_of(agui_id, _owner(fields))
        if call is None:
            self.turn.wait_for_call(agui_id, lambda call: self._answer(call, fields))
        else:
            self._answer(call, fields)

    def _answer(self, call: Call, fields: Fields) -> None:
        content, parts = text_and_parts(fields.get("content"))
        result_id = identifier_of(fields.get("messageId"))
        self.turn.answer(call, content, result_id, error_of(fields.get("error")), parts)
        self._merge_metadata(call, fields)

    # Reasoning

    def _reasoning_phase(self, fields: Fields) -> None:
        agui_id, title = identifier_of(fields.get("messageId")), identifier_of(fields.get("title"))
        self._thoughts.begin_phase(agui_id, title, _owner(fields))

    def _reasoning_phase_end(self, fields: Fields) -> None:
        self._thoughts.end_phase(identifier_of(fields.get("messageId")), _owner(fields))

    def _reasoning_start(self, fields: Fields) -> Reasoning:
        reasoning = self._thoughts.begin(identifier_of(fields.get("messageId")), _owner(fields))
        self._merge_metadata(reasoning, fields)
        return reasoning

    def _reasoning_content(self, fields: Fields) -> None:
        reasoning = self._thoughts.go_on(identifier_of(fields.get("messageId")), _owner(fields))
        self._merge_metadata(reasoning, fields)
        self.turn.think(reasoning, text_of(fields.get("delta")))

    def _reasoning_end(self, fields: Fields) -> None:
        reasoning = self._thoughts.end(identifier_of(fields.get("messageId")), _owner(fields))
        if reasoning is not None:
            self._merge_metadata(reasoning, fields)

    def _reasoning_chunk(self, fields: Fields) -> None:
        reasoning = self._lanes.follow("reasoning", identifier_of(fields.get("messageId")), fields)
        if not isinstance(reasoning, Reasoning) or reasoning.status is not MessageStatus.ACTIVE:
            reasoning = self._reasoning_start(fields)
            self._lanes.begin("reasoning", reasoning, fields)
        else:
            self._merge_metadata(reasoning, fields)
        self.turn.think(reasoning, text_of(fields.get("delta")))

    def _encrypted_value(self, fields: Fields) -> None:
        entity, value = identifier_of(fields.get("entityId")), identifier_of(fields.get("encryptedValue"))
        if entity is not None and value is not None:
            self._thoughts.seal(fields.get("subtype"), entity, value, _owner(fields))

    # What is beside the talk

    def _activity_snapshot(self, fields: Fields) -> None:
        agui_id, kind = identifier_of(fields.get("messageId")), text_of(fields.get("activityType"))
        replace = fields.get("replace") is not False
        row = self._activities.show(agui_id, kind, fields.get("content"), replace=replace, owner=_owner(fields))
        self._merge_metadata(row, fields)

    def _activity_delta(self, fields: Fields) -> None:
        agui_id, kind = identifier_of(fields.get("messageId")), text_of(fields.get("activityType"))
        row = self._activities.change(agui_id, kind, list_of(fields.get("patch")))
        if row is not None:
            self._merge_metadata(row, fields)

    def _state_snapshot(self, fields: Fields) -> None:
        self.state.replace(fields.get("snapshot"))
        self.turn.dirty.setdefault(self.state, self.turn.now)

    def _state_delta(self, fields: Fields) -> None:
        if self.state.change(list_of(fields.get("delta"))):
            self.turn.dirty.setdefault(self.state, self.turn.now)

    def _subagent_finished(self, fields: Fields) -> None:
        owner = self._subagents.finish(fields)
        if owner is not None:
            self._end_voice(owner, MessageStatus.COMPLETE, None)

    def _subagent_failed(self, fields: Fields) -> None:
        failed = self._subagents.fail(fields)
        if failed is not None:
            owner, error = failed
            self._end_voice(owner, MessageStatus.ERRORED, error)

    def _end_voice(self, owner: str, status: MessageStatus, error: str | None) -> None:
        """A subagent says no more. Its calls may yet be answered, unless it failed."""
        for row in self.turn.rows:
            for call in row.calls:
                if error and call.subagent_run_id == owner and call.status is MessageStatus.ACTIVE:
                    call.status, call.error = status, error
                    self.turn.touch(row)
            if row.subagent_run_id == owner and row.role is not Role.ACTIVITY:
                self.turn.end(row, status, error)
        self._thoughts.end_all(owner, status, error)

    def _merge_metadata(self, record: Row | Call | Reasoning, fields: Fields) -> None:
        metadata = fields.get("metadata")
        if isinstance(metadata, Mapping) and metadata:
            record.metadata = merged(record.metadata, plain(metadata))
            self.turn.touch_row_of(record)

    def _note_only(self, fields: Fields) -> None:
        """Events that end chunk lanes and change nothing else."""


def _owner(fields: Fields) -> str | None:
    owner = fields.get("subagentRunId")
    return None if owner is None else identifier_of(owner)


_STEPS: dict[str, Callable[[Fold, Fields], object]] = {
    "RUN_STARTED": Fold._note_only,
    "RUN_FINISHED": Fold._run_finished,
    "RUN_ERROR": Fold._run_error,
    "STEP_STARTED": Fold._step_started,
    "STEP_FINISHED": Fold._step_finished,
    "TEXT_MESSAGE_START": Fold._text_start,
    "TEXT_MESSAGE_CONTENT": Fold._text_content,
    "TEXT_MESSAGE_END": Fold._text_end,
    "TEXT_MESSAGE_CHUNK": Fold._text_chunk,
    "TOOL_CALL_START": Fold._call_start,
    "TOOL_CALL_ARGS": Fold._call_args,
    "TOOL_CALL_END": Fold._call_end,
    "TOOL_CALL_RESULT": Fold._call_result,
    "TOOL_CALL_CHUNK": Fold._call_chunk,
    "REASONING_START": Fold._reasoning_phase,
    "REASONING_END": Fold._reasoning_phase_end,
    "REASONING_MESSAGE_START": Fold._reasoning_start,
    "REASONING_MESSAGE_CONTENT": Fold._reasoning_content,
    "REASONING_MESSAGE_END": Fold._reasoning_end,
    "REASONING_MESSAGE_CHUNK": Fold._reasoning_chunk,
    "REASONING_ENCRYPTED_VALUE": Fold._encrypted_value,
    "THINKING_START": Fold._reasoning_phase,
    "THINKING_END": Fold._reasoning_phase_end,
    "THINKING_TEXT_MESSAGE_START": Fold._reasoning_start,
    "THINKING_TEXT_MESSAGE_CONTENT": Fold._reasoning_content,
    "THINKING_TEXT_MESSAGE_END": Fold._reasoning_end,
    "MESSAGES_SNAPSHOT": Fold._messages_snapshot,
    "ACTIVITY_SNAPSHOT": Fold._activity_snapshot,
    "ACTIVITY_DELTA": Fold._activity_delta,
    "STATE_SNAPSHOT": Fold._state_snapshot,
    "STATE_DELTA": Fold._state_delta,
    "CUSTOM": Fold._note_only,
    "SUBAGENT_STARTED": lambda fold, fields: fold._subagents.start(fields),
    "SUBAGENT_FINISHED": Fold._subagent_finished,
    "SUBAGENT_ERROR": Fold._subagent_failed,
}

FOLDED_TYPES = frozenset(_STEPS)
