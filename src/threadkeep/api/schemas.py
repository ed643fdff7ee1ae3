"""The bodies of requests and answers as msgspec sees them; opaque parts stay raw.

Types are checked here, limits by the rules of the domain; `constraints` only shows those to readers.
The keys are those of `contract`; a test compares the two.
"""

from dataclasses import replace
from typing import Annotated, Any, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from threadkeep import clock
from threadkeep.api.constraints import (
    BATCH,
    LOOKUP_KEYS,
    PARTICIPANTS,
    STRATEGIES,
    STRATEGIES_KEPT,
    Body,
    BodyOrNull,
    CustomInstructions,
    DeduplicationKey,
    Description,
    EmitterId,
    EmitterType,
    EventType,
    Id,
    Limit,
    LlmBaseUrl,
    LlmModelName,
    LookupKey,
    Metadata,
    Options,
    Participant,
    SequenceId,
    Strategies,
    StrategyType,
    Timestamp,
    Total,
    Trigger,
    UserId,
    Version,
)
from threadkeep.api.json import Reader
from threadkeep.domain.event import Event, EventChange, EventDraft
from threadkeep.domain.lifecycle import Strategy, parse_strategy
from threadkeep.domain.session import UNSET as NOT_MENTIONED
from threadkeep.domain.session import Session, SessionChange, SessionDraft
from threadkeep.domain.space import Space, SpaceDraft
from threadkeep.errors import Invalid

T = TypeVar("T")


def _null() -> Raw:
    return Raw(b"null")


def _not_given() -> Raw:
    """A raw field that is not there: no JSON value is empty."""
    return Raw(b"")


class NewSpaceIn(Struct, rename="camel"):
    """A memory space to be made."""

    description: Description | None = None
    llm_model_name: LlmModelName | None = None
    llm_base_url: LlmBaseUrl | None = None
    custom_instructions: CustomInstructions | None = None
    deduplication_key: DeduplicationKey | None = None


class SpacePatchIn(Struct, rename="camel"):
    """Changes to a memory space; null clears, what is left out stays."""

    description: Description | UnsetType | None = UNSET
    llm_model_name: LlmModelName | UnsetType | None = UNSET
    llm_base_url: LlmBaseUrl | UnsetType | None = UNSET
    custom_instructions: CustomInstructions | UnsetType | None = UNSET


class SpaceOut(Struct, rename="camel"):
    """A memory space."""

    memory_space_id: Id
    user_id: UserId
    tenant_id: Id
    description: Description | None
    llm_model_name: LlmModelName | None
    llm_base_url: LlmBaseUrl | None
    custom_instructions: CustomInstructions | None
    created_at: Timestamp
    deduplication_key: DeduplicationKey | None


class StrategyIn(Struct, rename="camel"):
    """What happens to a session, when, and how."""

    type: StrategyType
    trigger: Trigger
    opts: Options = field(default_factory=_null)


class NewSessionIn(Struct, rename="camel"):
    """A session to be made."""

    participants: Annotated[list[Participant], PARTICIPANTS]
    lifecycle_strategies: Annotated[list[StrategyIn], STRATEGIES] | None = None
    description: Description | None = None
    metadata: Metadata = field(default_factory=_null)
    deduplication_key: DeduplicationKey | None = None


class SessionPatchIn(Struct, rename="camel"):
    """Changes to a session; null clears description and metadata, what is left out stays."""

    description: Description | UnsetType | None = UNSET
    metadata: Metadata = field(default_factory=_not_given)
    lifecycle_strategies: Annotated[list[StrategyIn], STRATEGIES_KEPT] | UnsetType = UNSET


class SessionOut(Struct, rename="camel"):
    """A session."""

    id: Id
    participants: Annotated[tuple[Participant, ...], PARTICIPANTS]
    description: Description | None
    metadata: Metadata
    created_at: Timestamp
    lifecycle_strategies: Strategies
    version: Version
    deduplication_key: DeduplicationKey | None


class EmitterIn(Struct):
    """Who produced an event."""

    type: EmitterType
    id: EmitterId | None = None


class NewEventIn(Struct, rename="camel"):
    """An event to be appended."""

    body: Body
    emitter: EmitterIn
    type: EventType | None = None
    deduplication_key: DeduplicationKey | None = None
    lookup_keys: Annotated[list[LookupKey], LOOKUP_KEYS] | None = None


