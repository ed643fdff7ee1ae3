"""Stored messages as the AG-UI messages that a client shows: rows in, what its reducer would hold out. Pure.

Unlike the history that an agent is given (`chat_history/translate.py`), nothing is made up here and nothing repaired: a
call without a result has none, activities are there, and reasonings stand where they were thought.
Bodies are read leniently: whatever another writer has left in one, the others are still shown.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from threadkeep import clock
from threadkeep.chat_history.ag_ui.content import parts_of
from threadkeep.chat_history.constants import Role, app_str

Body = Mapping[str, Any]
Shown = dict[str, Any]

_SAID = (Role.USER, Role.SYSTEM, Role.DEVELOPER)


def shown_messages(bodies: Sequence[Body]) -> list[Shown]:
    """The messages of a branch, in order. Ids are unique among them: of messages with one id the first has it, of calls
    the last one, which a client may yet have to answer; the others go by their uuid.
    """
    ids = _Ids(bodies)
    return [message for body in bodies for message in _messages_of(body, ids)]


class _Ids:
    def __init__(self, bodies: Sequence[Body]) -> None:
        self._taken: set[str] = set()
        self._calls = Counter(_text(call, "agui_id") for body in bodies for call in _items(body, "tool_calls"))

    def of_message(self, agui_id: str | None, uuid: str | None) -> str:
        found = agui_id if agui_id and agui_id not in self._taken else uuid or ""
        self._taken.add(found)
        return found

    def of_call(self, call: Body) -> str:
        agui_id, uuid = _text(call, "agui_id"), _text(call, "uuid") or ""
        self._calls[agui_id] -= 1
        return uuid if not agui_id or self._calls[agui_id] > 0 else agui_id


def _messages_of(body: Body, ids: _Ids) -> Iterator[Shown]:
    role = _text(body, "role") or Role.ASSISTANT.value
    if role == Role.ACTIVITY:
        yield from _activity(body, ids)
    elif role == Role.ASSISTANT:
        yield from _turn(body, ids)
    elif role in (*_SAID, Role.TOOL, Role.REASONING):
        parts = parts_of(body.get("parts")) if role in (Role.USER, Role.TOOL) else None
        message = {"id": _id(body, ids), "role": role, "content": parts or _stored_text(body, "content")}
        if role == Role.TOOL:
            # Ours are inside the message that called them; others may have kept one by itself.
            message["toolCallId"] = message["id"]
        yield message | _extras(body, name=role in _SAID)


def _turn(body: Body, ids: _Ids) -> Iterator[Shown]:
    """An assistant message with what is in it: thoughts that led to it, itself, its results, and later thoughts."""
    begun = _moment(body, "timestamp")
    reasonings = _items(body, "reasonings")
    # A row that began with a thought was made for it; then all of them led to what is said.
    began_with_one = any(_moment(step, "created_at") < begun for step in reasonings)
    if began_with_one:
        yield from (_reasoning(step, ids) for step in reasonings)
    calls = [(ids.of_call(call), call) for call in _items(body, "tool_calls")]
    content = _stored_text(body, "content")
    # One that says nothing only shows how its run ended, which no message of AG-UI can.
    if content or calls:
        message: Shown = {"id": _id(body, ids), "role": Role.ASSISTANT.value}
        if content:
            message["content"] = content
        if calls:
            message["toolCalls"] = [_call(call_id, call) for call_id, call in calls]
        yield message | _extras(body, name=True)
    for call_id, call in calls:
        yield from _result(call_id, call, ids)
    if not began_with_one:
        yield from (_reasoning(step, ids) for step in reasonings)


def _call(call_id: str, call: Body) -> Shown:
    function = {"name": _text(call, "name") or "", "arguments": _stored_text(call, "arguments")}
    extras = _extras(call)
    extras.pop("subagentRunId", None)
    return {"id": call_id, "type": "function", "function": function} | extras


def _result(call_id: str, call: Body, ids: _Ids) -> Iterator[Shown]:
    content, parts = _stored_text(call, "content"), parts_of(call.get("parts"))
    result_id = _text(call, "tool_call_id")
    # Other writers fill `tool_call_id` with the call's own id from its beginning.
    if content or parts or result_id not in (None, _text(call, "agui_id")):
        result = {
            "id": ids.of_message(result_id, _text(call, "uuid")),
            "role": Role.TOOL.value,
            "toolCallId": call_id,
            "content": parts or content,
        }
        error = _text(call, "error")
        yield result | ({} if error is None else {"error": error})


def _reasoning(step: Body, ids: _Ids) -> Shown:
    reasoning_id = ids.of_message(_text(step, "agui_id"), _text(step, "uuid"))
    message = {"id": reasoning_id, "role": Role.REASONING.value, "content": _stored_text(step, "content")}
    return message | _extras(step)


def _activity(body: Body, ids: _Ids) -> Iterator[Shown]:
    try:
        content = json.loads(_stored_text(body, "content"))
    except ValueError:
        return
    if isinstance(content, dict):
        kind = _text(body, "activity_type") or ""
        activity = {"id": _id(body, ids), "role": Role.ACTIVITY.value, "activityType": kind, "content": content}
        yield activity | _extras(body)


def _extras(item: Body, *, name: bool = False) -> Shown:
    found = {
        "name": _text(item, "name") if name else None,
        "subagentRunId": _text(item, "subagent_run_id"),
        "encryptedValue": _text(item, "encrypted_value"),
    }
    metadata = item.get("metadata")
    return {key: value for key, value in found.items() if value} | (
        {"metadata": metadata} if isinstance(metadata, dict) and metadata else {}
    )


def _id(body: Body, ids: _Ids) -> str:
    return ids.of_message(_text(body, "agui_id"), _text(body, "message_uuid"))


def _items(body: Body, name: str) -> list[Body]:
    items = body.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _text(item: Body, name: str) -> str | None:
    value = item.get(name)
    return value if isinstance(value, str) else None


def _stored_text(item: Body, name: str) -> str:
    return app_str(_text(item, name))


def _moment(item: Body, name: str) -> int:
    try:
        return clock.parse_timestamp(_text(item, name) or "")
    except ValueError:
        return 0
