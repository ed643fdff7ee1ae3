"""Extractions on the wire."""

from typing import Any, NotRequired, TypedDict


class NewExtraction(TypedDict):
    """The body of `POST .../sessions/{sessionId}/extract/`; all of it may be left out."""

    softDelete: NotRequired[bool]
    agentId: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]


class Extraction(TypedDict):
    """How the extraction of a session stands."""

    state: str
    summary: str
    memories: int
    attempts: int
    error: str | None
    lastSequenceId: int
    requestedAt: str | None
    updatedAt: str | None