class EventBatchIn(Struct, rename="camel"):
    """Events to be appended, all or none."""

    events: Annotated[list[NewEventIn], BATCH]


class EventPatchIn(Struct, rename="camel"):
    """Changes to an event; what is left out or null stays. Lookup keys come to those that it has."""

    body: BodyOrNull = field(default_factory=_not_given)
    type: EventType | None = None
    emitter: EmitterIn | None = None
    lookup_keys: Annotated[list[LookupKey], LOOKUP_KEYS] | None = None


class EventBatchItemIn(EventPatchIn, rename="camel", kw_only=True):
    """Changes to one event of a batch."""

    sequence_id: SequenceId
    created_at: Timestamp | None = None


class EventBatchPatchIn(Struct, rename="camel"):
    """Changes to several events, and events to be appended with them: all or none."""

    events: Annotated[list[EventBatchItemIn], BATCH]
    append: Annotated[list[NewEventIn], BATCH] | None = None


class EventOut(Struct, rename="camel"):
    """An event."""

    sequence_id: SequenceId
    body: Body
    event_type: EventType | None
    emitter_type: EmitterType
    emitter_id: EmitterId | None
    created_at: Timestamp
    deduplication_key: DeduplicationKey | UnsetType = UNSET
    lookup_keys: Annotated[list[LookupKey], LOOKUP_KEYS] | UnsetType = UNSET


class SpaceEventOut(EventOut, rename="camel", kw_only=True):
    """An event that was asked for in its space."""

    session_id: Id


class ItemsOut(Struct):
    """The answer to a batch."""

    items: list[EventOut]


class PatchedOut(ItemsOut):
    """The answer to changes; `appended` is there where events were to be appended."""

    appended: list[EventOut] | UnsetType = UNSET


class PageOut(Struct, Generic[T], rename="camel"):
    """A page of a list; `nextCursor` is there where a cursor was sent, and null at the end."""

    items: list[T]
    total: Total
    offset: Total
    limit: Limit
    next_cursor: str | UnsetType | None = UNSET


class VersionOut(Struct, rename="camel"):
    """The version of the contract that is served."""

    major: int
    minor: int
    version_string: str
    released_version: str
    features: tuple[str, ...]


class _Content(Struct):
    content: str | UnsetType = UNSET


_CONTENT = msgspec.json.Decoder(_Content)


def space_draft(body: NewSpaceIn, reader: Reader) -> SpaceDraft:
    return SpaceDraft(**{name: reader.optional_text(getattr(body, name)) for name in body.__struct_fields__})


def space_fields(body: SpacePatchIn, reader: Reader) -> dict[str, str | None]:
    return {
        name: reader.optional_text(value)
        for name in body.__struct_fields__
        if (value := getattr(body, name)) is not UNSET
    }


def space_out(space: Space) -> SpaceOut:
    return SpaceOut(
        space.id,
        space.user_id,
        space.tenant_id,
        space.description,
        space.llm_model_name,
        space.llm_base_url,
        space.custom_instructions,
        clock.format_timestamp(space.created_at),
        space.deduplication_key,
    )


def session_draft(body: NewSessionIn, reader: Reader) -> SessionDraft:
    return SessionDraft(
        tuple(map(reader.text, body.participants)),
        reader.optional_text(body.description),
        _object_or_null(body.metadata, reader, "metadata"),
        _strategies(body.lifecycle_strategies or (), reader),
        reader.optional_text(body.deduplication_key),
    )


def session_change(body: SessionPatchIn, reader: Reader) -> SessionChange:
    description = body.description
    strategies = body.lifecycle_strategies
    return SessionChange(
        NOT_MENTIONED if isinstance(description, UnsetType) else reader.optional_text(description),
        NOT_MENTIONED if not body.metadata else _object_or_null(body.metadata, reader, "metadata"),
        NOT_MENTIONED if isinstance(strategies, UnsetType) else _strategies(strategies, reader),
    )


