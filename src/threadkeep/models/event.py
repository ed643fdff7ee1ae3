"""Events of the synchronous SDK, and the dicts that make and change them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NotRequired, Self, TypedDict

from threadkeep import clock
from threadkeep.contract import events as wire
from threadkeep.contract.events import Emitter

__all__ = ["Emitter", "Event", "EventUpdate", "NewEvent"]


class NewEvent(TypedDict):
    """One event for `Session.post_events`."""

    body: dict[str, Any]
    emitter: Emitter
    event_type: NotRequired[str | None]
    deduplication_key: NotRequired[str | None]
    lookup_keys: NotRequired[Sequence[str] | None]


class EventUpdate(TypedDict):
    """One change for `Session.update_events`: `sequence_id`, and at least one of the others but `created_at`.

    With `created_at`, the whole batch is refused where the event has changed since then.
    """

    sequence_id: int
    body: NotRequired[dict[str, Any]]
    event_type: NotRequired[str | None]
    emitter: NotRequired[Emitter]
    lookup_keys: NotRequired[Sequence[str]]
    created_at: NotRequired[datetime | str | None]


class Event:
    """A message or state change in a `Session`; made by its `post_event`, `events` and `update_event`.

    Attributes:
        body: The payload, exactly as it was sent.
        event_type: The application's label.
        emitter_type: `user` or `agent`.
        emitter_id: The id of who emitted it.
        sequence_id: The place in the session, from 1, without gaps.
        created_at: When it was created or last changed, in UTC; its version token for `update_event`.
        deduplication_key: The key that nothing else in the session has, if it was given one.
        lookup_keys: The keys that it is found by in its space.
        session_id: The id of its session, where it was found in its space.
    """

    def __init__(
        self,
        body: dict[str, Any] | None = None,
        event_type: str | None = None,
        emitter_type: str | None = None,
        emitter_id: str | None = None,
        sequence_id: int | None = None,
        created_at: datetime | None = None,
        deduplication_key: str | None = None,
        lookup_keys: Sequence[str] = (),
        session_id: str | None = None,
    ) -> None:
        self.body = body
        self.event_type = event_type
        self.emitter_type = emitter_type
        self.emitter_id = emitter_id
        self.sequence_id = sequence_id
        self.created_at = created_at
        self.deduplication_key = deduplication_key
        self.lookup_keys = list(lookup_keys)
        self.session_id = session_id

    @classmethod
    def _read(cls, row: wire.Event, session_id: str | None = None) -> Self:
        return cls(
            row["body"],
            row["eventType"],
            row["emitterType"],
            row["emitterId"],
            row["sequenceId"],
            read_moment(row["createdAt"]),
            row.get("deduplicationKey"),
            row.get("lookupKeys", ()),
            session_id,
        )

    def __repr__(self) -> str:
        return f"Event(sequence_id={self.sequence_id!r}, event_type={self.event_type!r}, body={self.body!r})"


def read_moment(text: str) -> datetime:
    """A timestamp of the wire as a datetime in UTC. Raises ValueError where it is none."""
    return clock.to_datetime(clock.parse_timestamp(text))


def write_moment(moment: datetime | str | None) -> str | None:
    """A version token for the wire, to the microsecond; a naive datetime counts as UTC."""
    return clock.format_timestamp(clock.from_datetime(moment)) if isinstance(moment, datetime) else moment
