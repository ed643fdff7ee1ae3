"""Interrupts: questions that a run ends with, and that a later run answers once."""

from dataclasses import dataclass

OPEN = "open"
RESOLVED = "resolved"
CANCELLED = "cancelled"
EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class InterruptDraft:
    """An interrupt as its run says it. `payload` is its JSON; `expires_at` is in microseconds since 1970."""

    interrupt_id: str
    payload: str
    expires_at: int | None = None
