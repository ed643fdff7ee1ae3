"""The JSON object in what a model said: models wrap it in thoughts, fences and prose, and leave commas behind."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from threadkeep.errors import ModelFailed

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"\A\s*```[\w-]*\s*(.*?)\s*```\s*\Z", re.DOTALL)
_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)
_PLACES = 200
"""Places at which an object may be thought to begin, before the answer is taken to hold none."""


def parse_answer(text: str, wanted: Collection[str]) -> dict[str, Any]:
    """The last object in the text that has one of the wanted keys, else the last object.

    An answer that is a list is taken for the value of the first wanted key. An answer that ends too early is none.
    Raises ModelFailed.
    """
    text = _THOUGHTS.sub("", text)
    if not text.strip():
        raise ModelFailed("The model answered nothing")
    if fenced := _FENCE.match(text):
        text = fenced[1]
    for candidate in (text, _COMMA.sub(lambda match: match[1] or "", text)):
        found = list(_objects(candidate))
        fitting = [each for each in found if not wanted or any(key in each for key in wanted)]
        if fitting:
            return fitting[-1]
        if listed := _whole_list(candidate):
            return {next(iter(wanted), "items"): listed[0]}
        if found and _is_closed(candidate):
            return found[-1]
    raise ModelFailed("The model's answer holds no JSON object that can be read")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost objects of the text, in order."""
    at = text.find("{")
    for _ in range(_PLACES):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _whole_list(text: str) -> list[list[Any]]:
    stripped = text.strip()
    if not stripped.startswith("["):
        return []
    try:
        value = _DECODER.decode(stripped)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, list) else []


def _is_closed(text: str) -> bool:
    """Whether as many braces close as open: else an object inside of one that was cut off would pass for the whole."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return outside.count("{") == outside.count("}")
