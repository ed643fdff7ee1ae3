"""Document classes as an application declares them, on the ORM of a root."""

from datetime import datetime
from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, Field

from interop.names import Root

ANN, BOB = "a" * 24, "b" * 24


class Mood(Enum):
    CALM = "calm"
    WILD = "wild"


class Tag(BaseModel):
    name: str
    weight: float = 1.0


def declared(root: Root) -> Any:
    """The classes, by name."""
    orm = root.persistence
    DRSession, DREvent = orm.DRSession, orm.DREvent
    DRRangeKey, DRDeduplicationKey, DRConcurrencyField = orm.DRRangeKey, orm.DRDeduplicationKey, orm.DRConcurrencyField

    class ChatSession(DRSession):
        __description_prefix__ = "chat"

        tenant: Annotated[str, DRRangeKey]
        topic: Annotated[str, DRRangeKey]
        chat_id: Annotated[str, DRDeduplicationKey]
        rev: Annotated[int, DRConcurrencyField]
        title: str = ""
        mood: Mood = Mood.CALM
        tags: list[Tag] = Field(default_factory=list)
        owner: UUID | None = None
        due: datetime | None = None
        extra: dict[str, Any] = Field(default_factory=dict)

    class ChatMessage(DREvent, session=ChatSession):
        __event_type__ = "message"

        score: float = 0.0
        label: str | None = None
        tags: list[Tag] = Field(default_factory=list)
        at: datetime | None = None

    class Status(DREvent, session=ChatSession):
        __event_type__ = "status"

        percent: int = 0

    class RatedChat(ChatSession):
        """A subclass of a subclass; it has the prefix of its parent."""

        stars: int = 0

    class Note(DRSession):
        """No marker at all: the class name is the prefix."""

        text: str = ""

    class Day(DRSession):
        """Markers as instances, on types that are no text, and a strategy of its own."""

        __lifecycle_strategies__: ClassVar = [{"type": "soft_delete", "trigger": {"idle": 3600}}]

        number: Annotated[int, DRRangeKey()]
        owner: Annotated[UUID, DRDeduplicationKey()]

    return SimpleNamespace(
        ChatSession=ChatSession, ChatMessage=ChatMessage, Status=Status, RatedChat=RatedChat, Note=Note, Day=Day
    )
