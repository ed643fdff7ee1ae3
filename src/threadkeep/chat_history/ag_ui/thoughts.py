"""Reasonings of one run: phases, steps, and the encrypted values that providers want back. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row
from threadkeep.chat_history.ag_ui.turn import Turn
from threadkeep.chat_history.constants import MessageStatus

Fields = Mapping[str, Any]
_NO_PHASE = (None, None)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """An encrypted value that came before what it belongs to."""

    value: str
    owner: str | None
    of_call: bool


class Thoughts:
    """The reasonings of a run, by id; those without an id are the speaker's last one.

    The older THINKING_* events have no ids at all. Encrypted values name a reasoning, a message or a call; one that
    comes before it waits for it. One that names nothing that ever comes is a reasoning without text: it goes to the
    next assistant row like any other, for the provider wants it there.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._phases: dict[str | None, tuple[str | None, str | None]] = {}
        self._by_id: dict[str, Reasoning] = {}
        self._last: dict[str | None, Reasoning] = {}
        self._sealed: dict[str, _Sealed] = {}

    def begin_phase(self, agui_id: str | None, title: str | None, owner: str | None) -> None:
        self._phases[owner] = (agui_id, title)

    def end_phase(self, agui_id: str | None, owner: str | None) -> None:
        """The phase's reasonings end: the one under its id, and whatever its speaker thought last."""
        for reasoning in (self._last.get(owner), self._by_id.get(agui_id or "")):
            if reasoning is not None:
                self._turn.end_reasoning(reasoning)
        self._phases.pop(owner, None)

    def begin(self, agui_id: str | None, owner: str | None) -> Reasoning:
        """A step begins; the one before under its id ends."""
        phase, title = self._phases.get(owner, _NO_PHASE)
        agui_id = agui_id or phase
        before = self._by_id.get(agui_id) if agui_id is not None else self._last.get(owner)
        if before is not None:
            self._turn.end_reasoning(before)
        reasoning = self._last[owner] = self._turn.begin_reasoning(agui_id, title, owner)
        if agui_id is not None:
            self._by_id[agui_id] = reasoning
            self._unseal(agui_id, reasoning)
        return reasoning

    def go_on(self, agui_id: str | None, owner: str | None) -> Reasoning:
        """The step that more text is for; a new one where none is open."""
        reasoning = self._of(agui_id, owner)
        if reasoning is None or reasoning.status is not MessageStatus.ACTIVE:
            reasoning = self.begin(agui_id, owner)
        return reasoning

    def end(self, agui_id: str | None, owner: str | None) -> Reasoning | None:
        """End a reasoning, if there is one; which it was."""
        reasoning = self._of(agui_id, owner)
        if reasoning is not None:
            self._turn.end_reasoning(reasoning)
        return reasoning

    def end_all(self, owner: str, status: MessageStatus, error: str | None) -> None:
        """A subagent has ended, and with it what it was thinking."""
        for reasoning in {id(each): each for each in (*self._by_id.values(), *self._last.values())}.values():
            if reasoning.subagent_run_id == owner and reasoning.status is MessageStatus.ACTIVE:
                self._turn.end_reasoning(reasoning)
                reasoning.status, reasoning.error = status, error

    def seal(self, subtype: Any, entity: str, value: str, owner: str | None) -> None:
        """An encrypted value comes for a reasoning, a message or a call."""
        of_call = subtype == "tool-call"
        target = self._target(entity, of_call)
        if target is None:
            self._sealed[entity] = _Sealed(value, owner, of_call)
        else:
            self._put(target, value)

    def before_row(self, agui_id: str | None) -> None:
        """An assistant message or a call under this id is about to begin: values that wait for nothing go with it."""
        if self._sealed:
            for entity, sealed in [*self._sealed.items()]:
                if not sealed.of_call and entity != agui_id:
                    self._make_reasoning(entity, sealed)

    def after_row(self, agui_id: str | None, record: Row | Call) -> None:
        """The message or the call has begun: a value that waited for it is its own."""
        if self._sealed and agui_id is not None:
            self._unseal(agui_id, record)

    def settle(self) -> None:
        """Nothing comes any more. A value for a call that never came is of no use to anybody."""
        self._turn.stray += sum(sealed.of_call for sealed in self._sealed.values())
        self.before_row(None)

    def _of(self, agui_id: str | None, owner: str | None) -> Reasoning | None:
        return self._last.get(owner) if agui_id is None else self._by_id.get(agui_id)

    def _target(self, entity: str, of_call: bool) -> Reasoning | Row | Call | None:
        call, row = self._turn.call_of(entity), self._turn.row_of(entity)
        return call or self._by_id.get(entity) or row if of_call else self._by_id.get(entity) or row or call

    def _unseal(self, entity: str, record: Reasoning | Row | Call) -> None:
        sealed = self._sealed.pop(entity, None)
        if sealed is not None:
            self._put(record, sealed.value)

    def _make_reasoning(self, entity: str, sealed: _Sealed) -> None:
        del self._sealed[entity]
        reasoning = self._turn.begin_reasoning(entity, None, sealed.owner)
        self._by_id[entity] = reasoning
        self._turn.end_reasoning(reasoning)
        self._put(reasoning, sealed.value)

    def _put(self, record: Reasoning | Row | Call, value: str) -> None:
        record.encrypted_value = value
        if isinstance(record, Reasoning):
            self._turn.keep_reasoning(record)
        else:
            self._turn.touch(record if isinstance(record, Row) else record.row)
