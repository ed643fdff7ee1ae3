"""Tool calls without a result: which they are, and what stands in for the result at a replay. Pure."""

from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.models import ToolCall

_NO_RESULT = {
    MessageStatus.INTERRUPTED: "{name} was interrupted before it gave a result",
    MessageStatus.ERRORED: "{name} failed before it gave a result",
    MessageStatus.ACTIVE: "{name} has given no result yet",
}


def is_answered(call: ToolCall) -> bool:
    """Whether a stored call has a result, be it an empty one."""
    # Other writers fill `tool_call_id` with the call's own id from its beginning.
    return bool(call.content or call.tool_call_id not in (None, call.agui_id))


def completed(name: str) -> str:
    """What a replay says in place of an empty result."""
    return f"Completed {name}"


def stand_in(name: str, status: object) -> str:
    """What a repaired replay says in place of a result that there is none of, by the status of the call."""
    text = _NO_RESULT.get(status) if isinstance(status, MessageStatus) else None
    return completed(name) if text is None else text.format(name=name)


def is_stand_in(text: str, name: str) -> bool:
    """Whether a result that comes back from outside is what a replay has made up."""
    return text == completed(name) or text in (each.format(name=name) for each in _NO_RESULT.values())
