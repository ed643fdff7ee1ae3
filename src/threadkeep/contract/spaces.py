"""Memory spaces on the wire."""

from typing import TypedDict


class SpaceFields(TypedDict, total=False):
    """What a PATCH may change; `null` clears."""

    description: str | None
    llmModelName: str | None
    llmBaseUrl: str | None
    customInstructions: str | None


class NewSpace(SpaceFields, total=False):
    """The body of `POST memory/new/`."""

    deduplicationKey: str | None


class Space(TypedDict):
    """A memory space as the service returns it."""

    memorySpaceId: str
    userId: str
    tenantId: str
    description: str | None
    llmModelName: str | None
    llmBaseUrl: str | None
    customInstructions: str | None
    createdAt: str
    deduplicationKey: str | None
