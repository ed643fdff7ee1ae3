"""Interrupts: questions that a run ends with, and that a later run of the thread answers once."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep import clock

OPEN = "open"
RESOLVED = "resolved"
CANCELLED = "cancelled"
EXPIRED = "expired"

ID_BYTES = 500
"""UTF-8 bytes of an interrupt's id at most: it is a part of a key in the database."""

_log = logging.getLogger("threadkeep.interrupts")


@dataclass(frozen=True, slots=True)
class InterruptDraft:
    """An interrupt as its run says it. `payload` is its JSON; `expires_at` is in microseconds since 1970."""

    interrupt_id: str
    payload: str
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt as it is kept. `payload` is its JSON as it came; times are in microseconds since 1970.

    `ended_by` is the run that brought its end to the agent. One that was cancelled without a run has none until the
    next run tells the agent.
    """

    run_id: str
    interrupt_id: str
    place: int
    payload: str
    status: str
    expires_at: int | None
    created_at: int
    ended_at: int | None = None
    ended_by: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the agent has not heard of its end yet."""
        return self.ended_by is None

    def state(self, now: int) -> str:
        """Its status; one that was open for longer than it was meant to has expired."""
        is_late = self.status == OPEN and self.expires_at is not None and self.expires_at <= now
        return EXPIRED if is_late else self.status

    @property
    def call_id(self) -> str | None:
        """The tool call that it is about."""
        fields = json.loads(self.payload)
        call_id = fields.get("toolCallId") if isinstance(fields, dict) else None
        return call_id if isinstance(call_id, str) else None


def drafts_of(said: Sequence[Any], run_id: str) -> list[InterruptDraft]:
    """The interrupts of a run's outcome, read leniently: what nobody could answer is left out, and the log says so.

    One whose `expiresAt` cannot be read never expires.
    """
    return [*_drafts(said, run_id)]


def _drafts(said: Sequence[Any], run_id: str) -> Iterator[InterruptDraft]:
    for item in said:
        identifier = item.get("id") if isinstance(item, Mapping) else None
        if not isinstance(identifier, str) or not identifier:
            _log.warning("an interrupt without an id is not kept run=%s", run_id)
        elif len(identifier.encode("utf-8", "surrogatepass")) > ID_BYTES:
            _log.warning("an interrupt is not kept: its id is longer than %d bytes run=%s", ID_BYTES, run_id)
        else:
            yield InterruptDraft(identifier, json.dumps(item), _expiry(item.get("expiresAt"), identifier, run_id))


def _expiry(text: object, identifier: str, run_id: str) -> int | None:
    if text is None:
        return None
    try:
        return clock.parse_timestamp(text if isinstance(text, str) else "")
    except ValueError:
        _log.warning("expiresAt %r of interrupt %r is no timestamp: it never expires run=%s", text, identifier, run_id)
        return None
