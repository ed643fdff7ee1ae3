"""A change of one message, as a value: what is stored now can take it, and what is stored later again. Pure."""

from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from threadkeep.chat_history.models import Message, Reasoning, ToolCall

R = TypeVar("R", ToolCall, Reasoning)
Fields = dict[str, Any]


@dataclass(slots=True)
class MessageChange:
    """What is to be different: fields of the message, and its tool calls and reasonings by uuid, new ones whole."""

    fields: Fields = field(default_factory=dict)
    tool_calls: dict[UUID, ToolCall | Fields] = field(default_factory=dict)
    reasonings: dict[UUID, Reasoning | Fields] = field(default_factory=dict)

    def applied_to(self, message: Message) -> Fields:
        """The fields to set on a message."""
        fields = _with_rests(message, self.fields)
        if self.tool_calls:
            fields["tool_calls"] = _applied(message.tool_calls, self.tool_calls)
        if self.reasonings:
            fields["reasonings"] = _applied(message.reasonings, self.reasonings)
        return fields

    def add_tool_call(self, call: ToolCall) -> None:
        self.tool_calls[call.uuid] = call

    def add_reasoning(self, step: Reasoning) -> None:
        self.reasonings[step.uuid] = step

    def update_tool_call(self, uuid: UUID, fields: Fields) -> None:
        self.tool_calls[uuid] = _updated(self.tool_calls.get(uuid, {}), fields)

    def update_reasoning(self, uuid: UUID, fields: Fields) -> None:
        self.reasonings[uuid] = _updated(self.reasonings.get(uuid, {}), fields)


def change_to(message: Message) -> MessageChange:
    """The change that makes of a stored message what `message` is, a new one that was stored by an earlier try."""
    change = MessageChange({name: getattr(message, name) for name in type(message).model_fields if name != "rests"})
    for call in change.fields.pop("tool_calls"):
        change.add_tool_call(call)
    for step in change.fields.pop("reasonings"):
        change.add_reasoning(step)
    return change


def _updated(present: R | Fields, fields: Fields) -> R | Fields:
    return {**present, **fields} if isinstance(present, dict) else present.model_copy(update=fields)


def _applied(items: list[R], changes: dict[UUID, R | Fields]) -> list[R]:
    """The items after the changes. A new one that is there already, as a write was repeated, is not added twice."""
    result: list[R] = []
    for item in items:
        change = changes.get(item.uuid, {})
        result.append(item.model_copy(update=_with_rests(item, change)) if isinstance(change, dict) else change)
    present = {item.uuid for item in items}
    new = [change for uuid, change in changes.items() if uuid not in present and not isinstance(change, dict)]
    return result + new


def _with_rests(record: Message | ToolCall | Reasoning, fields: Fields) -> Fields:
    """The fields to set: a text that is replaced has its stored rest replaced with it."""
    if record.rests and not fields.keys().isdisjoint(record.rests):
        fields = {**fields, "rests": {name: rest for name, rest in record.rests.items() if name not in fields} or None}
    return dict(fields)
