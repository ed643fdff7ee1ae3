"""Chats, messages and locators as they are stored: a session for a chat, an event for a message and what is in it.

The application's own time of a message is `timestamp`, because `created_at` of an event is its version token.
"""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, field_serializer, field_validator

from threadkeep.chat_history.constants import (
    MEMORY_CHAT_MESSAGE_EVENT_TYPE,
    PAYLOAD_VERSION,
    MessageStatus,
    Role,
    app_str,
    wire_non_empty_str,
)
from threadkeep.persistence import DRDeduplicationKey, DREvent, DRRangeKey, DRSession

T = TypeVar("T", bound=BaseModel)


def now() -> datetime:
    """The present in UTC."""
    return datetime.now(UTC)


def _read_text(value: Any) -> Any:
    return app_str(value) if isinstance(value, str) else value


# Only what is stored (JSON mode) carries the placeholder; a dump for the application has the text itself.
StoredText = Annotated[str, BeforeValidator(_read_text), PlainSerializer(wire_non_empty_str, when_used="json")]


class Chat(DRSession):
    """A chat thread of one user, stored as one session.

    The user is its only participant; the agent is none.

    Attributes:
        thread_id: AG-UI's thread id; the sessions of a thread are found by it through an index.
        dedup_key: `chat_deduplication_key(user_uuid, thread_id)`; makes creation idempotent.
        name: what people see in a list of chats.
        chat_uuid: the application's own id of the chat.
        user_uuid: whose it is.
    """

    __description_prefix__ = "thread"

    thread_id: Annotated[str, DRRangeKey]
    dedup_key: Annotated[str | None, DRDeduplicationKey] = None
    name: str = "New Chat"
    chat_uuid: UUID = Field(default_factory=uuid4)
    user_uuid: UUID | None = None


class ToolCall(BaseModel):
    """A tool call inside a message.

    Attributes:
        uuid: the application's own id.
        agui_id: AG-UI's `toolCallId`.
        tool_call_id: the id of the tool message that brought the result; None while there is none.
        arguments: the arguments as they were streamed, usually JSON.
        content: the result; empty while there is none.
        parts: the result as AG-UI parts, where it was not plain text; `content` has their text.
        awaiting: its run has ended, and the client or a person is to answer it.
        encrypted_value: what the provider wants back with the call, as it came.
        subagent_run_id: the subagent that made the call.
        metadata: what its events carried.
        rests: where the ends of texts are stored that were too long for the message; only in what is stored.
    """

    model_config = ConfigDict(extra="allow")

    uuid: UUID = Field(default_factory=uuid4)
    agui_id: str | None = None
    tool_call_id: str | None = None
    role: Role = Role.TOOL
    name: str = ""
    arguments: StoredText = ""
    content: StoredText = ""
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    created_at: datetime = Field(default_factory=now)
    encrypted_value: str | None = None
    awaiting: bool = False
    parts: list[Any] | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
    rests: dict[str, Any] | None = None


class Reasoning(BaseModel):
    """A reasoning step inside a message.

    Attributes:
        uuid: the application's own id.
        agui_id: AG-UI's message id of the step.
        name: its title; empty where the agent gave none.
        encrypted_value: what the provider wants back instead of, or beside, the text, as it came.
        subagent_run_id: the subagent that thought it.
        metadata: what its events carried.
        rests: as of a tool call.
    """

    model_config = ConfigDict(extra="allow")

    uuid: UUID = Field(default_factory=uuid4)
    agui_id: str | None = None
    role: Role = Role.REASONING
    name: str = ""
    content: StoredText = ""
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    created_at: datetime = Field(default_factory=now)
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
    rests: dict[str, Any] | None = None


class Subagent(BaseModel):
    """An agent that worked for a run, inside the message of the agent that it worked for.

    Attributes:
        subagent_run_id: AG-UI's own id of it; what it said carries the same.
        parent_subagent_run_id: the subagent that it worked for; None where that was the agent itself.
        parent_tool_call_id: the call that it was started by.
        parent_message_id: the message that it was started by.
        result: what it gave back.
        outcome: how it ended, as AG-UI says it.
        metadata: what its events carried.
    """

    model_config = ConfigDict(extra="allow")

    subagent_run_id: str
    name: str = ""
    description: str | None = None
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None
    parent_message_id: str | None = None
    result: Any = None
    outcome: Any = None
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    created_at: datetime = Field(default_factory=now)
    metadata: dict[str, Any] | None = None


