"""Lines of the log: fields become one line, as JSON or as plain text.

The text of an error that is not Threadkeep's own may hold what somebody said: a driver's errors name values of rows.
So a traceback holds places and types, and no such texts, unless the operator asks for all by the level `debug`.
"""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from threadkeep.telemetry.context import request_id

Render = Callable[[Mapping[str, Any]], str]
"""From the fields of a line to the line, without its end."""

_FIRST = ("time", "level", "logger", "message")


def as_json(fields: Mapping[str, Any]) -> str:
    """One JSON object; fields that are None are left out."""
    known = {name: value for name, value in fields.items() if value is not None}
    try:
        return msgspec.json.encode(known).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode({name: _printable(value) for name, value in known.items()}).decode()


def as_text(fields: Mapping[str, Any]) -> str:
    """`TIME LEVEL LOGGER MESSAGE name=value ...`, and a traceback on lines of its own."""
    line = "{} {:7} {} {}".format(*(fields.get(name) for name in _FIRST))
    rest = [
        f"{name}={value}"
        for name, value in fields.items()
        if value is not None and name not in _FIRST and name != "traceback"
    ]
    # A line break in what is told must not look like a line of its own.
    text = str(_printable(" ".join([line, *rest]).replace("\n", "\\n").replace("\r", "\\r")))
    return f"{text}\n{fields['traceback']}" if fields.get("traceback") else text


FORMATS: Mapping[str, Render] = {"json": as_json, "text": as_text}


class LineFormatter(logging.Formatter):
    """Records of the standard library's logging as lines of that form."""

    def __init__(self, render: Render, *, with_foreign_texts: bool = False) -> None:
        super().__init__()
        self._render = render
        self._with_foreign_texts = with_foreign_texts

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return self._render(
            {
                "time": format_time(record.created),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
                "request_id": request_id.get() or None,
                "traceback": None if error is None else self._trace(error),
            }
        )

    def _trace(self, error: BaseException) -> str:
        if self._with_foreign_texts:
            return "".join(traceback.format_exception(error)).rstrip()
        return "\n".join(_frames_and_types(error))


def format_time(seconds: float) -> str:
    """`2026-11-29T12:00:00.123456Z`"""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _frames_and_types(error: BaseException) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _frames_and_types(before)
        yield "... and then"
    yield from (line.rstrip() for line in traceback.format_tb(error.__traceback__))
    kind = type(error)
    yield f"{kind.__module__}.{kind.__qualname__}"


def _printable(value: Any) -> Any:
    """Halves of surrogate pairs, which no stream takes, as escapes."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
