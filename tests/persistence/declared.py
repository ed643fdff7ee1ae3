"""Document classes that the tests of the ORM share."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, ValidationInfo, field_serializer, field_validator

from threadkeep.persistence import DRConcurrencyField, DRDeduplicationKey, DREvent, DRRangeKey, DRSession

USER = "65f000000000000000000001"


class Mood(Enum):
    CALM = "calm"
    WILD = "wild"


class Tag(BaseModel):
    name: str
    weight: float = 1.0


class Chat(DRSession):
    """All markers, as classes."""

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


class RatedChat(Chat):
    """A subclass of a subclass."""

    stars: int = 0


class Note(DRSession):
    """No marker at all: the class name is the prefix."""

    text: str = ""


class Day(DRSession):
    """Markers as instances, on types that are no text."""

    number: Annotated[int, DRRangeKey()]
    owner: Annotated[UUID, DRDeduplicationKey()]


class ChatMessage(DREvent, session=Chat):
    score: float = 0.0
    label: str | None = None
    tags: list[Tag] = Field(default_factory=list)


class QuietMessage(ChatMessage):
    """Empty content, which the service refuses, is kept as a zero-width space."""

    __event_type__ = "quiet"

    @field_validator("content", mode="before")
    @classmethod
    def _read_placeholder(cls, value: object, info: ValidationInfo) -> object:
        return "" if value == "\u200b" else value

    @field_serializer("content")
    def _write_placeholder(self, value: str) -> str:
        return value or "\u200b"
