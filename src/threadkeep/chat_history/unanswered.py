"""Tool calls without a result: which they are, and what stands in for the result at a replay. Pure."""

from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.models import ToolCall

_NO_RESULT: dict[MessageStatus | None, str] = {
    MessageStatus.INTERRUPTED: "was interrupted before it gave a result",
    MessageStatus.ERRORED: "failed before it gave a result",
    MessageStatus.ACTIVE: "has given no result yet",
}


def is_answered(call: ToolCall) -> bool:
    """Whether a stored call has a result, be it an empty one."""
    # Other writers fill `tool_call_id` with the call's own id from its beginning.
    return bool(call.content or call.tool_call_id not in (None, call.agui_id))


def completed(name: str) -> str:
    """What a replay says in place of an empty result."""
    return f"Completed {name}"


def stand_in(name: str, status: MessageStatus | None) -> str:
    """What a repaired replay says in place of a result that there is none of, by the status of the call."""
    return completed(name) if status == MessageStatus.COMPLETE else _text(status, name)


def is_stand_in(text: str, name: str) -> bool:
    """Whether a result that comes back from outside is what a replay has made up."""
    return text == completed(name) or any(text == _text(status, name) for status in (None, *MessageStatus))


def _text(status: MessageStatus | None, name: str) -> str:
    return f"{name} {_NO_RESULT.get(status, 'gave no result')}"
