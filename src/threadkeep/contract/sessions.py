"""Sessions on the wire."""

from typing import Any, NotRequired, TypedDict


class LifecycleStrategy(TypedDict):
    """One strategy: what happens (`type`), when (`trigger`, exactly one key), and how (`opts`)."""

    type: str
    trigger: dict[str, Any]
    opts: NotRequired[dict[str, Any] | None]


class NewSession(TypedDict):
    """The body of `POST memory/{spaceId}/sessions/`."""

    participants: list[str]
    lifecycleStrategies: NotRequired[list[LifecycleStrategy] | None]
    description: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    deduplicationKey: NotRequired[str | None]


class SessionFields(TypedDict, total=False):
    """What a PATCH may change; `null` clears the first two."""

    description: str | None
    metadata: dict[str, Any] | None
    lifecycleStrategies: list[LifecycleStrategy]


class Session(TypedDict):
    """A session as the service returns it."""

    id: str
    participants: list[str]
    description: str | None
    metadata: dict[str, Any] | None
    createdAt: str
    lifecycleStrategies: list[LifecycleStrategy]
    version: int
    deduplicationKey: str | None
