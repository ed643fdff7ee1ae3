"""From stored messages to the AG-UI messages that an agent is given. Pure; the stored record is never changed by it."""

import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from ag_ui.core import FunctionCall, UserMessage
from ag_ui.core import ToolCall as AGUIToolCall

from threadkeep.chat_history.ag_ui.replayed import CLASS_OF_ROLE, ExtendedBaseMessage
from threadkeep.chat_history.constants import Role
from threadkeep.chat_history.models import Message, Reasoning, ToolCall
from threadkeep.chat_history.unanswered import completed, is_answered

T = TypeVar("T")
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def translate_messages(messages: Sequence[Message]) -> list[ExtendedBaseMessage]:
    """Stored messages as AG-UI history.

    Each message comes first (an assistant one with its tool calls), then a tool message for each of its calls, then a
    reasoning message for each of its reasonings; messages in the order of `timestamp`, what is in them in the order
    of `created_at`. In place of an empty result stands `Completed NAME`. Activities are no part of the history.

    What model providers do not accept passes as it is stored; see `repair_messages`.

    Where two messages have one AG-UI id (agents reuse them in later runs), the later one goes by its uuid: agents
    that keep messages by id would lose one of them.

    Args:
        messages: what `get_chat_messages` returned.
    """
    history: list[ExtendedBaseMessage] = []
    taken: set[str] = set()
    for message in _in_order(messages, "timestamp"):
        if message.role == "activity":
            continue
        calls = _in_order(message.tool_calls, "created_at")
        agui_id = message.agui_id if message.agui_id and message.agui_id not in taken else str(message.message_uuid)
        taken.add(agui_id)
        history.append(_message(message, agui_id, calls))
        history.extend(_result(call, message) for call in calls)
        history.extend(_reasoning(step, message) for step in _in_order(message.reasonings, "created_at"))
    return history


def _message(message: Message, agui_id: str, calls: Sequence[ToolCall]) -> ExtendedBaseMessage:
    content: Any = message.content
    if message.parts and message.role == Role.USER:
        content = _parts(message.parts)
    return CLASS_OF_ROLE.get(message.role, ExtendedBaseMessage)(
        id=agui_id,
        role=message.role,
        content=content,
        name=message.name or None,
        encrypted_value=message.encrypted_value,
        tool_calls=[_call(call) for call in calls] or None,
        tool_call_id=agui_id if message.role == Role.TOOL else None,
        in_progress=message.in_progress,
        status=message.status,
        error=message.error,
        uuid=message.message_uuid,
    )


def _call(call: ToolCall) -> AGUIToolCall:
    return AGUIToolCall(
        id=call.agui_id or str(call.uuid),
        function=FunctionCall(name=call.name, arguments=call.arguments),
        encrypted_value=call.encrypted_value,
    )


def _result(call: ToolCall, message: Message) -> ExtendedBaseMessage:
    parts: list[Any] | None = getattr(call, "parts", None)
    return CLASS_OF_ROLE[Role.TOOL](
        id=call.tool_call_id or str(call.uuid),
        role=Role.TOOL.value,
        content=_parts(parts) if parts else call.content or completed(call.name),
        tool_call_id=call.agui_id or str(call.uuid),
        in_progress=call.in_progress,
        status=call.status,
        error=call.error,
        uuid=call.uuid,
        belongs_to=message.message_uuid,
        is_stand_in=not (parts or is_answered(call)),
    )


def _reasoning(step: Reasoning, message: Message) -> ExtendedBaseMessage:
    return CLASS_OF_ROLE[Role.REASONING](
        id=step.agui_id or str(step.uuid),
        role=Role.REASONING.value,
        content=step.content,
        encrypted_value=step.encrypted_value,
        in_progress=step.in_progress,
        status=step.status,
        error=step.error,
        uuid=step.uuid,
        belongs_to=message.message_uuid,
    )


def _parts(parts: list[Any]) -> Any:
    """The parts as the protocol's own objects, or as they are where this release of it knows them no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return UserMessage.model_validate({"id": "-", "role": "user", "content": parts}).content
        except ValueError:
            return parts


def _in_order(items: Iterable[T], field: str) -> list[T]:
    return sorted(items, key=lambda item: _moment(getattr(item, field)))


def _moment(value: object) -> datetime:
    """What to sort by. A stored row may hold anything, and one without a zone is in UTC."""
    if not isinstance(value, datetime):
        return _EARLIEST
    return value if value.tzinfo else value.replace(tzinfo=UTC)
