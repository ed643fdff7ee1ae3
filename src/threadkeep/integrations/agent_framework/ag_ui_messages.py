"""From AG-UI's messages to the framework's, and from AG-UI's tools to declarations. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import Content, FunctionTool, Message

from threadkeep.chat_history import ExtendedBaseMessage, MessageStatus
from threadkeep.chat_history.ag_ui.wire import message_fields
from threadkeep.integrations.agent_framework.parts import content_of_part

Fields = Mapping[str, Any]


def framework_messages(messages: Sequence[Any]) -> list[Message]:
    """An AG-UI conversation as the framework's messages.

    Reasoning goes into the message of the agent that it led to, before what was said; calls that are waiting for their
    result have none, whatever the replay of the chat has put there for agents that want one.

    Args:
        messages: AG-UI messages, as objects or as mappings.
    """
    reasonings = _reasonings(messages)
    built: list[Message] = []
    for place, message in enumerate(messages):
        fields = message_fields(message)
        role, agui_id = fields.get("role"), fields.get("id")
        if role == "tool" and not is_waiting(message):
            result = Content.from_function_result(str(fields.get("toolCallId")), result=_text(fields.get("content")))
            built.append(Message("tool", [result], message_id=agui_id))
        elif role in ("user", "assistant", "system", "developer"):
            contents = [*reasonings.get(place, ()), *_contents(fields)]
            if contents:
                built.append(Message(role, contents, message_id=agui_id))
    return built


def _reasonings(messages: Sequence[Any]) -> dict[int, list[Content]]:
    """The reasonings of a conversation, by the place of the message that they led to."""
    roles = [message_fields(message).get("role") for message in messages]
    of_record = {
        message.uuid: place
        for place, message in enumerate(messages)
        if isinstance(message, ExtendedBaseMessage) and roles[place] == "assistant"
    }
    found: dict[int, list[Content]] = {}
    for place, message in enumerate(messages):
        if roles[place] != "reasoning":
            continue
        fields = message_fields(message)
        owner = of_record.get(message.belongs_to) if isinstance(message, ExtendedBaseMessage) else None
        if owner is None:
            owner = next((later for later in range(place, len(messages)) if roles[later] == "assistant"), None)
        if owner is not None:
            step = Content.from_text_reasoning(
                id=fields.get("id"),
                text=_text(fields.get("content")) or None,
                protected_data=fields.get("encryptedValue"),
            )
            found.setdefault(owner, []).append(step)
    return found


def is_waiting(message: Any) -> bool:
    """Whether a tool message of a replayed chat stands for a result that is still to come."""
    is_active = isinstance(message, ExtendedBaseMessage) and message.status == MessageStatus.ACTIVE
    return is_active and bool(message.is_stand_in)


def stored_calls(messages: Sequence[Any]) -> dict[str, Content]:
    """The calls that wait for their result, by id, of messages that come from the store and from nowhere else."""
    waiting = {
        str(message_fields(message).get("toolCallId"))
        for message in messages
        if message_fields(message).get("role") == "tool" and is_waiting(message)
    }
    return {
        content.call_id: content
        for message in messages
        if isinstance(message, ExtendedBaseMessage)
        for content in _contents(message_fields(message))
        if content.type == "function_call" and content.call_id in waiting
    }


def declarations(tools: Sequence[Any] | None) -> list[FunctionTool]:
    """The tools that the frontend runs: the model may call them, and the run ends with their calls."""
    declared: list[FunctionTool] = []
    for tool in tools or ():
        fields = message_fields(tool)
        parameters = fields.get("parameters") or {"type": "object", "properties": {}}
        declared.append(
            FunctionTool(
                name=str(fields.get("name")), description=str(fields.get("description") or ""), input_model=parameters
            )
        )
    return declared


def _contents(fields: Fields) -> list[Content]:
    content = fields.get("content")
    if isinstance(content, str):
        contents = [Content.from_text(content)] if content else []
    else:
        contents = [found for part in content or () if (found := content_of_part(_plain(part))) is not None]
    for call in fields.get("toolCalls") or ():
        called = _plain(call)
        function = _plain(called.get("function"))
        contents.append(
            Content.from_function_call(
                str(called.get("id")), str(function.get("name")), arguments=str(function.get("arguments") or "")
            )
        )
    return contents


def _plain(value: Any) -> Fields:
    return value if isinstance(value, Mapping) else message_fields(value)


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(str(_plain(part).get("text") or "") for part in content)
