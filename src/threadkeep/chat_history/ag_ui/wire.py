"""AG-UI on the wire, read leniently and passed on verbatim: what an intermediary needs.

Parsing with the protocol's models changes real streams: nulls go, string timestamps are rewritten, unknown types raise.
"""

import json
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json

from threadkeep.chat_history.ag_ui.shallow import read_shallow

_NEVER_FOLDED = frozenset({"type", "raw_event", "rawEvent"})


class WireEvent:
    """One event as the JSON bytes that came.

    `raw` is what to send on; `fields` is a lenient reading of it, empty where it is no JSON object (`is_object` tells);
    `type` is the event's type, empty where it has none.
    """

    __slots__ = ("fields", "is_object", "raw", "type")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        found = _read(raw)
        self.is_object = found is not None
        self.fields: Mapping[str, Any] = found or {}
        kind = self.fields.get("type")
        self.type = kind if isinstance(kind, str) else ""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "WireEvent":
        """The event with these fields, under their wire names."""
        return cls(_dump(fields))

    def __repr__(self) -> str:
        return f"WireEvent({self.raw[:200]!r})"


class WireInput:
    """A RunAgentInput as the JSON object that came, under the attribute names of the protocol's own model.

    `fields` is the object. `messages` starts as its list of dicts; the storage agent puts the replayed history there.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        self.thread_id: str = fields["threadId"]
        self.run_id: str = fields["runId"]
        self.parent_run_id: str | None = fields.get("parentRunId")
        self.protocol_version: str | None = fields.get("protocolVersion")
        self.messages: list[Any] = list(fields.get("messages") or [])
        self.tools: list[Any] = list(fields.get("tools") or [])
        self.context: list[Any] = list(fields.get("context") or [])
        self.resume: list[Any] | None = fields.get("resume")
        self.state: Any = fields.get("state")
        self.forwarded_props: Any = fields.get("forwardedProps")


def event_type(event: object) -> str:
    """The type of a WireEvent, a mapping or a model, as a string; empty where it has none."""
    kind = event.get("type") if isinstance(event, Mapping) else getattr(event, "type", None)
    if isinstance(kind, Enum):
        kind = kind.value
    return kind if isinstance(kind, str) else ""


def event_fields(event: object) -> Mapping[str, Any]:
    """The fields of a WireEvent, a mapping or a model under their wire names, with plain values."""
    if isinstance(event, WireEvent):
        return event.fields
    if isinstance(event, BaseModel):
        return _model_fields(event)
    return event if isinstance(event, Mapping) else {}


def event_json(event: object) -> bytes:
    """The bytes to send: those that came, or the model's JSON under wire names without the fields it leaves out."""
    if isinstance(event, WireEvent):
        return event.raw
    if not isinstance(event, BaseModel):
        return _dump(event_fields(event))
    try:
        return event.model_dump_json(by_alias=True, exclude_none=_writes_nulls(type(event))).encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        # Half a surrogate pair is legal JSON as an escape, but has no UTF-8.
        return _dump(_model_dump(event))


def message_fields(message: object) -> Mapping[str, Any]:
    """The fields of a message, a tool or a resume entry under their wire names."""
    if isinstance(message, BaseModel):
        hidden = getattr(type(message), "__not_on_the_wire__", None)
        return _model_dump(message, exclude=hidden)
    return message if isinstance(message, Mapping) else {}


def input_json(run_input: object) -> bytes:
    """The JSON of a run's input with the messages that it has now; everything else of a WireInput is as it came."""
    if isinstance(run_input, WireInput):
        fields: Mapping[str, Any] = run_input.fields
    else:
        fields = _model_dump(run_input, exclude={"messages"}) if isinstance(run_input, BaseModel) else {}
    messages = [message_fields(message) for message in getattr(run_input, "messages", None) or []]
    return _dump({**fields, "messages": messages})


def read_object(raw: bytes) -> Mapping[str, Any]:
    """The JSON object in `raw`, or an empty one where it holds anything else."""
    return _read(raw) or {}


def _read(raw: bytes) -> Mapping[str, Any] | None:
    try:
        value = from_json(raw)
    except ValueError:
        # The slower reader takes what the fast one refuses: lone surrogates, bytes that are no UTF-8, long numbers.
        text = raw.decode("utf-8-sig", "replace")
        try:
            value = json.loads(text, parse_int=_read_integer)
        except RecursionError:
            value = read_shallow(text, _read_integer)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _read_integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        # Python reads no number of more than some thousand digits.
        return float(text)


def _model_fields(model: BaseModel) -> dict[str, Any]:
    names = _wire_names(type(model))
    fields = {
        names.get(name, name): value if isinstance(value, str | int | float) else _plain(value)
        for name, value in model.__dict__.items()
        if value is not None and name not in _NEVER_FOLDED
    }
    if model.__pydantic_extra__:
        fields.update(model.__pydantic_extra__)
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _model_dump(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _model_dump(model: BaseModel, exclude: set[str] | None = None) -> dict[str, Any]:
    return model.model_dump(by_alias=True, exclude=exclude, exclude_none=_writes_nulls(type(model)), warnings=False)


@lru_cache(maxsize=512)
def _wire_names(model: type[BaseModel]) -> dict[str, str]:
    return {
        name: info.serialization_alias or info.alias or name
        for name, info in model.model_fields.items()
        if (info.serialization_alias or info.alias or name) != name
    }


@lru_cache(maxsize=512)
def _writes_nulls(model: type[BaseModel]) -> bool:
    """Whether a model must be told to leave out what is not set; newer releases of the protocol need no telling."""
    return not hasattr(model, "_omittable_keys")


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=_plain).encode()
