"""Events on the wire."""

from typing import Any, NotRequired, TypedDict


class Emitter(TypedDict):
    """Who produced an event: `type` is `user` or `agent`; a user needs an `id`."""

    type: str
    id: NotRequired[str | None]


class NewEvent(TypedDict):
    """One event to append."""

    body: dict[str, Any]
    emitter: Emitter
    type: NotRequired[str | None]
    deduplicationKey: NotRequired[str | None]
    lookupKeys: NotRequired[list[str] | None]


class EventFields(TypedDict, total=False):
    """What a PATCH may change; at least one. `body` replaces the whole body, `lookupKeys` come to those there are."""

    body: dict[str, Any]
    type: str | None
    emitter: Emitter
    lookupKeys: list[str]


class EventPatch(EventFields):
    """One item of a batch PATCH; `createdAt` is the version token that the caller holds."""

    sequenceId: int
    createdAt: NotRequired[str]


class Event(TypedDict):
    """An event as the service returns it. `createdAt` is also its version token.

    `deduplicationKey` and `lookupKeys` are there where the event has some.
    """

    sequenceId: int
    body: dict[str, Any]
    eventType: str | None
    emitterType: str
    emitterId: str | None
    createdAt: str
    deduplicationKey: NotRequired[str]
    lookupKeys: NotRequired[list[str]]


class SpaceEvent(Event):
    """An event that was asked for in its space."""

    sessionId: str
