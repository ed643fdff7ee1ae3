"""What is stored of the framework's messages: the rows of chat history, with the framework's own form beside them.

The framework's form is kept only where the row alone would not give the message back.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic import Field

from threadkeep.chat_history import (
    Message,
    MessageCreate,
    MessageReasoningCreate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
    ToolCall,
)

Native = dict[str, Any]


class FrameworkToolCall(ToolCall):
    """A tool call, with its result in the framework's form.

    Attributes:
        agent_framework: the `function_result` content as `Content.to_dict()` gave it, where `content` is not all of it.
    """

    agent_framework: Native | None = None


class FrameworkMessage(Message):
    """A message, with the framework's form of it.

    Attributes:
        agent_framework: what `Message.to_dict()` gave, where the other fields are not all of it.
    """

    tool_calls: list[FrameworkToolCall] = Field(default_factory=list)  # type: ignore[assignment]
    agent_framework: Native | None = None


class FrameworkMessageCreate(MessageCreate):
    """A new message with the framework's form of it."""

    agent_framework: Native | None = None


class FrameworkMessageUpdate(MessageUpdate):
    """Changes of a message, those of the framework's form of it included."""

    agent_framework: Native | None = None


class FrameworkToolCallCreate(MessageToolCallCreate):
    """A new tool call, with its result in the framework's form where it has one."""

    agent_framework: Native | None = None


class FrameworkToolCallUpdate(MessageToolCallUpdate):
    """Changes of a tool call, such as its result in the framework's form."""

    agent_framework: Native | None = None


@dataclass(slots=True)
class NewRow:
    """A message that is to be stored, with what is nested in it."""

    message: FrameworkMessageCreate
    calls: list[FrameworkToolCallCreate] = field(default_factory=list)
    reasonings: list[MessageReasoningCreate] = field(default_factory=list)


@dataclass(slots=True)
class RowChange:
    """A stored message, or one of its calls, that is to be changed."""

    uuid: UUID
    update: FrameworkMessageUpdate | FrameworkToolCallUpdate


Write = NewRow | RowChange
