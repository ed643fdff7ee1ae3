"""The fold: AG-UI's events into rows. A pure state machine; time is an argument, nothing is read or written."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from threadkeep.chat_history.ag_ui import snapshot
from threadkeep.chat_history.ag_ui.lanes import Lanes
from threadkeep.chat_history.ag_ui.lenient import identifier_of, list_of, mapping_of, text_of
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row
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
        carried: calls of earlier runs that still wait for their result.
        known: messages stored before this run, so that a MESSAGES_SNAPSHOT does not bring them again.
    """

    def __init__(
        self,
        now: datetime,
        *,
        client_tools: Collection[str] = (),
        carried: Iterable[Call] = (),
        known: snapshot.Known = snapshot.NOTHING_KNOWN,
    ) -> None:
        self.turn = Turn(now, carried)
        self.status: MessageStatus | None = None
        self.applied = 0
        self._client_tools = frozenset(client_tools)
        self._known = known
        self._lanes = Lanes(self.turn)
        self._steps: list[str] = []
        self._phase: tuple[str | None, str | None] = (None, None)
        self._reasonings: dict[str | None, Reasoning] = {}
        self._last_reasoning: Reasoning | None = None

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

    def finish(self, status: MessageStatus, at: datetime, error: str | None = None) -> None:
        """End the run: what is open gets `status`, and the last assistant row too where the run did not end well."""
        if self.status is None:
            self.turn.now = at
            self._finish(status, error)

    # The run

    def _run_finished(self, fields: Fields) -> None:
        outcome = mapping_of(fields.get("outcome"))
        if outcome.get("type") == "cancelled":
            self._finish(MessageStatus.INTERRUPTED)
            return
        waiting = {identifier_of(each) for each in list_of(outcome.get("pendingToolCallIds"))}
        interrupts = list_of(outcome.get("interrupts")) if outcome.get("type") == "interrupt" else ()
        self._finish(
            MessageStatus.COMPLETE,
            waits=lambda call: bool(interrupts) or call.name in self._client_tools or call.agui_id in waiting,
        )
        if interrupts:
            row = self.turn.last_assistant or self.turn.empty_row()
            row.interrupts = list(interrupts)
            row.status = MessageStatus.COMPLETE
            self.turn.keep(row)

    def _run_error(self, fields: Fields) -> None:
        message, code = text_of(fields.get("message")) or "the run failed", text_of(fields.get("code"))
        self._finish(MessageStatus.ERRORED, f"[{code}] {message}" if code else message)

    def _finish(
        self, status: MessageStatus, error: str | None = None, waits: Callable[[Call], bool] = lambda call: False
    ) -> None:
        turn = self.turn
        self.status = status
        turn.settle_alone()
        well = status is MessageStatus.COMPLETE
        last = None if well else self._last_row(status)
        for row in list(turn.rows):
            for call in row.calls:
                if call.status is MessageStatus.ACTIVE:
                    if well and waits(call):
                        call.awaiting = True
                    else:
                        call.status, call.error = status, error
                    turn.touch(row)
            for reasoning in row.reasonings:
                if reasoning.status is MessageStatus.ACTIVE:
                    reasoning.status, reasoning.error = status, error
                    turn.touch(row)
            turn.end(row, status, error)
        if last is not None:
            turn.keep(last)
            turn.overrule(last, status, error)

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
            self._steps.append(name)
            self.turn.step = name

    def _step_finished(self, fields: Fields) -> None:
        name = identifier_of(fields.get("stepName"))
        if name in self._steps:
            self._steps.reverse()
            self._steps.remove(name)
            self._steps.reverse()
        self.turn.step = self._steps[-1] if self._steps else None

    def _messages_snapshot(self, fields: Fields) -> None:
        snapshot.merge(self.turn, list_of(fields.get("messages")), self._known)

    # Text

    def _text_start(self, fields: Fields) -> Row:
        role = fields.get("role")
        return self.turn.begin_text(
            identifier_of(fields.get("messageId")),
            _SPEAKERS.get(role, Role.ASSISTANT) if isinstance(role, str) else Role.ASSISTANT,
            identifier_of(fields.get("name")),
        )

    def _text_content(self, fields: Fields) -> None:
        turn = self.turn
        agui_id = identifier_of(fields.get("messageId"))
        row = turn.last_text if agui_id is None else turn.row_of(agui_id)
        if row is None or not row.open:
            row = turn.begin_text(agui_id, Role.ASSISTANT if row is None else row.role, None)
        turn.say(row, text_of(fields.get("delta")))

    def _text_end(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        row = self.turn.last_text if agui_id is None else self.turn.row_of(agui_id)
        if row is not None and row.open:
            self.turn.end_text(row)

    def _text_chunk(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        row = self._lanes.follow("text", agui_id, fields)
        if not isinstance(row, Row) or not row.open:
            if agui_id is None and self.turn.last_text is not None:
                fields = {**fields, "messageId": self.turn.last_text.agui_id}
            row = self._text_start(fields)
            self._lanes.begin("text", row, fields)
        else:
            row.name = identifier_of(fields.get("name")) or row.name
        self.turn.say(row, text_of(fields.get("delta")))

    # Calls

    def _call_start(self, fields: Fields) -> Call:
        return self.turn.begin_call(
            identifier_of(fields.get("toolCallId")),
            text_of(fields.get("toolCallName")),
            identifier_of(fields.get("parentMessageId")),
        )

    def _call_args(self, fields: Fields) -> None:
        call = self.turn.call_of(identifier_of(fields.get("toolCallId")))
        if call is None:
            self.turn.stray += 1
        else:
            self.turn.argue(call, text_of(fields.get("delta")))

    def _call_end(self, fields: Fields) -> None:
        """Nothing to do: a call is open until its result is there, or until the run ends."""

    def _call_chunk(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("toolCallId"))
        call = self._lanes.follow("call", agui_id, fields)
        if not isinstance(call, Call):
            if agui_id is None:
                self.turn.stray += 1
                return
            call = self._call_start(fields)
            self._lanes.begin("call", call, fields)
        self.turn.argue(call, text_of(fields.get("delta")))

    def _call_result(self, fields: Fields) -> None:
        call = self.turn.call_of(identifier_of(fields.get("toolCallId")))
        if call is None:
            self.turn.stray += 1
            return
        self.turn.answer(
            call,
            text_of(fields.get("content")),
            identifier_of(fields.get("messageId")),
            identifier_of(fields.get("error")),
        )

    # Reasoning

    def _reasoning_phase(self, fields: Fields) -> None:
        self._phase = (identifier_of(fields.get("messageId")), identifier_of(fields.get("title")))

    def _reasoning_phase_end(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        for key, reasoning in self._reasonings.items():
            if agui_id is None or key == agui_id or reasoning is self._last_reasoning:
                self.turn.end_reasoning(reasoning)
        self._phase = (None, None)

    def _reasoning_start(self, fields: Fields) -> Reasoning:
        agui_id = identifier_of(fields.get("messageId")) or self._phase[0]
        before = self._reasonings.get(agui_id)
        if before is not None:
            self.turn.end_reasoning(before)
        reasoning = self.turn.begin_reasoning(agui_id, self._phase[1])
        self._reasonings[agui_id] = self._last_reasoning = reasoning
        return reasoning

    def _reasoning_content(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        reasoning = self._last_reasoning if agui_id is None else self._reasonings.get(agui_id)
        if reasoning is None or reasoning.status is not MessageStatus.ACTIVE:
            reasoning = self._reasoning_start(fields)
        self.turn.think(reasoning, text_of(fields.get("delta")))

    def _reasoning_end(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        reasoning = self._last_reasoning if agui_id is None else self._reasonings.get(agui_id)
        if reasoning is not None:
            self.turn.end_reasoning(reasoning)

    def _reasoning_chunk(self, fields: Fields) -> None:
        reasoning = self._lanes.follow("reasoning", identifier_of(fields.get("messageId")), fields)
        if not isinstance(reasoning, Reasoning) or reasoning.status is not MessageStatus.ACTIVE:
            reasoning = self._reasoning_start(fields)
            self._lanes.begin("reasoning", reasoning, fields)
        self.turn.think(reasoning, text_of(fields.get("delta")))

    def _encrypted_value(self, fields: Fields) -> None:
        entity = identifier_of(fields.get("entityId"))
        value = identifier_of(fields.get("encryptedValue"))
        if entity is None or value is None:
            return
        if fields.get("subtype") == "tool-call":
            call = self.turn.call_of(entity)
            if call is not None:
                call.encrypted_value = value
                self.turn.touch(call.row)
            return
        reasoning = self._reasonings.get(entity)
        row = self.turn.row_of(entity)
        if reasoning is None and row is not None:
            row.encrypted_value = value
            self.turn.touch(row)
            return
        if reasoning is None:
            reasoning = self._reasoning_start({"messageId": entity})
            self.turn.end_reasoning(reasoning)
        reasoning.encrypted_value = value
        self.turn.keep_reasoning(reasoning)

    def _note_only(self, fields: Fields) -> None:
        """Events that end chunk lanes and change nothing else."""


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
    "STATE_SNAPSHOT": Fold._note_only,
    "STATE_DELTA": Fold._note_only,
    "CUSTOM": Fold._note_only,
    "SUBAGENT_FINISHED": Fold._note_only,
    "SUBAGENT_ERROR": Fold._note_only,
}

FOLDED_TYPES = frozenset(_STEPS)
