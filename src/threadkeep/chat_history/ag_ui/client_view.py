"""What a client that has seen a stream from its beginning shows: its messages and its state. Pure.

The published clients reduce a run's events to messages in their own way, which is not that of the record (`fold`): a
message id is one message, whatever happens between two of its blocks. A reader that joins in mid-stream must be given
their messages, or what comes next would go to others.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import identifier_of, list_of, mapping_of, plain, text_of
from threadkeep.chat_history.ag_ui.patches import BadPatch, patched
from threadkeep.chat_history.ag_ui.records import Text, merged
from threadkeep.chat_history.ag_ui.thread_state import ThreadState

Fields = Mapping[str, Any]
Message = dict[str, Any]
_SPEAKERS = frozenset({"assistant", "user", "system", "developer"})
_HELD_BY_CLIENTS = ("activity", "reasoning")


class ClientView:
    """The messages and the state of a client, event by event. Chunks have to be expanded (`chunk_streams`).

    Args:
        messages: those that the client shows before the first event.
        state: the state before it.

    Attributes:
        state: the state; `changed` once an event has said something of it.
        thinking: the text of a block of the older THINKING_* events that is open. Clients make up an id for it.
    """

    def __init__(self, messages: Iterable[Fields] = (), state: Any = None) -> None:
        self.state = ThreadState(plain(state))
        self.thinking: Text | None = None
        self._thoughts = 0
        self._set([dict(plain(message)) for message in messages])
        self._given = frozenset(self._by_id)

    def see(self, kind: str, fields: Fields) -> None:
        """An event passes, by its type and its fields under their wire names. None raises."""
        step = _STEPS.get(kind)
        if step is not None:
            step(self, fields)

    def messages(self) -> list[Message]:
        """The messages as they are now, as plain values."""
        return [_written(message) for message in self._messages]

    # Texts and reasonings

    def _start(self, fields: Fields, role: str) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        if agui_id is None:
            return
        message = self._by_id.get(agui_id)
        if message is None:
            message = self._push({"id": agui_id, "role": role, "content": Text(), **_owner(fields)})
            name = identifier_of(fields.get("name"))
            if name is not None and role != "reasoning":
                message["name"] = name
        if message["role"] != "activity":
            _merge_metadata(message, fields)

    def _text_start(self, fields: Fields) -> None:
        role = fields.get("role")
        self._start(fields, role if isinstance(role, str) and role in _SPEAKERS else "assistant")

    def _reasoning_start(self, fields: Fields) -> None:
        self._start(fields, "reasoning")

    def _content(self, fields: Fields) -> None:
        message = self._by_id.get(identifier_of(fields.get("messageId")) or "")
        if message is not None and message["role"] != "activity":
            message["content"] = _grown(message.get("content"), fields.get("delta"))
            _merge_metadata(message, fields)

    def _end(self, fields: Fields) -> None:
        message = self._by_id.get(identifier_of(fields.get("messageId")) or "")
        if message is not None and message["role"] != "activity":
            _merge_metadata(message, fields)

    def _thinking_start(self, fields: Fields) -> None:
        self.thinking = Text()

    def _thinking_content(self, fields: Fields) -> None:
        if self.thinking is not None:
            self.thinking.append(text_of(fields.get("delta")))

    def _thinking_end(self, fields: Fields) -> None:
        if self.thinking is not None:
            self._thoughts += 1
            self._push({"id": f"thinking-{self._thoughts}", "role": "reasoning", "content": self.thinking})
            self.thinking = None

    # Calls

    def _call_start(self, fields: Fields) -> None:
        agui_id, name = identifier_of(fields.get("toolCallId")), text_of(fields.get("toolCallName"))
        if agui_id is None:
            return
        found = self._calls.get(agui_id)
        if found is None:
            function: dict[str, Any] = {"name": name, "arguments": Text()}
            call: dict[str, Any] = {"id": agui_id, "type": "function", "function": function}
            message = self._message_for_call(agui_id, fields)
            message.setdefault("toolCalls", []).append(call)
            self._calls[agui_id] = (message, call)
        else:
            call = found[1]
            call["function"]["name"] = name
        _merge_metadata(call, fields)

    def _message_for_call(self, agui_id: str, fields: Fields) -> Message:
        parent = identifier_of(fields.get("parentMessageId"))
        named = None if parent is None else self._by_id.get(parent)
        if named is not None and named["role"] == "assistant":
            return named
        new_id = agui_id if parent is None or named is not None else parent
        return self._push({"id": new_id, "role": "assistant", **_owner(fields)})

    def _call_args(self, fields: Fields) -> None:
        _, call = self._calls.get(identifier_of(fields.get("toolCallId")) or "", (None, None))
        if call is not None:
            function = call["function"]
            function["arguments"] = _grown(function.get("arguments"), fields.get("delta"))
            _merge_metadata(call, fields)

    def _call_end(self, fields: Fields) -> None:
        _, call = self._calls.get(identifier_of(fields.get("toolCallId")) or "", (None, None))
        if call is not None:
            _merge_metadata(call, fields)

    def _call_result(self, fields: Fields) -> None:
        agui_id, call_id = identifier_of(fields.get("messageId")), identifier_of(fields.get("toolCallId"))
        if agui_id is None or call_id is None or agui_id in self._given:
            # What the record has of it already came with the messages that there were before.
            return
        content = fields.get("content")
        content = plain(content) if isinstance(content, list) else text_of(content)
        result = {"id": agui_id, "role": "tool", "toolCallId": call_id, "content": content, **_owner(fields)}
        _merge_metadata(result, fields)
        self._push(result, self._place_of_result(call_id))

    def _place_of_result(self, call_id: str) -> int:
        owner, _ = self._calls.get(call_id, (None, None))
        place = len(self._messages) if owner is None else self._place(owner) + 1
        while place < len(self._messages) and self._messages[place]["role"] == "tool":
            place += 1
        return place

    # What is beside the talk

    def _encrypted_value(self, fields: Fields) -> None:
        entity, value = identifier_of(fields.get("entityId")), identifier_of(fields.get("encryptedValue"))
        if entity is None or value is None:
            return
        if fields.get("subtype") == "tool-call":
            _, target = self._calls.get(entity, (None, None))
        else:
            target = self._by_id.get(entity)
        if target is not None and target.get("role") != "activity":
            target["encryptedValue"] = value

    def _activity_snapshot(self, fields: Fields) -> None:
        agui_id = identifier_of(fields.get("messageId"))
        if agui_id is None:
            return
        present = self._by_id.get(agui_id)
        activity = {
            "id": agui_id,
            "role": "activity",
            "activityType": text_of(fields.get("activityType")),
            "content": plain(mapping_of(fields.get("content"))),
            **_owner(fields),
        }
        if present is None:
            present = self._push(activity)
        elif fields.get("replace") is not False:
            metadata = present.get("metadata") if present["role"] == "activity" else None
            present.clear()
            present.update(activity, **({} if metadata is None else {"metadata": metadata}))
        _merge_metadata(present, fields)

    def _activity_delta(self, fields: Fields) -> None:
        present = self._by_id.get(identifier_of(fields.get("messageId")) or "")
        if present is None or present["role"] != "activity":
            return
        _merge_metadata(present, fields)
        try:
            present["content"] = patched(present["content"], list_of(fields.get("patch")))
        except BadPatch:
            return
        present["activityType"] = text_of(fields.get("activityType")) or present["activityType"]

    def _state_snapshot(self, fields: Fields) -> None:
        self.state.replace(fields.get("snapshot"))

    def _state_delta(self, fields: Fields) -> None:
        self.state.change(list_of(fields.get("delta")))

    def _run_started(self, fields: Fields) -> None:
        for message in _messages_in(mapping_of(fields.get("input")).get("messages")):
            if message["id"] not in self._by_id:
                self._push(message)

    def _messages_snapshot(self, fields: Fields) -> None:
        """A snapshot replaces the list, but for what the agent may know nothing of."""
        given = _messages_in(fields.get("messages"))
        new = {message["id"]: message for message in given}
        roles = {message["role"] for message in given}
        held = [role for role in _HELD_BY_CLIENTS if role not in roles]
        present = [message for message in self._messages if message["id"] in new or message["role"] in held]
        ids = {message["id"] for message in present}
        kept = [new.get(message["id"], message) for message in present]
        self._set([*kept, *(message for message in given if message["id"] not in ids)])

    # The list

    def _set(self, messages: list[Message]) -> None:
        self._messages = messages
        self._by_id: dict[str, Message] = {}
        self._calls: dict[str, tuple[Message, dict[str, Any]]] = {}
        for message in messages:
            self._by_id.setdefault(message["id"], message)
            for call in list_of(message.get("toolCalls")):
                self._calls.setdefault(call["id"], (message, call))

    def _push(self, message: Message, place: int | None = None) -> Message:
        self._messages.insert(len(self._messages) if place is None else place, message)
        self._by_id.setdefault(message["id"], message)
        return message

    def _place(self, message: Message) -> int:
        return next(place for place, each in enumerate(self._messages) if each is message)


def _messages_in(value: Any) -> list[Message]:
    """The messages of a list that nobody has checked, with those of their fields that are relied on."""
    messages: list[Message] = []
    for each in list_of(value):
        agui_id, role = identifier_of(mapping_of(each).get("id")), mapping_of(each).get("role")
        if agui_id is None or not isinstance(role, str):
            continue
        message = {**plain(each), "id": agui_id}
        calls = [call for call in list_of(message.get("toolCalls")) if _is_call(call)]
        if "toolCalls" in message:
            message["toolCalls"] = calls
        messages.append({name: field for name, field in message.items() if field is not None})
    return messages


def _is_call(call: Any) -> bool:
    return isinstance(mapping_of(call).get("id"), str) and isinstance(call.get("function"), dict)


def _owner(fields: Fields) -> dict[str, Any]:
    owner = identifier_of(fields.get("subagentRunId"))
    return {} if owner is None else {"subagentRunId": owner}


def _grown(text: Any, delta: Any) -> Text:
    grown = text if isinstance(text, Text) else Text(text if isinstance(text, str) else "")
    grown.append(text_of(delta))
    return grown


def _merge_metadata(record: dict[str, Any], fields: Fields) -> None:
    metadata = fields.get("metadata")
    if isinstance(metadata, Mapping):
        record["metadata"] = merged(record.get("metadata"), plain(metadata))


def _written(value: Any) -> Any:
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        return {name: _written(each) for name, each in value.items()}
    return [_written(each) for each in value] if isinstance(value, list) else value


_STEPS: dict[str, Callable[[ClientView, Fields], None]] = {
    "RUN_STARTED": ClientView._run_started,
    "TEXT_MESSAGE_START": ClientView._text_start,
    "TEXT_MESSAGE_CONTENT": ClientView._content,
    "TEXT_MESSAGE_END": ClientView._end,
    "REASONING_MESSAGE_START": ClientView._reasoning_start,
    "REASONING_MESSAGE_CONTENT": ClientView._content,
    "REASONING_MESSAGE_END": ClientView._end,
    "THINKING_TEXT_MESSAGE_START": ClientView._thinking_start,
    "THINKING_TEXT_MESSAGE_CONTENT": ClientView._thinking_content,
    "THINKING_TEXT_MESSAGE_END": ClientView._thinking_end,
    "TOOL_CALL_START": ClientView._call_start,
    "TOOL_CALL_ARGS": ClientView._call_args,
    "TOOL_CALL_END": ClientView._call_end,
    "TOOL_CALL_RESULT": ClientView._call_result,
    "REASONING_ENCRYPTED_VALUE": ClientView._encrypted_value,
    "ACTIVITY_SNAPSHOT": ClientView._activity_snapshot,
    "ACTIVITY_DELTA": ClientView._activity_delta,
    "STATE_SNAPSHOT": ClientView._state_snapshot,
    "STATE_DELTA": ClientView._state_delta,
    "MESSAGES_SNAPSHOT": ClientView._messages_snapshot,
}