class Message(DREvent, session=Chat):
    """A message of a chat, stored as one event; its tool calls and reasoning steps live in the event's body.

    Attributes:
        v: the version of the body's shape; newer ones than this package knows are not read.
        message_uuid: the application's own id.
        agui_id: AG-UI's message id; unique in its run at most.
        name: what the speaker is called; empty where nobody said.
        role: who speaks. `emitter_type` says who sent it, which differs for user messages that an agent made up.
        step: the agent's step that was active when the message began.
        timestamp: when the message began, by the clock of whoever stored it.
        run_id: the run that it came from, or that it was sent with.
        parts: the content as AG-UI parts, where it was not plain text; `content` has their text.
        interrupts: what the run waits for, on the last message of a run that ended with interrupts.
        outcome: how its run ended, as AG-UI says it; on the last message of a run, as are `result` and `usage`.
        result: what its run gave back.
        usage: the tokens that its run used, an entry for each model.
        activity_type: what kind of activity it is; its `content` is the JSON of the activity, see `activity`.
        subagent_run_id: the subagent that said it.
        subagents: the subagents that worked for it.
        metadata: what its events carried, and the one that ended its run.
        rests: as of a tool call.
        follows: the message that this one comes after, where that is not the one stored before it: the user edited an
            earlier message, or asked for another answer to it. The nil UUID where the conversation began anew.
    """

    __event_type__ = MEMORY_CHAT_MESSAGE_EVENT_TYPE

    v: int = PAYLOAD_VERSION
    message_uuid: UUID = Field(default_factory=uuid4)
    chat_uuid: UUID | None = None
    agui_id: str | None = None
    role: Role = Role.USER
    name: str = ""
    step: str | None = None
    in_progress: bool = True
    error: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    timestamp: datetime = Field(default_factory=now)
    tool_calls: list[ToolCall] = Field(default_factory=list)
    reasonings: list[Reasoning] = Field(default_factory=list)
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
    rests: dict[str, Any] | None = None
    follows: UUID | None = None

    @field_validator("content", mode="before", check_fields=False)
    @classmethod
    def _read_content(cls, value: Any) -> Any:
        return _read_text(value)

    @field_serializer("content", when_used="json", check_fields=False)
    def _store_content(self, value: str) -> str:
        return wire_non_empty_str(value)

    @property
    def activity(self) -> Any:
        """The content of an activity as a value; None for other messages, and where it was cut."""
        if self.role != Role.ACTIVITY:
            return None
        try:
            return json.loads(self.content)
        except ValueError:
            return None

    def is_readable(self) -> bool:
        """Whether the body has a shape that this package knows."""
        version: Any = self.v
        return isinstance(version, int) and version <= PAYLOAD_VERSION and isinstance(self.message_uuid, UUID)


class EntityLocator(DRSession):
    """Where an entity lives, found by its own uuid: one small session, looked up by its deduplication key.

    Attributes:
        locator_key: `kind:uuid`.
        kind: one of the `LOCATOR_KIND_*` constants.
        session_id: the session of the chat that holds the entity.
        message_uuid: the message that holds it, for tool calls and reasonings.
    """

    __description_prefix__ = "loc"

    locator_key: Annotated[str, DRDeduplicationKey]
    kind: str
    session_id: str
    chat_uuid: UUID | None = None
    message_uuid: UUID | None = None


def tool_call_class(message_class: type[Message]) -> type[ToolCall]:
    """The class of a message class's tool calls; a subclass of Message may declare its own."""
    return _item_class(message_class, "tool_calls", ToolCall)


def reasoning_class(message_class: type[Message]) -> type[Reasoning]:
    """The class of a message class's reasonings."""
    return _item_class(message_class, "reasonings", Reasoning)


def _item_class(message_class: type[Message], field: str, default: type[T]) -> type[T]:
    declared = getattr(message_class.model_fields[field].annotation, "__args__", (default,))[0]
    return declared if isinstance(declared, type) and issubclass(declared, default) else default
