"""What is too large for a message: long data in parts, and the ends of long texts, as events of their own.

A message is written again and again while it grows, and its event holds 4 MiB at most. So a long value is stored once,
in as many attachment events as it takes, and the message holds a reference to them. Pure; `attachment_events` reads
and writes.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.models import Message
from threadkeep.chat_history.sizes import MAX_BODY_BYTES, SAFE_CHARACTERS, content_room, cut_note, is_cut_note

REFERENCE = "$attachment"
LONG_VALUE = 64 * 1024
"""Characters from which on a value in a part is an attachment."""
# Texts of a message that is too large go out of it down to this length, so that what is left of it is small.
_SHORT_ENOUGH = 64 * 1024
# The JSON of a character takes six bytes at most, that of a printable ASCII one two.
_PIECE, _PRINTABLE_PIECE = MAX_BODY_BYTES // 6 - 1_000, MAX_BODY_BYTES // 2 - 1_000

Find = Callable[[UUID], str | None]


@dataclass(frozen=True, slots=True)
class Attached:
    """A value that goes to attachment events. The same value in the same chat has the same uuid."""

    uuid: UUID
    value: str

    def pieces(self) -> list[str]:
        """The value as it fits into events."""
        size = _PRINTABLE_PIECE if self.value.isascii() and self.value.isprintable() else _PIECE
        return [self.value[start : start + size] for start in range(0, len(self.value), size)] or [""]


@dataclass(slots=True)
class Light:
    """The fields of a message that change when its long values are taken out, and those values."""

    fields: dict[str, Any]
    values: list[Attached]


def attached(chat_uuid: UUID, value: str) -> Attached:
    """A value as what goes to attachment events."""
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return Attached(uuid5(chat_uuid, digest), value)


def take_out(message: Message, chat_uuid: UUID) -> Light | None:
    """What to store of a message that is too large as it is; None where it is not.

    The end of a text is taken out when the text has ended: what still grows would be stored over and over.
    """
    light = Light({}, [])
    take = _taker(light, chat_uuid)
    if message.parts:
        _set(light.fields, "parts", message.parts, _without_long_values(message.parts, take))
    keep = content_room(message.content)
    if len(message.content) > keep and message.status != MessageStatus.ACTIVE:
        light.fields |= {"content": message.content[:keep], "rests": {"content": take(message.content[keep:])}}
    nested = sum(map(_characters, (*message.tool_calls, *message.reasonings)))
    is_large = nested + min(len(message.content), keep) > SAFE_CHARACTERS
    for name in ("tool_calls", "reasonings"):
        items: Sequence[Any] = getattr(message, name)
        lighter = [_lighter(item, is_large, take) for item in items]
        if any(new is not old for new, old in zip(lighter, items, strict=True)):
            light.fields[name] = lighter
    if not light.values:
        return None
    if "rests" in light.fields and is_cut_note(message.error):
        light.fields["error"] = None
    return light


def references_of(message: Message) -> Iterator[UUID]:
    """The uuids of the attachments that a stored message refers to."""
    records: list[Any] = [message, *message.tool_calls, *message.reasonings]
    for record in records:
        yield from _references(getattr(record, "parts", None))
        yield from _references(record.rests)


def references_in(body: Mapping[str, Any]) -> Iterator[UUID]:
    """The same of the body of a message's event, whatever is in it."""
    for record in _records_in(body):
        yield from _references(record.get("parts"))
        yield from _references(record.get("rests"))


def put_back(message: Message, find: Find) -> Message:
    """The message with its long values. A text whose rest is not there stays short and says so."""
    return message.model_copy(
        update={
            **_put_back(message.__dict__, find),
            "tool_calls": [call.model_copy(update=_put_back(call.__dict__, find)) for call in message.tool_calls],
            "reasonings": [step.model_copy(update=_put_back(step.__dict__, find)) for step in message.reasonings],
        }
    )


