"""Which messages of an input are new to a conversation. Pure.

A message is known by its mark, by its id, or by its place: where the input begins with what the conversation ends with,
that much of it was sent again. Equal messages are never known by their text alone, for people say "yes" twice.
"""

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import Content, Message

from threadkeep.integrations.agent_framework.contents import arguments_text, result_text
from threadkeep.integrations.agent_framework.marks import is_stored, message_uuid_of

Key = tuple[Any, ...]


def new_messages(history: Sequence[Message], messages: Sequence[Message], chat: str) -> list[Message]:
    """The messages that the conversation does not have yet, in order.

    Args:
        history: the conversation as it was restored from the chat, marks included.
        messages: what came in.
        chat: the key of the chat, as marks have it.
    """
    ids = {(message.role, message.message_id) for message in history if message.message_id}
    for message in history:
        uuid = message_uuid_of(message, chat)
        if uuid is not None:
            ids.add((message.role, str(uuid)))
    begin = _resent(history, messages)
    return [
        message
        for message in messages[begin:]
        if not is_stored(message, chat) and (message.role, message.message_id) not in ids
    ]


def same_message(one: Message, other: Message) -> bool:
    """Whether two messages say the same."""
    return _key(one) == _key(other)


def _resent(history: Sequence[Message], messages: Sequence[Message]) -> int:
    """How many messages at the front are the end of the conversation, or all of it."""
    known, came = [_key(message) for message in history], [_key(message) for message in messages]
    for length in range(min(len(known), len(came)), 0, -1):
        if known[-length:] == came[:length]:
            # One word of a user may be the same twice on purpose; what an agent said came from here.
            return 0 if length == 1 and messages[0].role == "user" else length
    return 0


def _key(message: Message) -> Key:
    return (message.role, *(_content_key(content) for content in message.contents if content.type != "usage"))


def _content_key(content: Content) -> Key:
    if content.type == "text":
        return ("text", content.text)
    if content.type == "function_call":
        return ("call", content.call_id, content.name, arguments_text(content.arguments))
    if content.type == "function_result":
        return ("result", content.call_id, result_text(content))
    fields = content.to_dict(exclude={"id", "additional_properties", "raw_representation"})
    return (content.type, json.dumps(fields, sort_keys=True, default=str))