def session_out(session: Session) -> SessionOut:
    return SessionOut(
        session.id,
        session.participants,
        session.description,
        Raw((session.metadata or "null").encode()),
        clock.format_timestamp(session.created_at),
        Raw(session.strategies.encode()),
        session.version,
        session.deduplication_key,
    )


def event_draft(body: NewEventIn, reader: Reader, *loc: str | int) -> EventDraft:
    raw, content = _body(body.body, reader, loc)
    emitter = body.emitter
    return EventDraft(
        raw,
        content,
        reader.optional_text(body.type),
        reader.text(emitter.type),
        reader.optional_text(emitter.id),
        reader.optional_text(body.deduplication_key),
        _distinct(body.lookup_keys, reader),
    )


def event_change(
    body: EventPatchIn, reader: Reader, sequence_id: int, created_at: str | None, *loc: str | int
) -> EventChange:
    raw, content = (None, None) if bytes(body.body) in (b"", b"null") else _body(body.body, reader, loc)
    emitter = body.emitter
    return EventChange(
        sequence_id,
        raw,
        content,
        reader.optional_text(body.type),
        None if emitter is None else reader.text(emitter.type),
        None if emitter is None else reader.optional_text(emitter.id),
        None if created_at is None else _token(created_at, (*loc, "createdAt")),
        _distinct(body.lookup_keys, reader),
    )


def with_token(change: EventChange, created_at: str, *loc: str | int) -> EventChange:
    """The change, for an event that must have this `createdAt`. Raises Invalid where it is no timestamp."""
    return replace(change, token=_token(created_at, loc))


def page_out(
    items: list[T], total: int, offset: int, limit: int, next_cursor: str | UnsetType | None = UNSET
) -> PageOut[T]:
    return PageOut(items, total, offset, limit, next_cursor)


def event_out(event: Event) -> EventOut:
    return EventOut(
        event.sequence_id,
        Raw(event.body.encode()),
        event.type,
        event.emitter_type,
        event.emitter_id,
        clock.format_timestamp(event.created_at),
        UNSET if event.deduplication_key is None else event.deduplication_key,
        UNSET if event.lookup_keys is None else cast(Any, Raw(event.lookup_keys.encode())),
    )


def space_event_out(session_id: str, event: Event) -> SpaceEventOut:
    return SpaceEventOut(
        *(getattr(event_out(event), name) for name in EventOut.__struct_fields__), session_id=session_id
    )


def event_line(event: Event) -> EventOut:
    """An event without line breaks. A JSON text has them between its parts only, where a space is as good."""
    shown = event_out(event)
    if "\n" in event.body or "\r" in event.body:
        shown.body = Raw(event.body.replace("\n", " ").replace("\r", " ").encode())
    return shown


def _body(raw: Raw, reader: Reader, loc: tuple[str | int, ...]) -> tuple[str, str | None]:
    """A body as text, and its content. Raises Invalid where it is no object or its content no string."""
    try:
        view = _CONTENT.decode(raw)
    except msgspec.ValidationError:
        _check_object(raw, (*loc, "body"))
        raise Invalid("content is a string", (*loc, "body", "content"), "string_type") from None
    content = None if isinstance(view.content, UnsetType) else reader.text(view.content)
    return reader.raw(raw), content


def _distinct(keys: list[str] | None, reader: Reader) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(reader.text, keys))) if keys else ()


def _object_or_null(raw: Raw, reader: Reader, *loc: str | int) -> str | None:
    if bytes(raw) == b"null":
        return None
    _check_object(raw, loc)
    return reader.raw(raw)


def _check_object(raw: Raw, loc: tuple[str | int, ...]) -> None:
    if not bytes(raw).startswith(b"{"):
        raise Invalid(f"{loc[-1]} is a JSON object", loc, "dict_type")


def _strategies(items: Any, reader: Reader) -> tuple[Strategy, ...]:
    return tuple(
        parse_strategy(
            item.type,
            item.trigger,
            _object_or_null(item.opts, reader, "lifecycleStrategies", index, "opts"),
            "lifecycleStrategies",
            index,
        )
        for index, item in enumerate(items)
    )


def _token(text: str, loc: tuple[str | int, ...]) -> int:
    try:
        return clock.parse_timestamp(text)
    except (ValueError, OverflowError) as error:
        raise Invalid(str(error), loc, "datetime_parsing") from error
