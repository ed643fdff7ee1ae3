"""Reading a JSON object of which a part nests too deeply for any reader: that part is passed over, the rest is read."""

import json
import re
from collections.abc import Callable
from typing import Any

_BLANKS = re.compile(r"[ \t\n\r]*")
# Strings are passed over whole, so that a bracket in one does not count.
_SIGNS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def read_shallow(text: str, parse_int: Callable[[str], Any]) -> dict[str, Any] | None:
    """The members of an object that can be read; None where the text is no object."""
    decoder = json.JSONDecoder(parse_int=parse_int)
    fields: dict[str, Any] = {}
    try:
        at = _expect("{", text, 0)
        while text[at] != "}" or fields:
            name, at = decoder.raw_decode(text, _blanks(text, at))
            if not isinstance(name, str):
                return None
            at = _expect(":", text, at)
            try:
                fields[name], at = decoder.raw_decode(text, at)
            except RecursionError:
                at = _end_of_value(text, at)
            at = _blanks(text, at)
            if text[at] == "}":
                break
            at = _expect(",", text, at)
    except (ValueError, IndexError, RecursionError):
        return None
    return fields if _blanks(text, at + 1) == len(text) else None


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    for sign in _SIGNS.finditer(text, at):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(sign.group(), 0)
        if depth <= 0:
            return sign.end()
    raise ValueError("The value has no end")


def _expect(sign: str, text: str, at: int) -> int:
    at = _blanks(text, at)
    if text[at] != sign:
        raise ValueError(f"{sign} is missing")
    return _blanks(text, at + 1)


def _blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at
