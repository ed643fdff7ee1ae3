"""What the storage agent knows of the run that it records; handlers and build hooks are given it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from threadkeep.chat_history.ag_ui.fold import Fold
from threadkeep.chat_history.ag_ui.identities import Identities
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.dto import MessageCreate, MessageReasoningCreate, MessageToolCallCreate
from threadkeep.chat_history.models import Chat

if TYPE_CHECKING:
    from threadkeep.chat_history.ag_ui.writer import RowWriter


@dataclass(slots=True, eq=False)
class StorageState:
    """The state of one recorded run.

    Attributes:
        chat: the chat that the run belongs to.
        thread_id: AG-UI's thread id.
        run_id: AG-UI's run id.
        fold: the records so far.
        current_event_timestamp: when the event in hand came, in UTC.
        extra: a place for what your own handlers need to remember.
        missing: how many events could not be recorded.
        follows: the stored message that the agent answers, where that is not the newest one; its first message says so.
        take: what tells the run from an earlier one of the same id in the chat; empty for the first one.
        identities: gives new records their uuids.
        record_uuid: the uuid of the record whose first shape a build hook is asked for; None at any other time.
    """

    chat: Chat
    thread_id: str
    run_id: str
    fold: Fold
    current_event_timestamp: datetime
    extra: dict[str, Any] = field(default_factory=dict)
    missing: int = 0
    follows: UUID | None = None
    message_creates: dict[Row, MessageCreate] = field(default_factory=dict)
    tool_call_creates: dict[Call, MessageToolCallCreate] = field(default_factory=dict)
    reasoning_creates: dict[Reasoning, MessageReasoningCreate] = field(default_factory=dict)
    message_extras: dict[Row, dict[str, Any]] = field(default_factory=dict)
    writer: "RowWriter | None" = None
    take: str = ""
    identities: Identities = field(init=False)
    record_uuid: UUID | None = None

    def __post_init__(self) -> None:
        self.identities = Identities(self.chat.chat_uuid, self.run_id, self.take)

    @property
    def active_step(self) -> str | None:
        """The step that has begun last and not ended."""
        return self.fold.turn.step

    @property
    def active_message(self) -> Row | None:
        """The last assistant message of the run so far."""
        return self.fold.turn.last_assistant

    @property
    def status(self) -> MessageStatus | None:
        """How the run has ended; None while it goes on."""
        return self.fold.status
