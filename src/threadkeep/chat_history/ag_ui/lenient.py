"""Reading fields that nobody has checked: whatever stands there, the answer is a text, an id or nothing, no error."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pydantic import BaseModel

_OPEN_JSON = ("{", "[")
# What nests deeper than any reader of JSON follows is kept as text from here on.
_DEEPEST = 100


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
        return compact_json(value)
    return None


def error_of(value: Any) -> str | None:
    """What a result says of its failure; None where it says that there is none."""
    return None if value is False else text_of(value) or None


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def plain(value: Any, depth: int = 0) -> Any:
    """A copy that shares nothing with `value` and holds what JSON can say.

    Numbers without end are null. Half a surrogate pair in a name (not in a text) becomes U+FFFD.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True, warnings=False)
    if isinstance(value, Mapping | list | tuple) and depth >= _DEEPEST:
        return compact_json(value)
    if isinstance(value, Mapping):
        return {_name(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    return str(value)


def compact_json(value: Any) -> str:
    """JSON without blanks; what JSON cannot say is said by `str`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_said)
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


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


def _name(key: Any) -> str:
    # Pydantic writes no JSON with half a pair in a name.
    name = text_of(key)
    return name if name.isascii() else name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _said(value: Any) -> Any:
    return value.model_dump(by_alias=True, warnings=False) if isinstance(value, BaseModel) else str(value)
