"""JSON as it crosses this edge: read and written fast, opaque parts kept as the text that came."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from threadkeep.api import halves
from threadkeep.errors import Invalid

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()

_PLACE = re.compile(r"\.([^.\[\]`]+)|\[(\d+|\.\.\.)\]")
_FIELD = re.compile(r"(?:required|unknown) field `([^`]+)`")


class Reader:
    """How to take what a parsed document holds: as it is, or with hidden halves put back."""

    __slots__ = ("_hidden", "text")

    def __init__(self, *, hidden: bool = False) -> None:
        self.text: Callable[[str], str] = halves.show if hidden else str
        self._hidden = hidden

    def raw(self, value: msgspec.Raw) -> str:
        return halves.show_in_json(_raw(value)) if self._hidden else _raw(value)

    def optional_text(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)


_AS_IT_IS = Reader()
_HIDDEN = Reader(hidden=True)


def parse(document: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, Reader]:
    """The value of the document, and how to take its texts. Raises Invalid that names the place in it."""
    try:
        # msgspec does not look into what it passes on raw.
        if not document.isascii():
            document.decode()
        return decoder.decode(document), _AS_IT_IS
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hidden = halves.hide(document)
        if hidden is None:
            raise _not_json(error) from error
    try:
        return decoder.decode(hidden), _HIDDEN
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(error) from error


def dump(value: Any) -> bytes:
    """The value as JSON. What UTF-8 cannot hold is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _dump_escaped(value).encode()


def dump_lines(values: Sequence[Any]) -> bytes:
    """The values as JSON, a line each. What they hold raw must have no line break in it."""
    try:
        return _ENCODER.encode_lines(values)
    except UnicodeEncodeError:
        return b"".join(dump(value) + b"\n" for value in values)


def _dump_escaped(value: Any) -> str:
    if isinstance(value, msgspec.Raw):
        return _raw(value)
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        fields = {encoded: getattr(value, name) for encoded, name in names}
        return _dump_escaped({name: item for name, item in fields.items() if item is not msgspec.UNSET})
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_dump_escaped(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump_escaped, value)) + "]"
    return json.dumps(value)


def _raw(value: msgspec.Raw) -> str:
    return bytes(value).decode()


def _invalid(message: str) -> Invalid:
    text, _, path = message.partition(" - at `")
    loc: list[str | int] = []
    for key, index in _PLACE.findall(path):
        loc.append(key or (int(index) if index.isdigit() else index))
    field = _FIELD.search(text)
    if field:
        loc.append(field[1])
    return Invalid(text, loc, "missing" if field and "required" in text else "type_error")


def _not_json(error: Exception) -> Invalid:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return Invalid(f"The body is not JSON that can be read: {reason}", kind="json_invalid")
