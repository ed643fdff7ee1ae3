"""What an earlier opening of a run saw, as far as the run itself has changed it since. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.lenient import identifier_of
from threadkeep.chat_history.ag_ui.wire import event_fields, event_type
from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.models import Message, ToolCall
from threadkeep.chat_history.unanswered import is_answered

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Again:
    """A run that was opened before: the fields of its events that came since, as far as they concern earlier runs.

    `results` are its TOOL_CALL_RESULTs, `begun` the ids of the calls that it began.
    """

    results: Sequence[Fields] = ()
    begun: frozenset[str] = frozenset()


def again_with(events: Sequence[object]) -> Again:
    """What the events of a run say of calls."""
    results: list[Fields] = []
    begun: set[str] = set()
    for event in events:
        kind = event_type(event)
        if kind == "TOOL_CALL_RESULT":
            results.append(event_fields(event))
        elif kind in ("TOOL_CALL_START", "TOOL_CALL_CHUNK"):
            begun.add(identifier_of(event_fields(event).get("toolCallId")) or "")
    return Again(results, frozenset(begun))


def answered_before(history: Sequence[Message], messages: Sequence[Fields], again: Again) -> list[Message]:
    """The history with the calls unanswered that the run has answered: it has to find them as they were.

    What a tool message of the input answers was answered when the run began.
    """
    by_client = {identifier_of(each.get("toolCallId")) for each in messages if each.get("role") == Role.TOOL}
    results = [each for each in again.results if identifier_of(each.get("toolCallId")) not in by_client]
    if not results:
        return list(history)
    return [
        message.model_copy(update={"tool_calls": [_as_it_was(call, results, again) for call in message.tool_calls]})
        if message.tool_calls
        else message
        for message in history
    ]


def _as_it_was(call: ToolCall, results: Sequence[Fields], again: Again) -> ToolCall:
    if not is_answered(call) or not any(_is_result_of(call, each) for each in results):
        return call
    # One that the run began once more and answered was one that waited: else it had become a call of the run's own.
    awaiting = call.agui_id in again.begun
    status = MessageStatus.ACTIVE if awaiting else MessageStatus.INTERRUPTED
    unanswered = {"content": "", "parts": None, "tool_call_id": None, "error": None}
    return call.model_copy(
        update={**unanswered, "awaiting": awaiting, "status": status, "in_progress": awaiting, "rests": None}
    )


def _is_result_of(call: ToolCall, result: Fields) -> bool:
    if call.agui_id is None or call.agui_id != identifier_of(result.get("toolCallId")):
        return False
    result_id = identifier_of(result.get("messageId"))
    content, parts = text_and_parts(result.get("content"))
    return call.tool_call_id == result_id if result_id else (call.content, call.parts) == (content, parts)
