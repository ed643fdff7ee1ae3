"""Memories: what sessions leave behind. Their scope, where they came from, and how they change."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from threadkeep.domain import limits
from threadkeep.errors import Invalid

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
SCOPE_FIELDS = ("user_id", "agent_id", "app_id", "run_id")


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Whom a memory is about. Scopes never mix: in consolidation a memory meets those of an equal scope only."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None

    @property
    def key(self) -> str:
        """The same text for equal scopes, and for no others."""
        return json.dumps([self.user_id, self.agent_id, self.app_id, self.run_id])


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Events that a memory came from, all of one session of its space."""

    session_id: str
    sequence_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as it is kept; times in microseconds since 1970."""

    id: str
    space_id: str
    scope: MemoryScope
    text: str
    metadata: str | None
    """A JSON object as the text that came."""
    categories: tuple[str, ...]
    attributed_to: str | None
    """Who said it: a participant of the session, or a role."""
    expiration_date: str | None
    """YYYY-MM-DD, the last day on which it counts."""
    created_at: int
    updated_at: int
    sources: tuple[MemorySource, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """What consolidation decides. None leaves as it is, except in an ADD.

    The sources of an UPDATE are added to those that the memory has.
    """

    event: Literal["ADD", "UPDATE", "DELETE"]
    memory_id: str | None = None
    """None in an ADD: the memory gets an id."""
    text: str | None = None
    old_text: str | None = None
    """What the memory said when the decision was made: where it says something else by now, nothing is done."""
    sources: tuple[MemorySource, ...] = ()
    attributed_to: str | None = None
    categories: tuple[str, ...] | None = None
    metadata: str | None = None
    expiration_date: str | None = None
    created_at: int | None = None
    """When an ADD was said, where that is not now."""


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """What a caller changes of a memory by hand; None leaves as it is."""

    text: str | None = None
    metadata: str | None = None
    expiration_date: str | None = None
    clears_expiration: bool = False
    updated_at: int | None = None
    """The time that the change has, where that is not now."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a memory's history."""

    number: int
    """From 1, in the order in which it happened."""
    event: Literal["ADD", "UPDATE", "DELETE"]
    old_text: str | None
    new_text: str | None
    attributed_to: str | None
    sources: tuple[MemorySource, ...]
    created_at: int


def check_scope(scope: MemoryScope) -> None:
    """Raise Invalid where no id is given, or one is too long."""
    given = {name: getattr(scope, name) for name in SCOPE_FIELDS if getattr(scope, name) is not None}
    if not given:
        raise Invalid(f"A memory is about somebody: give at least one of {', '.join(SCOPE_FIELDS)}", ["user_id"])
    for name, value in given.items():
        limits.check_text(value, limits.SCOPE_ID, name, minimum=1)


def check_change(change: MemoryChange) -> None:
    """Raise Invalid where a change breaks a limit."""
    if change.event == "ADD" and change.text is None:
        raise Invalid("A memory has a text", ["text"], "missing")
    _check(change.text, change.metadata, change.expiration_date)
    limits.check_text(change.attributed_to, limits.SCOPE_ID, "attributed_to")
    check_categories(change.categories or ())


def check_edit(edit: MemoryEdit) -> None:
    """Raise Invalid where an edit breaks a limit or says nothing."""
    if edit.text is None and edit.metadata is None and edit.expiration_date is None and not edit.clears_expiration:
        raise Invalid("Nothing to change: give at least one of text, metadata, expiration_date")
    _check(edit.text, edit.metadata, edit.expiration_date)


def check_categories(categories: Sequence[str]) -> None:
    """Raise Invalid where there are too many categories, or one is too long."""
    limits.check_count(len(categories), limits.CATEGORIES, "categories")
    for index, category in enumerate(categories):
        limits.check_text(category, limits.CATEGORY, "categories", index, minimum=1)


def parse_date(text: str, *loc: str | int) -> str:
    """A day as YYYY-MM-DD. Raises Invalid."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        date.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text!r} is no day such as 2026-12-31", loc, "date_parsing") from None
    return text


def sources_to_json(sources: Sequence[MemorySource]) -> str:
    return json.dumps([[source.session_id, list(source.sequence_ids)] for source in sources])


def sources_from_json(kept: str) -> tuple[MemorySource, ...]:
    """The sources of a text that `sources_to_json` wrote."""
    return tuple(MemorySource(session_id, tuple(numbers)) for session_id, numbers in json.loads(kept))


def merged_sources(known: Sequence[MemorySource], more: Sequence[MemorySource]) -> tuple[MemorySource, ...]:
    """All of them, each session and each number once, in order."""
    return group_sources(
        sorted({(each.session_id, number) for each in (*known, *more) for number in each.sequence_ids})
    )


def new_sources(known: Sequence[MemorySource], more: Sequence[MemorySource]) -> tuple[MemorySource, ...]:
    """Those of `more` that are not known."""
    places = {(each.session_id, number) for each in known for number in each.sequence_ids}
    return group_sources(sorted({(each.session_id, number) for each in more for number in each.sequence_ids} - places))


def group_sources(places: Iterable[tuple[str, int]]) -> tuple[MemorySource, ...]:
    """The sources of pairs of session and number that are in order."""
    found: dict[str, list[int]] = {}
    for session_id, number in places:
        found.setdefault(session_id, []).append(number)
    return tuple(MemorySource(session_id, tuple(numbers)) for session_id, numbers in found.items())


def _check(text: str | None, metadata: str | None, expiration_date: str | None) -> None:
    limits.check_text(text, limits.MEMORY_TEXT, "text", minimum=1)
    if metadata is not None:
        limits.check_bytes(limits.byte_length(metadata), limits.METADATA_BYTES, "metadata")
    if expiration_date is not None:
        parse_date(expiration_date, "expiration_date")
