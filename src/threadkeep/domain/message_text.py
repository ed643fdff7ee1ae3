"""The text of an event's body that is counted in tokens: its content, and what its tool calls were given and gave."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

_EMPTY = "\u200b"
"""What chat history stores for an empty text."""


def texts(body: str) -> list[str]:
    """`content`, and `arguments` and `content` of each of `tool_calls`, as far as they are texts.

    Decoded, so that it is the same text whether the JSON was written with escapes or without.
    """
    return [text for text in _texts(fields_of(body)) if isinstance(text, str) and text not in ("", _EMPTY)]


def fields_of(body: str) -> dict[str, Any]:
    """The fields of an event's body; none where it is nested too deep to be read."""
    try:
        # Decimal takes numbers of any length, which int does not.
        fields: dict[str, Any] = json.loads(body, parse_int=Decimal)
    except RecursionError:
        return {}
    return fields


def _texts(fields: dict[str, Any]) -> Iterator[Any]:
    yield fields.get("content")
    calls = fields.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield call.get("arguments")
            yield call.get("content")
