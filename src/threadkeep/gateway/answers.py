"""What the gateway shows of stored threads, messages and runs: rows in, the contract's shapes out. Pure.

Bodies are read leniently: whatever another writer has left in one, the list that holds it is still served.
"""

import json
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

from threadkeep import clock
from threadkeep.chat_history.ag_ui.wire import read_object
from threadkeep.chat_history.attachments import Find, put_back_in
from threadkeep.chat_history.constants import MessageStatus, Role, app_str
from threadkeep.contract.threads import (
    Thread,
    ThreadMessage,
    ThreadReasoning,
    ThreadRun,
    ThreadSubagent,
    ThreadToolCall,
)
from threadkeep.domain.event import Event
from threadkeep.domain.run import Run
from threadkeep.persistence.codec import decode_description
from threadkeep.services.sessions import RecentSession

_NO_NAME = "New Chat"

_CALL_EXTRAS = {
    "parts": ("parts", list),
    "encryptedValue": ("encrypted_value", str),
    "subagentRunId": ("subagent_run_id", str),
    "metadata": ("metadata", dict),
}
_REASONING_EXTRAS = {name: _CALL_EXTRAS[name] for name in ("encryptedValue", "subagentRunId", "metadata")}
_SUBAGENT_EXTRAS = {"result": ("result", object), "outcome": ("outcome", object), "metadata": ("metadata", dict)}
_MESSAGE_EXTRAS = {
    **_CALL_EXTRAS,
    "follows": ("follows", str),
    "activityType": ("activity_type", str),
    "interrupts": ("interrupts", list),
    "outcome": ("outcome", object),
    "result": ("result", object),
    "usage": ("usage", list),
}


def thread_answer(found: RecentSession) -> Thread:
    """A thread from the session that holds it."""
    session = found.session
    return {
        "threadId": thread_id_of(session.description),
        "name": _text(_object(session.metadata), "name") or _NO_NAME,
        "createdAt": clock.format_timestamp(session.created_at),
        "updatedAt": clock.format_timestamp(found.updated_at),
        "lastMessage": None if found.last_event is None else message_answer(found.last_event),
        "activeRunId": found.active_run_id,
    }


def body_of(event: Event) -> Mapping[str, Any]:
    """The body of an event; empty where it is no object."""
    return _object(event.body)


def message_answer(event: Event, find: Find = lambda _: None) -> ThreadMessage:
    """A message from the event that holds it. `find` knows the long values that are stored beside it."""
    body = put_back_in(_object(event.body), find)
    answer: ThreadMessage = {
        "messageUuid": _text(body, "message_uuid") or "",
        "aguiId": _text(body, "agui_id"),
        "role": _text(body, "role") or Role.ASSISTANT.value,
        "name": _text(body, "name") or None,
        "content": _stored_text(body, "content"),
        "step": _text(body, "step"),
        "status": _text(body, "status") or MessageStatus.COMPLETE.value,
        "inProgress": body.get("in_progress") is True,
        "error": _text(body, "error"),
        "timestamp": _timestamp(_text(body, "timestamp"), event.created_at),
        "sequenceId": event.sequence_id,
        "runId": _text(body, "run_id"),
        "toolCalls": [_tool_call(item) for item in _objects(body, "tool_calls")],
        "reasonings": [_reasoning(item) for item in _objects(body, "reasonings")],
    }
    if subagents := _objects(body, "subagents"):
        answer["subagents"] = [_subagent(item) for item in subagents]
    answer.update(cast(ThreadMessage, _present(body, _MESSAGE_EXTRAS)))
    return answer


def run_answer(run: Run) -> ThreadRun:
    """A run."""
    return {
        "runId": run.run_id,
        "parentRunId": run.parent_run_id,
        "status": run.status,
        "outcome": None if run.outcome is None else json.loads(run.outcome),
        "usage": None if run.usage is None else json.loads(run.usage),
        "error": run.error,
        "startedAt": clock.format_timestamp(run.started_at),
        "finishedAt": None if run.finished_at is None else clock.format_timestamp(run.finished_at),
    }


def thread_id_of(description: str | None) -> str:
    """The thread id that a chat's session carries in its description; of a session that is none, the description."""
    try:
        _, (thread_id,) = decode_description(description or "")
    except ValueError:
        return description or ""
    return thread_id


def chat_uuid_of(metadata: str | None) -> UUID | None:
    """The chat's own id in the metadata of its session."""
    try:
        return UUID(_text(_object(metadata), "chat_uuid") or "")
    except ValueError:
        return None


def _tool_call(item: Mapping[str, Any]) -> ThreadToolCall:
    answer: ThreadToolCall = {
        "uuid": _text(item, "uuid") or "",
        "aguiId": _text(item, "agui_id"),
        "toolCallId": _text(item, "tool_call_id"),
        "name": _text(item, "name") or "",
        "arguments": _stored_text(item, "arguments"),
        "content": _stored_text(item, "content"),
        "status": _text(item, "status") or MessageStatus.COMPLETE.value,
        "inProgress": item.get("in_progress") is True,
        "error": _text(item, "error"),
    }
    answer.update(cast(ThreadToolCall, _present(item, _CALL_EXTRAS)))
    return answer


def _reasoning(item: Mapping[str, Any]) -> ThreadReasoning:
    answer: ThreadReasoning = {
        "uuid": _text(item, "uuid") or "",
        "aguiId": _text(item, "agui_id"),
        "name": _text(item, "name"),
        "content": _stored_text(item, "content"),
        "status": _text(item, "status") or MessageStatus.COMPLETE.value,
        "inProgress": item.get("in_progress") is True,
        "error": _text(item, "error"),
    }
    answer.update(cast(ThreadReasoning, _present(item, _REASONING_EXTRAS)))
    return answer


def _subagent(item: Mapping[str, Any]) -> ThreadSubagent:
    answer: ThreadSubagent = {
        "subagentRunId": _text(item, "subagent_run_id") or "",
        "name": _text(item, "name") or "",
        "description": _text(item, "description"),
        "parentSubagentRunId": _text(item, "parent_subagent_run_id"),
        "parentToolCallId": _text(item, "parent_tool_call_id"),
        "parentMessageId": _text(item, "parent_message_id"),
        "status": _text(item, "status") or MessageStatus.COMPLETE.value,
        "inProgress": item.get("in_progress") is True,
        "error": _text(item, "error"),
    }
    answer.update(cast(ThreadSubagent, _present(item, _SUBAGENT_EXTRAS)))
    return answer


def _present(fields: Mapping[str, Any], extras: Mapping[str, tuple[str, type]]) -> dict[str, Any]:
    """What is not there in most records: shown only where it is, and is what it should be."""
    shown = {name: fields.get(field) for name, (field, _) in extras.items()}
    return {name: value for name, value in shown.items() if value is not None and isinstance(value, extras[name][1])}


def _object(text: str | None) -> Mapping[str, Any]:
    return read_object(text.encode("utf-8", "surrogatepass")) if text else {}


def _objects(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = fields.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _stored_text(fields: Mapping[str, Any], name: str) -> str:
    return app_str(_text(fields, name) or "")


def _timestamp(text: str | None, otherwise: int) -> str:
    try:
        return clock.format_timestamp(clock.parse_timestamp(text or ""))
    except ValueError:
        return clock.format_timestamp(otherwise)
