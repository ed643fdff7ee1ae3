"""Sessions: a conversation of participants inside a space."""

import json
from dataclasses import dataclass
from typing import Any, Final

from threadkeep.domain import lifecycle, limits
from threadkeep.errors import Invalid


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it is kept. JSON is held as the text that came; times in microseconds since 1970."""

    space_id: str
    id: str
    participants: tuple[str, ...]
    description: str | None
    metadata: str | None
    strategies: str
    version: int
    deduplication_key: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class SessionDraft:
    """What a caller says of a session that is to be made."""

    participants: tuple[str, ...]
    description: str | None = None
    metadata: str | None = None
    strategies: tuple[lifecycle.Strategy, ...] = ()
    deduplication_key: str | None = None


class Unset:
    """Says that a caller did not mention a field; `None` would clear it."""

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class SessionChange:
    """What a PATCH says; a field that is not mentioned is UNSET."""

    description: str | Unset | None = UNSET
    metadata: str | Unset | None = UNSET
    strategies: tuple[lifecycle.Strategy, ...] | Unset = UNSET

    def is_empty(self) -> bool:
        return all(isinstance(field, Unset) for field in (self.description, self.metadata, self.strategies))


def is_archived(metadata: str | None) -> bool:
    """Whether the metadata says `"archived": true`: such a session is kept, and may be left out of lists."""
    # Nearly no metadata has the word, and reading a large one for nothing would cost.
    if metadata is None or '"archived"' not in metadata:
        return False
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.get("archived") is True


def check_draft(draft: SessionDraft) -> None:
    """Raise Invalid where the draft breaks a limit."""
    limits.check_count(len(draft.participants), limits.PARTICIPANTS, "participants", minimum=1)
    for index, participant in enumerate(draft.participants):
        limits.check_text(participant, limits.PARTICIPANT, "participants", index, minimum=1)
    _check_description_and_metadata(draft.description, draft.metadata)
    lifecycle.check(draft.strategies)
    limits.check_deduplication_key(draft.deduplication_key)


def check_change(change: SessionChange) -> None:
    """Raise Invalid where the change breaks a limit, or would leave the session without a strategy."""
    _check_description_and_metadata(change.description, change.metadata)
    if not isinstance(change.strategies, Unset):
        if not change.strategies:
            raise Invalid("A session keeps at least one lifecycle strategy", ["lifecycleStrategies"])
        lifecycle.check(change.strategies)


def check_needle(description: str | None) -> None:
    """Raise Invalid where a search text is too short for an index of trigrams."""
    if description is not None and len(description) < limits.NEEDLE:
        raise Invalid(
            f"{len(description)} characters; a search needs at least {limits.NEEDLE}", ["description"], "too_short"
        )


def _check_description_and_metadata(description: Any, metadata: Any) -> None:
    if isinstance(description, str):
        limits.check_text(description, limits.DESCRIPTION, "description")
    if isinstance(metadata, str):
        limits.check_bytes(limits.byte_length(metadata), limits.METADATA_BYTES, "metadata")
