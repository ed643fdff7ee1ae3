"""The rows of one run, and the rules by which text, calls, results and reasonings find theirs. Knows no events."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from threadkeep.chat_history.ag_ui.kept_events import KeptEvents
from threadkeep.chat_history.ag_ui.lenient import is_complete_json
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row, Subagent
from threadkeep.chat_history.ag_ui.thread_state import ThreadState
from threadkeep.chat_history.constants import MessageStatus, Role

_TICK = timedelta(microseconds=1)

Written = Row | ThreadState | KeptEvents
"""What the writer stores, each by itself."""


class Voice:
    """What one speaker of the run (the agent, or one of its subagents) has said last.

    `carrier` is a row that holds reasonings and will be the speaker's next message; `pending` are reasonings that
    wait for one; `steps` are the steps that are open.
    """

    __slots__ = ("carrier", "last_assistant", "last_call", "last_text", "name", "owner", "pending", "steps")

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.name: str | None = None
        self.last_assistant: Row | None = None
        self.last_text: Row | None = None
        self.last_call: Call | None = None
        self.carrier: Row | None = None
        self.pending: list[Reasoning] = []
        self.steps: list[str] = []

    @property
    def step(self) -> str | None:
        return self.steps[-1] if self.steps else None


class Turn:
    """How the rows of a run come about.

    1. A row for each message id, in order of first appearance. An id means something inside its run only.
    2. A call belongs to the row that its parent id names; else to the speaker's last assistant row as long as no call
       of that row has its result; else to a new row, which answers to the parent id from then on.
    3. Text that begins on an id whose row has a result opens a new row: a replay stays call, result, text.
    4. A reasoning belongs to the assistant row or call of its speaker that comes next. Only while the speaker has no
       assistant row at all is it certain that the next one will be new, so only then is a row made for it at once;
       in all other states it waits in `pending`.

    The agent itself is the voice None; each subagent has a voice of its own, so that those who talk at the same time
    do not get into each other's rows.

    `dirty` holds what differs from what was last taken, with the time since when; `born` and `ended`
    list what has newly come to be kept and which rows have newly ended, until somebody takes them.
    """

    def __init__(self, now: datetime, carried: Iterable[Call] = ()) -> None:
        self.rows: list[Row] = []
        self.dirty: dict[Written, datetime] = {}
        self.born: list[Row | Call | Reasoning] = []
        self.ended: list[Row] = []
        self.voices: dict[str | None, Voice] = {None: Voice(None)}
        self.stray = 0
        self.now = now
        self.last_assistant: Row | None = None
        self._stamp = now - _TICK
        self._newest_kept = self._stamp
        self._blank: list[Row] = []
        self._row_of: dict[str, Row] = {}
        self._call_of: dict[str, Call] = {}
        self._carried = {call.agui_id: call for call in carried if call.agui_id is not None}
        self._homeless: list[Subagent] = []
        self._early: dict[str, list[Callable[[Call], None]]] = {}

    @property
    def step(self) -> str | None:
        """The agent's own step that has begun last and not ended."""
        return self.voices[None].step

    @property
    def pending(self) -> list[Reasoning]:
        """The reasonings that wait for a row."""
        return [reasoning for voice in self.voices.values() for reasoning in voice.pending]

    def voice(self, owner: str | None) -> Voice:
        found = self.voices.get(owner)
        if found is None:
            found = self.voices[owner] = Voice(owner)
        return found

    def stamp(self) -> datetime:
        """The time of a new record: now, but always later than the one before."""
        self._stamp = max(self.now, self._stamp + _TICK)
        return self._stamp

    def row_of(self, agui_id: str | None) -> Row | None:
        return None if agui_id is None else self._row_of.get(agui_id)

    def call_of(self, agui_id: str | None, owner: str | None = None) -> Call | None:
        """A call of this run, or one of an earlier run that has no result; without an id, the speaker's last one."""
        if agui_id is None:
            last = self.voice(owner).last_call
            return last if last is not None and last.agui_id is None else None
        return self._call_of.get(agui_id) or self._carried.get(agui_id)

    def touch(self, row: Row, characters: int = 0) -> None:
        row.unsaved += characters
        if row.kept and row not in self.dirty:
            self.dirty[row] = self.now

    def touch_row_of(self, record: Row | Call | Reasoning) -> None:
        """Something of a message, a call or a reasoning has changed: its row is to be stored."""
        row = record if isinstance(record, Row) else record.row
        if row is not None:
            self.touch(row)

    def keep(self, row: Row) -> None:
        """There is something to keep in `row`.

        Rows are stored in order, so those before it that may yet speak are kept with it; one that was passed over
        as blank comes last.
        """
        if not row.kept:
            blank = self._blank
            ahead = blank[: blank.index(row)]
            kept = [earlier for earlier in ahead if earlier.open] + [row]
            if self._newest_kept > row.timestamp:
                self.rows.remove(row)
                self.rows.append(row)
                row.timestamp = self.stamp()
            for each in kept:
                blank.remove(each)
                each.kept = True
                self._newest_kept = max(self._newest_kept, each.timestamp)
                self.born.append(each)
                self.touch(each)
        self.touch(row)

    # Text

    def begin_text(self, agui_id: str | None, role: Role, name: str | None, owner: str | None = None) -> Row:
        """A text block begins on a message id."""
        voice = self.voice(owner)
        row = self.row_of(agui_id)
        if row is None or row.results:
            if row is not None:
                self.end_text(row)
            row = self.new_row(agui_id, role, voice)
        row.open = row.spoken = True
        row.name = name or row.name
        voice.last_text = row
        if row.status is not MessageStatus.ACTIVE:
            row.status = MessageStatus.ACTIVE
            self.touch(row)
        if row.role is Role.ASSISTANT:
            self._settle(voice, row)
        return row

    def say(self, row: Row, delta: str) -> None:
        if delta:
            row.content.append(delta)
            if not row.kept:
                self.keep(row)
            self.touch(row, len(delta))

    def end_text(self, row: Row) -> None:
        row.open = False
        self.end(row, MessageStatus.COMPLETE)

    # Calls

    def begin_call(self, agui_id: str | None, name: str, parent: str | None, owner: str | None = None) -> Call:
        """A call begins. A second beginning of the same call changes nothing, after its result it is another call."""
        voice = self.voice(owner)
        call = self.call_of(agui_id) if agui_id is not None else None
        if call is not None and not call.answered and self._is_repeated(call, name):
            if not call.name:
                self.name_call(call, name)
            return call
        row = self._row_for_call(parent, voice)
        call = voice.last_call = Call(agui_id, name, self.stamp(), row, subagent_run_id=owner)
        row.calls.append(call)
        if agui_id is not None:
            self._call_of[agui_id] = call
        self._settle(voice, row)
        self.keep(row)
        self.born.append(call)
        if not row.spoken:
            row.status = MessageStatus.ACTIVE
        for come in self._early.pop(agui_id or "", ()):
            come(call)
        return call

    def wait_for_call(self, agui_id: str | None, come: Callable[[Call], None]) -> None:
        """Something came for a call that has not begun: it comes when the call does, in this run or never."""
        if agui_id is None:
            self.stray += 1
        else:
            self._early.setdefault(agui_id, []).append(come)

    def name_call(self, call: Call, name: str) -> None:
        """The name of a call that began without one."""
        if name and not call.name:
            call.name = name
            self.touch(call.row)

    def argue(self, call: Call, delta: str) -> None:
        """More of a call's arguments; some producers send the whole once more when they have streamed it."""
        if not delta or call.sealed:
            return
        if len(delta) == call.arguments.length and delta == str(call.arguments) and is_complete_json(delta):
            return
        call.arguments.append(delta)
        self.touch(call.row, len(delta))

    def answer(
        self,
        call: Call,
        content: str,
        result_id: str | None,
        error: str | None = None,
        parts: list[Any] | None = None,
    ) -> None:
        """The result of a call. The first one stands, unless it was empty."""
        if call.answered and (call.content or call.parts or not (content or parts)):
            return
        row = call.row
        call.answered = row.results = True
        call.awaiting = False
        call.content, call.parts = content, parts
        call.result_id = result_id or call.result_id
        call.error = error
        call.status = MessageStatus.ERRORED if error else MessageStatus.COMPLETE
        self.touch(row, len(content))
        if not row.spoken and all(each.answered for each in row.calls):
            self.end(row, MessageStatus.COMPLETE)

    # Reasonings and subagents

    def begin_reasoning(self, agui_id: str | None, name: str | None, owner: str | None = None) -> Reasoning:
        return Reasoning(agui_id, name, self.stamp(), subagent_run_id=owner)

    def think(self, reasoning: Reasoning, delta: str) -> None:
        if delta:
            self.keep_reasoning(reasoning)
            reasoning.content.append(delta)
            if reasoning.row is not None:
                self.touch(reasoning.row, len(delta))

    def keep_reasoning(self, reasoning: Reasoning) -> None:
        """There is something to keep in `reasoning`: give it its row, or let it wait for one."""
        voice = self.voice(reasoning.subagent_run_id)
        if reasoning.row is not None:
            self.touch(reasoning.row)
        elif reasoning not in voice.pending:
            last = voice.last_assistant
            if last is None:
                last = voice.carrier = self.new_row(None, Role.ASSISTANT, voice)
            if last is voice.carrier or (last.open and not last.content and not last.calls):
                self._attach(reasoning, last)
            else:
                voice.pending.append(reasoning)

    def end_reasoning(self, reasoning: Reasoning) -> None:
        if reasoning.status is MessageStatus.ACTIVE:
            reasoning.status = MessageStatus.COMPLETE
            if reasoning.row is not None:
                self.touch(reasoning.row)

    def house(self, subagent: Subagent, row: Row | None) -> None:
        """A subagent is shown in the row that it works for; without one, in the next row of the run."""
        if row is None:
            self._homeless.append(subagent)
        else:
            subagent.row = row
            row.subagents.append(subagent)
            self.keep(row)

    def settle_alone(self) -> None:
        """Nothing comes any more: what still waits for a row gets one of its own."""
        for voice in list(self.voices.values()):
            if voice.pending:
                self._settle(voice, self.new_row(None, Role.ASSISTANT, voice))
        if self._homeless:
            self._settle(self.voices[None], self.last_assistant or self.empty_row())
        self.stray += sum(map(len, self._early.values()))
        self._early.clear()

    # Endings

    def end(self, row: Row, status: MessageStatus, error: str | None = None) -> None:
        """The row has ended; what has ended before keeps its status."""
        if row.status is MessageStatus.ACTIVE:
            self.overrule(row, status, error)

    def overrule(self, row: Row, status: MessageStatus, error: str | None = None) -> None:
        row.open = False
        if row.status is status and row.error == error:
            return
        row.status, row.error = status, error
        self.touch(row)
        if row.kept:
            self.ended.append(row)

    def empty_row(self) -> Row:
        """A row for a run that has nothing else to carry its end."""
        row = self.new_row(None, Role.ASSISTANT, self.voices[None])
        self.keep(row)
        return row

    def alias(self, agui_id: str, row: Row) -> None:
        """The row answers to this id as well."""
        self._row_of.setdefault(agui_id, row)

    def new_row(self, agui_id: str | None, role: Role, voice: Voice) -> Row:
        if role is Role.ASSISTANT and voice.carrier is not None:
            row = voice.carrier
            voice.carrier = None
            row.agui_id, row.step = agui_id, voice.step or row.step
            self.touch(row)
        else:
            row = Row(agui_id, role, self.stamp(), voice.step, voice.name, subagent_run_id=voice.owner)
            self.rows.append(row)
            self._blank.append(row)
            if role is Role.ASSISTANT:
                self.last_assistant = voice.last_assistant = row
        if agui_id is not None and role is not Role.ACTIVITY:
            self._row_of[agui_id] = row
        return row

    def _is_repeated(self, call: Call, name: str) -> bool:
        """Whether a beginning is that of a call that is open, not another one that uses its id in a later run."""
        return (call.awaiting and call.name == name) if call.sealed else True

    def _row_for_call(self, parent: str | None, voice: Voice) -> Row:
        named = self.row_of(parent)
        if named is not None and named.role is Role.ASSISTANT:
            return named
        last = voice.last_assistant
        if last is not None and not last.results and last is not voice.carrier:
            return last
        return self.new_row(parent, Role.ASSISTANT, voice)

    def _settle(self, voice: Voice, row: Row) -> None:
        if voice.pending:
            waiting, voice.pending = voice.pending, []
            for reasoning in waiting:
                self._attach(reasoning, row)
        if self._homeless:
            homeless, self._homeless = self._homeless, []
            for subagent in homeless:
                self.house(subagent, row)

    def _attach(self, reasoning: Reasoning, row: Row) -> None:
        reasoning.row = row
        row.reasonings.append(reasoning)
        self.keep(row)
        self.born.append(reasoning)
        self.touch(row, reasoning.content.length)
