"""What callers hand to the repositories, and what they show of a message. Subclasses carry fields of their own."""

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field

from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.models import Message, Subagent, now


class ChatCreate(BaseModel):
    """A new chat. `user_uuid` and `thread_id` are required by the repository."""

    user_uuid: UUID | None = None
    thread_id: str | None = None
    name: str = "New Chat"
    chat_uuid: UUID = Field(default_factory=uuid4)


class MessageCreate(BaseModel):
    """A new message. `chat_uuid` is required by the repository; without an `emitter_type` it follows the role."""

    chat_uuid: UUID | None = None
    message_uuid: UUID = Field(default_factory=uuid4)
    agui_id: str | None = None
    role: Role = Role.USER
    name: str = ""
    content: str = ""
    step: str | None = None
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    timestamp: datetime = Field(default_factory=now)
    run_id: str | None = None
    encrypted_value: str | None = None
    parts: list[Any] | None = None
    interrupts: list[Any] | None = None
    outcome: Any = None
    result: Any = None
    usage: list[Any] | None = None
    activity_type: str | None = None
    subagent_run_id: str | None = None
    subagents: list[Subagent] = Field(default_factory=list)
    metadata: dict[str, Any] | None = None
    follows: UUID | None = None
    emitter_type: Literal["user", "agent"] | None = None


class MessageUpdate(BaseModel):
    """Changes of a message: what is set and not None is applied, unless the message class has no such field."""

    model_config = ConfigDict(extra="allow")

    agui_id: str | None = None
    name: str | None = None
    content: str | None = None
    step: str | None = None
    in_progress: bool | None = None
    error: str | None = None
    status: MessageStatus | None = None
    encrypted_value: str | None = None
    parts: list[Any] | None = None
    interrupts: list[Any] | None = None
    outcome: Any = None
    result: Any = None
    usage: list[Any] | None = None
    activity_type: str | None = None
    subagents: list[Subagent] | None = None
    metadata: dict[str, Any] | None = None


class MessageToolCallCreate(BaseModel):
    """A new tool call of the message `message_uuid`; `agui_id` is AG-UI's toolCallId."""

    message_uuid: UUID | None = None
    uuid: UUID = Field(default_factory=uuid4)
    agui_id: str | None = None
    tool_call_id: str | None = None
    role: Role = Role.TOOL
    name: str = ""
    arguments: str = ""
    content: str = ""
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    created_at: datetime = Field(default_factory=now)
    encrypted_value: str | None = None
    awaiting: bool = False
    parts: list[Any] | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None


class MessageToolCallUpdate(BaseModel):
    """Changes of a tool call: only what is set and not None is applied."""

    model_config = ConfigDict(extra="allow")

    tool_call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: str | None = None
    in_progress: bool | None = None
    error: str | None = None
    status: MessageStatus | None = None
    encrypted_value: str | None = None
    awaiting: bool | None = None
    parts: list[Any] | None = None
    metadata: dict[str, Any] | None = None


class MessageReasoningCreate(BaseModel):
    """A new reasoning step of the message `message_uuid`."""

    message_uuid: UUID | None = None
    uuid: UUID = Field(default_factory=uuid4)
    agui_id: str | None = None
    role: Role = Role.REASONING
    name: str = ""
    content: str = ""
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    created_at: datetime = Field(default_factory=now)
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None


class MessageReasoningUpdate(BaseModel):
    """Changes of a reasoning step: only what is set and not None is applied."""

    model_config = ConfigDict(extra="allow")

    name: str | None = None
    content: str | None = None
    in_progress: bool | None = None
    error: str | None = None
    status: MessageStatus | None = None
    encrypted_value: str | None = None
    metadata: dict[str, Any] | None = None


class ToolCallPublic(BaseModel):
    """What an application shows of a tool call."""

    model_config = ConfigDict(from_attributes=True)

    uuid: UUID
    agui_id: str | None
    tool_call_id: str | None
    role: Role
    name: str
    arguments: str
    content: str
    in_progress: bool
    error: str | None
    status: MessageStatus
    created_at: datetime
    encrypted_value: str | None = None
    awaiting: bool = False
    parts: list[Any] | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None


class ReasoningPublic(BaseModel):
    """What an application shows of a reasoning step."""

    model_config = ConfigDict(from_attributes=True)

    uuid: UUID
    agui_id: str | None
    role: Role
    name: str
    content: str
    in_progress: bool
    error: str | None
    status: MessageStatus
    created_at: datetime
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None


class MessagePublic(BaseModel):
    """What an application shows of a message: its own fields, without those of the store."""

    model_config = ConfigDict(from_attributes=True)

    message_uuid: UUID
    chat_uuid: UUID | None
    agui_id: str | None
    role: Role
    name: str
    content: str
    step: str | None
    in_progress: bool
    error: str | None
    status: MessageStatus
    timestamp: datetime
    tool_calls: list[ToolCallPublic]
    reasonings: list[ReasoningPublic]
    run_id: str | None = None
    encrypted_value: str | None = None
    parts: list[Any] | None = None
    interrupts: list[Any] | None = None
    outcome: Any = None
    result: Any = None
    usage: list[Any] | None = None
    activity_type: str | None = None
    subagent_run_id: str | None = None
    subagents: list[Subagent] = Field(default_factory=list)
    metadata: dict[str, Any] | None = None
    follows: UUID | None = None

    @classmethod
    def from_message(cls, message: Message) -> Self:
        """The public view of a stored message."""
        return cls.model_validate(message)