def put_back_in(body: Mapping[str, Any], find: Find) -> dict[str, Any]:
    """The same of the body of a message's event."""
    whole = {**body, **_put_back(body, find)}
    for name in ("tool_calls", "reasonings"):
        items = body.get(name)
        if isinstance(items, list):
            whole[name] = [{**item, **_put_back(item, find)} if isinstance(item, dict) else item for item in items]
    return whole


def _records_in(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield body
    for name in ("tool_calls", "reasonings"):
        items = body.get(name)
        yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))


def _references(value: Any) -> Iterator[UUID]:
    if isinstance(value, Mapping):
        uuid = _referred(value)
        if uuid is not None:
            yield uuid
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _put_back(record: Mapping[str, Any], find: Find) -> dict[str, Any]:
    """The fields of a message, a call or a reasoning that change when its long values come back."""
    fields: dict[str, Any] = {}
    parts, rests = record.get("parts"), record.get("rests")
    if any(True for _ in _references(parts)):
        fields["parts"] = _with_long_values(parts, find)
    if isinstance(rests, Mapping) and rests:
        fields["rests"] = None
        for name, reference in rests.items():
            text = record.get(name)
            uuid = _referred(reference) if isinstance(reference, Mapping) else None
            rest = None if uuid is None else find(uuid)
            if rest is not None and isinstance(text, str):
                fields[name] = text + rest
            elif isinstance(text, str):
                fields["error"] = record.get("error") or cut_note(name, len(text), None)
    return fields


def _with_long_values(parts: Any, find: Find) -> Any:
    """Parts with their long values; one that is not there is empty."""
    if isinstance(parts, Mapping):
        uuid = _referred(parts)
        if uuid is not None:
            return find(uuid) or ""
        return {name: _with_long_values(item, find) for name, item in parts.items()}
    return [_with_long_values(item, find) for item in parts] if isinstance(parts, list) else parts


def _lighter(item: Any, is_large: bool, take: Callable[[str], dict[str, str]]) -> Any:
    fields: dict[str, Any] = {}
    if parts := getattr(item, "parts", None):
        _set(fields, "parts", parts, _without_long_values(parts, take))
    if is_large and item.status != MessageStatus.ACTIVE:
        rests = {}
        for name in ("content", "arguments"):
            text = getattr(item, name, "")
            if len(text) > 2 * _SHORT_ENOUGH:
                fields[name], rests[name] = text[:_SHORT_ENOUGH], take(text[_SHORT_ENOUGH:])
        if rests:
            fields["rests"] = {**(item.rests or {}), **rests}
            if is_cut_note(item.error):
                fields["error"] = None
    return item.model_copy(update=fields) if fields else item


def _taker(light: Light, chat_uuid: UUID) -> Callable[[str], dict[str, str]]:
    def take(value: str) -> dict[str, str]:
        found = attached(chat_uuid, value)
        light.values.append(found)
        return {REFERENCE: str(found.uuid)}

    return take


def _without_long_values(parts: Any, take: Callable[[str], dict[str, str]]) -> Any:
    """The same parts where none is long, so that nothing is copied for nothing."""
    if isinstance(parts, str):
        return take(parts) if len(parts) >= LONG_VALUE else parts
    if isinstance(parts, list):
        items = [_without_long_values(item, take) for item in parts]
        return items if any(new is not old for new, old in zip(items, parts, strict=True)) else parts
    if isinstance(parts, Mapping):
        fields = {name: _without_long_values(item, take) for name, item in parts.items()}
        return fields if any(fields[name] is not parts[name] for name in fields) else parts
    return parts


def _set(fields: dict[str, Any], name: str, old: Any, new: Any) -> None:
    if new is not old:
        fields[name] = new


def _referred(value: Mapping[Any, Any]) -> UUID | None:
    text = value.get(REFERENCE) if len(value) == 1 else None
    try:
        return UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _characters(item: Any) -> int:
    return len(item.content) + len(getattr(item, "arguments", ""))
