"""Requests of the mem0 wire: what its clients of all versions send, read into the terms of the domain.

Whatever they send beyond this is passed over, as the platform does.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from threadkeep import clock
from threadkeep.api.json import Reader
from threadkeep.domain import limits, memory_filter
from threadkeep.domain.memory import SCOPE_FIELDS, MemoryChange, MemoryEdit, MemoryScope, parse_date
from threadkeep.domain.memory_filter import Filter
from threadkeep.errors import Invalid
from threadkeep.services.memories import Wish, today

TOP_K = 10
THRESHOLD = 0.1
PAGE_SIZE = 100
_AMBIGUOUS = "Say whose memories are meant: filters with user_id, agent_id, app_id or run_id; '*' is anybody's"


def _nothing() -> Raw:
    return Raw(b"null")


def _says(**schema: Any) -> Any:
    return Annotated[Raw, Meta(extra_json_schema=schema)]


Metadata = _says(type=["object", "null"])
Filters = _says(type=["object", "null"], description="In the grammar of mem0: AND, OR, NOT, fields and operators.")
Moment = int | float | str
_Text = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": limits.MEMORY_TEXT})]
_TopK = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": limits.MEMORIES_FOUND})]
_Threshold = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
_Page = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": limits.INTEGER // limits.MEMORY_PAGE})]
_PageSize = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": limits.MEMORY_PAGE})]
_Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class ScopedIn(Struct, kw_only=True):
    """Whom memories are about, beside the filters or in them."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    filters: Filters = field(default_factory=_nothing)  # type: ignore[valid-type]
    output_format: str | None = None


class MessageIn(Struct):
    """One message of a conversation. Of a content in parts, those of text count."""

    role: str = "user"
    content: str | list[Any] | dict[str, Any] | None = None


class AddIn(ScopedIn, kw_only=True):
    """Messages to take memories from, or to keep as they are (`infer: false`)."""

    messages: list[MessageIn] | MessageIn | str | None = None
    metadata: Metadata = field(default_factory=_nothing)  # type: ignore[valid-type]
    infer: bool | None = None
    timestamp: Moment | None = None
    expiration_date: _Day | None = None
    custom_categories: list[Any] | dict[str, Any] | None = None
    custom_instructions: str | None = None
    agent_custom_instructions: str | None = None
    includes: str | None = None
    excludes: str | None = None
    categories: list[str] | None = None


class ListIn(ScopedIn, kw_only=True):
    """Which memories to list."""

    start_date: Moment | None = None
    end_date: Moment | None = None
    categories: list[str] | None = None
    keywords: str | None = None
    show_expired: bool | None = None
    page: _Page | None = None
    page_size: _PageSize | None = None


class SearchIn(ScopedIn, kw_only=True):
    """What to look for, and among which memories."""

    query: str = ""
    top_k: _TopK | None = None
    limit: _TopK | None = None
    threshold: _Threshold | None = None
    metadata: Metadata = field(default_factory=_nothing)  # type: ignore[valid-type]
    categories: list[str] | None = None
    show_expired: bool | None = None
    reference_date: Moment | None = None


class UpdateIn(Struct):
    """Changes to a memory; a null expiration_date clears it, what else is left out or null stays."""

    text: _Text | None = None
    metadata: Metadata = field(default_factory=_nothing)  # type: ignore[valid-type]
    timestamp: Moment | None = None
    expiration_date: _Day | UnsetType | None = UNSET


class BatchItemIn(Struct):
    """One memory of a batch."""

    memory_id: str = ""
    text: _Text | None = None
    metadata: Metadata = field(default_factory=_nothing)  # type: ignore[valid-type]


