"""Stored messages as AG-UI messages: the protocol's own classes, with what the record knows beside their own fields.

An agent that matches on the protocol's classes, and one that dumps its input to JSON, sees plain AG-UI messages.
"""

from typing import Any, ClassVar, Literal
from uuid import UUID

from ag_ui.core import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ReasoningMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from threadkeep.chat_history.constants import MessageStatus, Role

_OF_THE_RECORD = frozenset({"in_progress", "status", "uuid", "belongs_to", "is_stand_in"})


class ExtendedBaseMessage(BaseMessage):
    """A message of AG-UI history with the state of its record.

    Attributes:
        content: the text, or a list of parts.
        tool_calls: the calls of an assistant message.
        tool_call_id: for a tool message, the call that it answers.
        in_progress: whether the record is still being written.
        status: how far it has come.
        error: what went wrong, where something did.
        uuid: the record's own id.
        belongs_to: for a tool or reasoning message, the record of the message that it is part of.
        is_stand_in: whether the content of a tool message stands in for a result that there is none of.
    """

    __not_on_the_wire__: ClassVar[frozenset[str]] = _OF_THE_RECORD | {"error"}

    content: Any = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    in_progress: bool = False
    status: MessageStatus | None = None
    error: str | None = None
    uuid: UUID | None = None
    belongs_to: UUID | None = None
    is_stand_in: bool = False


class ExtendedDeveloperMessage(ExtendedBaseMessage, DeveloperMessage):
    role: Literal["developer"] = "developer"


class ExtendedSystemMessage(ExtendedBaseMessage, SystemMessage):
    role: Literal["system"] = "system"


class ExtendedAssistantMessage(ExtendedBaseMessage, AssistantMessage):
    role: Literal["assistant"] = "assistant"


class ExtendedUserMessage(ExtendedBaseMessage, UserMessage):
    role: Literal["user"] = "user"


class ExtendedToolMessage(ExtendedBaseMessage, ToolMessage):  # type: ignore[misc]
    __not_on_the_wire__: ClassVar[frozenset[str]] = _OF_THE_RECORD
    role: Literal["tool"] = "tool"


class ExtendedReasoningMessage(ExtendedBaseMessage, ReasoningMessage):
    role: Literal["reasoning"] = "reasoning"


CLASS_OF_ROLE: dict[str, type[ExtendedBaseMessage]] = {
    Role.DEVELOPER: ExtendedDeveloperMessage,
    Role.SYSTEM: ExtendedSystemMessage,
    Role.ASSISTANT: ExtendedAssistantMessage,
    Role.USER: ExtendedUserMessage,
    Role.TOOL: ExtendedToolMessage,
    Role.REASONING: ExtendedReasoningMessage,
}
