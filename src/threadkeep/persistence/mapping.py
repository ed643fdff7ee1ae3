"""How a declared session or event class lies on the wire: one plan per class, made when the class is. Pure."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel

from threadkeep.contract.events import Emitter, Event, EventFields, NewEvent
from threadkeep.contract.sessions import LifecycleStrategy, NewSession, Session, SessionFields
from threadkeep.persistence.codec import decode_description, encode_description
from threadkeep.persistence.markers import KINDS, DRConcurrencyField, DRDeduplicationKey, DRRangeKey, marker_of
from threadkeep.persistence.typed import check_values, dump_values, key_text, key_value, parse_key

MAX_DEDUPLICATION_KEY_CHARACTERS = 72
SESSION_NAMES = frozenset({"participants", "id", "created_at", "version", "lifecycle_strategies"})
LOOKUP_KEYS = "lookup_keys"
EVENT_NAMES = frozenset({"content", "emitter_type", "emitter_id", "sequence_id", "created_at"})


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """Where each field of a session class is kept: `metadata` are the names of those without a marker."""

    model: type[BaseModel]
    prefix: str
    range_keys: tuple[str, ...]
    deduplication_key: str | None
    concurrency: str | None
    metadata: tuple[str, ...]

    @classmethod
    def of(cls, model: type[BaseModel], prefix: str) -> Self:
        """Raises TypeError where the markers contradict each other, ValueError where the prefix cannot be used."""
        kinds: tuple[type | None, ...] = (*KINDS, None)
        places: dict[type | None, list[str]] = {kind: [] for kind in kinds}
        for name, info in model.model_fields.items():
            if name != "participants":
                places[marker_of(name, info.metadata)].append(name)
        for marker in (DRDeduplicationKey, DRConcurrencyField):
            if len(names := places[marker]) > 1:
                marked = f"{len(names)} fields marked {marker.__name__}"
                raise TypeError(f"{model.__name__} has {marked}: {', '.join(names)}")
        encode_description(prefix)
        return cls(
            model,
            prefix,
            tuple(places[DRRangeKey]),
            next(iter(places[DRDeduplicationKey]), None),
            next(iter(places[DRConcurrencyField]), None),
            tuple(places[None]),
        )

    def draft(self, fields: Mapping[str, Any]) -> BaseModel:
        """A checked instance of what `post` was given. Raises TypeError or ValueError that names the field."""
        self._check_names("post", fields, ("participants", *self._settable()))
        # The version that every new session has stands in until the service answers.
        mirrored = {self.concurrency: 1} if self.concurrency else {}
        return check_values(self.model, {**fields, **mirrored})

    def check_patch(self, fields: Mapping[str, Any]) -> None:
        """Raises TypeError or ValueError, naming the field, where one cannot be patched."""
        if self.deduplication_key in fields:
            raise ValueError(f"{self.deduplication_key!r} is the deduplication key; it is fixed when a session is made")
        self._check_names("patch", fields, self._settable())

    def new_session(self, draft: BaseModel, strategies: list[LifecycleStrategy]) -> NewSession:
        """The body of the create."""
        values = dump_values(draft, ("participants", *self.metadata))
        body: NewSession = {
            "participants": values.pop("participants"),
            "description": self.description(draft),
            "metadata": values,
        }
        if strategies:
            body["lifecycleStrategies"] = strategies
        if self.deduplication_key:
            key = dump_values(draft, (self.deduplication_key,)).get(self.deduplication_key)
            if key is not None:
                body["deduplicationKey"] = self._checked_key(key_text(self.deduplication_key, key))
        return body

    def changes(self, changed: BaseModel, row: Session, names: Iterable[str]) -> SessionFields:
        """The body of the patch: every declared field, and whatever else is stored in the session's metadata."""
        declared = present_fields(changed, self.metadata)
        fields: SessionFields = {"metadata": {**stored_metadata(row), **dump_values(changed, declared)}}
        if not set(self.range_keys).isdisjoint(names):
            fields["description"] = self.description(changed)
        return fields

    def description(self, instance: BaseModel) -> str:
        """Raises ValueError or TypeError that names the range key without a usable value."""
        plain = dump_values(instance, self.range_keys)
        return self._encode([key_text(name, plain.get(name)) for name in self.range_keys])

    def deduplication_text(self, value: Any) -> str:
        """What to look for as `deduplicationKey`. Raises ValueError or TypeError that names the field."""
        return self._checked_key(parse_key(self.model, self.deduplication_key or "", value))

    def query(self, filters: Mapping[str, Any]) -> str:
        """What the descriptions of the wanted sessions start with.

        Raises TypeError for an unknown filter, ValueError where the filters are not the leading range keys.
        """
        for name in filters:
            if name not in self.model.model_fields:
                raise TypeError(f"{self.model.__name__}.list() got an unknown filter {name!r}")
            if name not in self.range_keys:
                raise ValueError(f"{self.model.__name__}.list() filters by range keys only, and {name!r} is none")
        for name in self.range_keys[: len(filters)]:
            if name not in filters:
                raise ValueError(f"{self.model.__name__}.list() filters by leading range keys; {name!r} is missing")
        return self._encode([parse_key(self.model, name, filters[name]) for name in self.range_keys[: len(filters)]])

    def holds(self, row: Session) -> bool:
        """Whether a stored session is one of this class."""
        return (row.get("description") or "").startswith(encode_description(self.prefix))

    def values(self, row: Session) -> dict[str, Any]:
        """A stored session's values under field names."""
        metadata = stored_metadata(row)
        values: dict[str, Any] = {name: metadata[name] for name in self.metadata if name in metadata}
        if "participants" in row:
            values["participants"] = row["participants"]
        values.update(self._key_values(row))
        if self.deduplication_key:
            text = row.get("deduplicationKey")
            values[self.deduplication_key] = (
                text if text is None else key_value(self.model, self.deduplication_key, text)
            )
        if self.concurrency:
            values[self.concurrency] = row.get("version")
        return values

    def _key_values(self, row: Session) -> dict[str, Any]:
        try:
            _, keys = decode_description(row.get("description") or "")
        except ValueError:
            return {}
        # A class that has got or lost a range key since the row was stored still reads the keys that both know.
        pairs = zip(self.range_keys, keys, strict=False)
        return {name: key_value(self.model, name, text) for name, text in pairs}

    def _encode(self, keys: list[str]) -> str:
        try:
            return encode_description(self.prefix, keys)
        except ValueError as error:
            raise ValueError(f"{self.model.__name__} ({', '.join(self.range_keys)}): {error}") from error

    def _checked_key(self, text: str) -> str:
        if len(text) > MAX_DEDUPLICATION_KEY_CHARACTERS:
            raise ValueError(
                f"The deduplication key {self.deduplication_key!r} has {len(text)} characters; "
                f"the limit is {MAX_DEDUPLICATION_KEY_CHARACTERS}"
            )
        return text

    def _settable(self) -> tuple[str, ...]:
        key = (self.deduplication_key,) if self.deduplication_key else ()
        return (*key, *self.range_keys, *self.metadata)

    def _check_names(self, method: str, fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in fields:
            if name == self.concurrency:
                raise ValueError(f"{name!r} mirrors the session's version and cannot be set")
            if name not in known:
                what = "cannot set" if name in SESSION_NAMES else "got an unknown field"
                raise TypeError(f"{self.model.__name__}.{method}() {what} {name!r}")


@dataclass(frozen=True, slots=True)
class EventPlan:
    """The fields that an event class keeps in its body, `content` first."""

    model: type[BaseModel]
    body: tuple[str, ...]

    @classmethod
    def of(cls, model: type[BaseModel]) -> Self:
        """Raises TypeError for a marker: those say where a session's fields are kept."""
        for name, info in model.model_fields.items():
            if marker := marker_of(name, info.metadata):
                raise TypeError(f"{model.__name__}.{name} is marked {marker.__name__}, but an event has no such place")
        names = (name for name in model.model_fields if name not in EVENT_NAMES)
        return cls(model, ("content", *names))

    def draft(self, fields: Mapping[str, Any]) -> BaseModel:
        """A checked instance of what `post` was given. Raises TypeError or ValueError that names the field."""
        self.check_names("post", fields)
        return check_values(self.model, fields)

    def without_keys(self, fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The fields without the lookup keys among them, and those. A class may have a field of that name: then none.

        Raises TypeError where the keys are no texts.
        """
        rest = dict(fields)
        if LOOKUP_KEYS in self.body or LOOKUP_KEYS not in rest:
            return rest, []
        given = rest.pop(LOOKUP_KEYS)
        keys = [] if given is None or isinstance(given, str | bytes) else list(given)
        if isinstance(given, str | bytes) or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"lookup_keys of {self.model.__name__} is a list of texts, not {given!r}")
        return rest, keys

    def check_names(self, method: str, fields: Mapping[str, Any]) -> None:
        """Raises TypeError, naming the field, where one is unknown or cannot be set."""
        for name in fields:
            if name not in ("emitter_type", "emitter_id", *self.body):
                what = "cannot set" if name in EVENT_NAMES else "got an unknown field"
                raise TypeError(f"{self.model.__name__}.{method}() {what} {name!r}")

    def new_event(self, draft: BaseModel, event_type: str | None) -> NewEvent:
        """The body of the append."""
        event: NewEvent = {"body": dump_values(draft, self.body), "emitter": _emitter(draft)}
        if event_type is not None:
            event["type"] = event_type
        return event

    def changes(self, changed: BaseModel, row: Event, names: Mapping[str, Any]) -> EventFields:
        """The body of the patch: every declared field, and whatever else is stored in the event's body."""
        fields: EventFields = {"body": {**stored_body(row), **dump_values(changed, present_fields(changed, self.body))}}
        if "emitter_type" in names or "emitter_id" in names:
            fields["emitter"] = _emitter(changed)
        return fields

    def values(self, row: Event) -> dict[str, Any]:
        """A stored event's values under field names."""
        body = stored_body(row)
        values = {name: body[name] for name in self.body if name in body}
        return {**values, "emitter_type": row.get("emitterType"), "emitter_id": row.get("emitterId")}


def stored_metadata(row: Session) -> dict[str, Any]:
    """A stored session's metadata, empty where it has none."""
    metadata: Any = row.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def stored_body(row: Event) -> dict[str, Any]:
    """A stored event's body, empty where it has none."""
    body: Any = row.get("body")
    return body if isinstance(body, dict) else {}


def check_declared_names(model: type, reserved: frozenset[str]) -> None:
    """Raises TypeError where a class declares a field under one of the ORM's own names."""
    try:
        names = inspect.get_annotations(model)
    except NameError:
        # Annotations that are evaluated late, with a name still open: the plan of the class looks again.
        return
    for name in names:
        if name in reserved:
            raise TypeError(f"{model.__name__}.{name}: this field name is reserved")


def present_fields(instance: BaseModel, names: Iterable[str]) -> list[str]:
    """The names without those that the stored row lacks and that have no default: nothing is known to resend."""
    fields = type(instance).model_fields
    return [name for name in names if name in instance.model_fields_set or not fields[name].is_required()]


def _emitter(draft: BaseModel) -> Emitter:
    values = dump_values(draft, ("emitter_type", "emitter_id"))
    emitter: Emitter = {"type": values["emitter_type"]}
    if values.get("emitter_id") is not None:
        emitter["id"] = values["emitter_id"]
    return emitter
