"""Events: what was said or done in a session, in order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from threadkeep.domain import limits
from threadkeep.errors import BadRequest, Invalid

EMITTERS = ("user", "agent")


class Event(msgspec.Struct, gc=False):
    """An event as it is kept. `body` is the JSON text that came.

    A struct and no dataclass: a history makes ten thousands, and this one is made in a third of the time.
    """

    sequence_id: int
    body: str
    type: str | None
    emitter_type: str
    emitter_id: str | None
    created_at: int
    """Microseconds since 1970; also the version token: every change gives a later one."""
    deduplication_key: str | None = None
    lookup_keys: str | None = None
    """The JSON list of the keys that it is found by, where it has any."""


@dataclass(slots=True)
class EventDraft:
    """What a caller says of an event that is to be appended.

    `content` is `body.content` where the body has one: the only part of a body that has a rule.
    """

    body: str
    content: str | None
    type: str | None
    emitter_type: str
    emitter_id: str | None
    deduplication_key: str | None = None
    lookup_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventChange:
    """What a PATCH says of one event; None is not mentioned. `token` is the `createdAt` that the caller holds.

    `lookup_keys` come to those that the event has.
    """

    sequence_id: int
    body: str | None = None
    content: str | None = None
    type: str | None = None
    emitter_type: str | None = None
    emitter_id: str | None = None
    token: int | None = None
    lookup_keys: tuple[str, ...] = ()


def check_draft(draft: EventDraft, max_content: int) -> None:
    """Raise Invalid where the draft breaks a limit."""
    _check_body(draft.body, draft.content, max_content)
    limits.check_text(draft.type, limits.EVENT_TYPE, "type", minimum=1)
    _check_emitter(draft.emitter_type, draft.emitter_id)
    if draft.deduplication_key is not None:
        limits.check_deduplication_key(draft.deduplication_key)
    if draft.lookup_keys:
        limits.check_lookup_keys(draft.lookup_keys)


def check_change(change: EventChange, max_content: int) -> None:
    """Raise Invalid where the change breaks a limit or says nothing."""
    if change.body is None and change.type is None and change.emitter_type is None and not change.lookup_keys:
        raise Invalid("Nothing to change: give at least one of body, type, emitter, lookupKeys")
    limits.check_lookup_keys(change.lookup_keys)
    if change.body is not None:
        _check_body(change.body, change.content, max_content)
    limits.check_text(change.type, limits.EVENT_TYPE, "type", minimum=1)
    if change.emitter_type is not None:
        _check_emitter(change.emitter_type, change.emitter_id)


def check_distinct_keys(drafts: Sequence[EventDraft]) -> None:
    """Raise Invalid where two events of a batch have one deduplication key."""
    seen: dict[str, int] = {}
    for index, draft in enumerate(drafts):
        key = draft.deduplication_key
        if key is not None and seen.setdefault(key, index) != index:
            raise Invalid(
                f"The deduplication key {key!r} is that of event {seen[key]} too", ["events", index, "deduplicationKey"]
            )


def check_distinct_lookups(drafts: Sequence[EventDraft]) -> None:
    """Raise Invalid where two events of one type have one lookup key."""
    seen: dict[tuple[str | None, str], int] = {}
    for index, draft in enumerate(drafts):
        for key in draft.lookup_keys:
            first = seen.setdefault((draft.type, key), index)
            if first != index:
                raise Invalid(f"The lookup key {key!r} is that of event {first} too", ["events", index, "lookupKeys"])


def check_distinct(changes: Sequence[EventChange]) -> None:
    """Raise Invalid where one event is named twice in a batch."""
    seen: set[int] = set()
    for index, change in enumerate(changes):
        if change.sequence_id in seen:
            raise Invalid(f"Event {change.sequence_id} is named twice", ["events", index, "sequenceId"])
        seen.add(change.sequence_id)


def check_participant(
    emitter_type: str, emitter_id: str | None, participants: Collection[str], where: str = ""
) -> None:
    """Raise BadRequest where a user is no participant of the session."""
    if emitter_type == "user" and emitter_id not in participants:
        raise BadRequest(f"{where}The emitter {emitter_id!r} is not one of the session's participants")


def _check_body(body: str, content: str | None, max_content: int) -> None:
    limits.check_text(content, max_content, "body", "content", minimum=1)
    limits.check_bytes(limits.byte_length(body), limits.BODY_BYTES, "body")


def _check_emitter(emitter_type: str, emitter_id: str | None) -> None:
    if emitter_type not in EMITTERS:
        raise Invalid(f"{emitter_type!r} is none of {', '.join(EMITTERS)}", ["emitter", "type"])
    if emitter_type == "user" and emitter_id is None:
        raise BadRequest("An emitter of type user needs an id that is one of the session's participants")
    limits.check_text(emitter_id, limits.PARTICIPANT, "emitter", "id")
