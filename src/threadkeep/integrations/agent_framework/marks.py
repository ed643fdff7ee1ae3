"""Marks on the framework's messages: in which chats a message is stored, and as which row. Pure.

A mark is metadata of the message (`additional_properties`): it travels with the message through the function loop, to
other agents and other providers, and is never sent to a model. Where it is present, a second write does nothing.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agent_framework import Message

MARK = "threadkeep"
_STAND_IN = "stand_in"


def mark_stored(message: Message, chat: str, message_uuid: UUID | None, calls: Mapping[str, UUID]) -> None:
    """Note that a message is stored in a chat.

    Args:
        message: the framework's message.
        chat: the key of the chat, the same for whoever writes to it.
        message_uuid: its row; None for results, which live in the row of their call.
        calls: the uuids of its tool calls by call id.
    """
    mark = {
        "message": None if message_uuid is None else str(message_uuid),
        "calls": {call_id: str(uuid) for call_id, uuid in calls.items()},
    }
    message.additional_properties[MARK] = {**_marks(message), chat: mark}


def is_stored(message: Message, chat: str) -> bool:
    """Whether a message is marked as stored in a chat, or stands in for a result that nobody gave."""
    marks = _marks(message)
    return chat in marks or _STAND_IN in marks


def message_uuid_of(message: Message, chat: str) -> UUID | None:
    """The row that a marked message is in a chat."""
    mark = _marks(message).get(chat)
    uuid = mark.get("message") if isinstance(mark, Mapping) else None
    return None if uuid is None else UUID(uuid)


def calls_of(message: Message, chat: str) -> dict[str, UUID]:
    """The tool calls of a marked message in a chat: their uuids by call id."""
    mark = _marks(message).get(chat)
    calls = mark.get("calls") if isinstance(mark, Mapping) else None
    return {call_id: UUID(uuid) for call_id, uuid in calls.items()} if isinstance(calls, Mapping) else {}


def mark_stand_in(message: Message) -> None:
    """Note that a message was made up to answer calls that have no result; it is never stored."""
    message.additional_properties[MARK] = {_STAND_IN: True}


def is_stand_in(message: Message) -> bool:
    """Whether a message was made up to answer calls that have no result."""
    return _STAND_IN in _marks(message)


def without_marks(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of a message as the application set them: no marks, and not the framework's note on where from."""
    return {name: value for name, value in properties.items() if name not in (MARK, "_attribution")}


def _marks(message: Message) -> Mapping[str, Any]:
    marks = message.additional_properties.get(MARK)
    return marks if isinstance(marks, Mapping) else {}
