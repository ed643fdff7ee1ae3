"""How far the memories of a session are extracted, and how an extraction goes. The rules, without I/O."""

from dataclasses import dataclass
from typing import Literal

State = Literal["none", "pending", "running", "extracted", "nothing found", "failed"]
ATTEMPTS = 10
"""Attempts after which an extraction has failed; an operator may set another number."""
_LONGEST_WAIT = 300
"""Seconds between two attempts at most, unless the endpoint asks for more."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """How the extraction of a session stands. Times in microseconds since 1970."""

    state: State
    read_to: int = 0
    """The number up to which its events were read, each once."""
    wanted_to: int = 0
    """The number up to which they are to be read."""
    found: int = 0
    """Memories that were added, changed or deleted since it was last asked for."""
    attempts: int = 0
    """Attempts that failed since the last one that did not."""
    error: str | None = None
    """Why the last attempt failed, or what it waits for."""
    requested_at: int | None = None
    updated_at: int | None = None


NONE = Extraction("none")
"""Nobody has asked for it."""


def summary(extraction: Extraction) -> str:
    """In a few words: `extracted 3`, `nothing found`, `failed: why`."""
    if extraction.state == "extracted":
        return f"extracted {extraction.found}"
    if extraction.error is not None and extraction.state in ("pending", "failed"):
        return f"{extraction.state}: {extraction.error}"
    return extraction.state


def retry_at(attempts: int, most: int, retry_after: float | None, now: int) -> int | None:
    """When an extraction that failed so often is tried again; None where it has failed for good.

    After 2, 4, 8 ... seconds, at most five minutes, and not before the endpoint wants to be asked again.
    """
    if attempts >= most:
        return None
    seconds = min(1 << min(attempts, 9), _LONGEST_WAIT)
    return now + int(max(seconds, retry_after or 0) * 1_000_000)
