"""Events that an application wants kept as they came, such as CUSTOM ones: none unless it asks for them. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from threadkeep.chat_history.constants import MessageStatus

Fields = Mapping[str, Any]
KeepEvents = Collection[str] | Callable[[str, Fields], bool]
"""Types of events, or what says of an event, by its type and its fields under their wire names, whether it is kept."""


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """One event: its type, its fields under their wire names, and when it came."""

    type: str
    fields: Fields
    timestamp: datetime


@dataclass(slots=True, eq=False)
class KeptEvents:
    """The events of a run that are kept, in order. `stored` of them are in the store.

    The writer takes them like a row: `status` and `unsaved` say what those of a row say.
    """

    events: list[KeptEvent] = field(default_factory=list)
    stored: int = 0
    status: MessageStatus = MessageStatus.ACTIVE
    unsaved: int = 0


def is_kept(keep: KeepEvents, kind: str, fields: Fields) -> bool:
    """Whether an event is to be kept."""
    return keep(kind, fields) if callable(keep) else kind in keep
