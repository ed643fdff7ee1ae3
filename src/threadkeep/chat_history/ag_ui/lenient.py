"""Reading fields that nobody has checked: whatever stands there, the answer is a text, an id or nothing, no error."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_OPEN_JSON = ("{", "[")


def text_of(value: Any) -> str:
    """A string as it is, nothing for null, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def identifier_of(value: Any) -> str | None:
    """An id, or None where there is no usable one. Numbers are taken, as some producers count their messages."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def compact_json(value: Any) -> str:
    """JSON without blanks; what JSON cannot say is said by `str`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        return str(type(value).__name__)


def is_complete_json(text: str) -> bool:
    """Whether `text` is one JSON object or array from its first to its last character."""
    if not text.lstrip().startswith(_OPEN_JSON):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def joined_surrogates(text: str) -> str:
    """The same text with surrogate halves that stand side by side joined to the one character that they mean."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
