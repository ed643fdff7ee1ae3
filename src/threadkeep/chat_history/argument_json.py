"""Tool call arguments that are to be a JSON object, whatever was streamed. Pure."""

import json
from typing import Any

from pydantic_core import from_json

_UNREADABLE = "arguments"
"""The name under which stands what is no object."""


def as_json_object(text: str) -> str:
    """The text itself where it is a JSON object, else one that says what there is of it.

    Arguments that were cut off keep what had come whole; anything else stands under `arguments`.
    """
    if not text.strip():
        return "{}"
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError):
        value = _beginning(text)
    else:
        if isinstance(value, dict):
            return text
    try:
        return json.dumps(value if isinstance(value, dict) else {_UNREADABLE: value}, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps({_UNREADABLE: text})


def _beginning(text: str) -> Any:
    """The object that a text was cut off in; the text, where it is something else."""
    if _begins_with_a_value(text):
        # Whole, but something follows it: two calls in one, for example.
        return text
    try:
        value = from_json(text, allow_partial=True, allow_inf_nan=False)
    except (TypeError, ValueError):
        # To this reader a text with half a surrogate pair is none at all.
        return text
    return value if isinstance(value, dict) and value else text


def _begins_with_a_value(text: str) -> bool:
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(text: str) -> Any:
    raise ValueError(text)


_STRICT = json.JSONDecoder(parse_constant=_refuse)