class BatchIn(Struct):
    """Memories to change or to delete, all or none."""

    memories: list[BatchItemIn] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to be added: messages of a role and a text each."""

    scope: MemoryScope
    messages: list[tuple[str, str]]
    metadata: str | None
    expiration_date: str | None
    said_at: int | None

    def drafts(self) -> list[MemoryChange]:
        """A memory for each message, as it is."""
        return [
            MemoryChange(
                "ADD",
                text=text,
                attributed_to=role,
                metadata=self.metadata,
                expiration_date=self.expiration_date,
                created_at=self.said_at,
            )
            for role, text in self.messages
        ]


def addition(body: AddIn, reader: Reader) -> Addition:
    """Raises Invalid."""
    scope = {name: reader.optional_text(getattr(body, name)) for name in SCOPE_FIELDS}
    inside = _object(body.filters, reader, "filters")
    if inside is not None:
        named = memory_filter.scope_of(memory_filter.parse(inside, "filters"))
        scope = {name: value if value is not None else named.get(name) for name, value in scope.items()}
    messages = [message for message in _messages(body.messages, reader) if message[1].strip()]
    if not messages:
        raise Invalid("Give at least one message with a text", ["messages"], "missing")
    expires = reader.optional_text(body.expiration_date)
    return Addition(
        MemoryScope(**scope),
        messages,
        _object_text(body.metadata, reader, "metadata"),
        None if expires is None else parse_date(expires, "expiration_date"),
        _moment(body.timestamp, reader, "timestamp"),
    )


def inference(body: AddIn, wanted: Addition, reader: Reader) -> dict[str, Any]:
    """The same, as it is handed to whoever infers memories from the messages. Raises Invalid."""
    texts = ("custom_instructions", "agent_custom_instructions", "includes", "excludes")
    return {
        "messages": [{"role": role, "content": text} for role, text in wanted.messages],
        "scope": {name: getattr(wanted.scope, name) for name in SCOPE_FIELDS},
        "metadata": _object(body.metadata, reader, "metadata"),
        "expiration_date": wanted.expiration_date,
        "timestamp": wanted.said_at,
        **{name: reader.optional_text(getattr(body, name)) for name in texts},
        "custom_categories": body.custom_categories,
        "categories": None if body.categories is None else list(map(reader.text, body.categories)),
    }


def listed(body: ListIn, reader: Reader) -> Filter:
    """Raises Invalid."""
    times = {"gte": _moment(body.start_date, reader, "start_date"), "lte": _moment(body.end_date, reader, "end_date")}
    return memory_filter.both(
        _filter(body, reader),
        *(memory_filter.Condition("created_at", name, at) for name, at in times.items() if at is not None),
        *_categories(body.categories, reader),
        *([memory_filter.parse({"keywords": reader.text(body.keywords)})] if body.keywords is not None else []),
    )


def wish(body: SearchIn, reader: Reader) -> Wish:
    """Raises Invalid."""
    metadata = _object(body.metadata, reader, "metadata")
    wanted = memory_filter.both(
        _filter(body, reader),
        *_categories(body.categories, reader),
        *([memory_filter.parse({"metadata": metadata})] if metadata else []),
    )
    limit = body.top_k if body.top_k is not None else body.limit
    at = _moment(body.reference_date, reader, "reference_date")
    return Wish(
        reader.text(body.query),
        wanted,
        TOP_K if limit is None else limit,
        THRESHOLD if body.threshold is None else body.threshold,
        "" if body.show_expired else today() if at is None else clock.to_datetime(at).date().isoformat(),
    )


def edit(body: UpdateIn, reader: Reader) -> MemoryEdit:
    """Raises Invalid."""
    expires = None if isinstance(body.expiration_date, UnsetType) else reader.optional_text(body.expiration_date)
    return MemoryEdit(
        reader.optional_text(body.text),
        _object_text(body.metadata, reader, "metadata"),
        None if expires is None else parse_date(expires, "expiration_date"),
        body.expiration_date is None,
        _moment(body.timestamp, reader, "timestamp"),
    )


def of_ids(ids: dict[str, str]) -> Filter:
    """The filter of a query that names ids. Raises Invalid where it names none."""
    if not ids:
        raise Invalid("Give at least one of user_id, agent_id, app_id, run_id; '*' is anybody's", ["user_id"])
    return memory_filter.parse(ids)


def _filter(body: ScopedIn, reader: Reader) -> Filter:
    inside = _object(body.filters, reader, "filters")
    beside = {name: reader.text(value) for name in SCOPE_FIELDS if (value := getattr(body, name)) is not None}
    found = memory_filter.both(memory_filter.parse(inside or {}, "filters"), memory_filter.parse(beside))
    if not memory_filter.names_a_scope(found):
        raise Invalid(_AMBIGUOUS, ["filters"], "missing")
    return found


def _categories(wanted: list[str] | None, reader: Reader) -> list[Filter]:
    if not wanted:
        return []
    return [memory_filter.parse({"categories": {"in": list(map(reader.text, wanted))}})]


def _messages(given: list[MessageIn] | MessageIn | str | None, reader: Reader) -> Iterable[tuple[str, str]]:
    if isinstance(given, str):
        return [("user", reader.text(given))]
    messages = [given] if isinstance(given, MessageIn) else given or []
    return [(reader.text(message.role), reader.text(_text_of(message.content))) for message in messages]


def _text_of(content: str | list[Any] | dict[str, Any] | None) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _object(raw: Raw, reader: Reader, name: str) -> dict[str, Any] | None:
    text = _object_text(raw, reader, name)
    if text is None:
        return None
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError):
        raise Invalid(f"{name} holds a number or a nesting that is not served here", [name]) from None


def _object_text(raw: Raw, reader: Reader, name: str) -> str | None:
    kept = bytes(raw)
    if kept == b"null":
        return None
    if not kept.startswith(b"{"):
        raise Invalid(f"{name} is a JSON object", [name], "dict_type")
    return reader.raw(raw)


def _moment(value: Moment | None, reader: Reader, name: str) -> int | None:
    """Microseconds of a timestamp, of a day, or of seconds since 1970."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            text = reader.text(value)
            if len(text) == 10:
                return clock.from_datetime(datetime.fromisoformat(text))
            return clock.parse_timestamp(text)
        return clock.from_datetime(datetime.fromtimestamp(value, UTC))
    except (ValueError, OverflowError, OSError):
        raise Invalid(f"{value!r} is no time such as 2026-11-30T12:00:00Z, or seconds since 1970", [name]) from None
