"""Time on the wire and in the store: microseconds since 1970 in UTC, and their RFC 3339 text."""

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(?:([Zz])|([+ -])(\d\d):?(\d\d))?", re.ASCII
)


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000


def to_datetime(microseconds: int) -> datetime:
    """An aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def from_datetime(moment: datetime) -> int:
    """Microseconds since 1970; a naive datetime counts as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def format_timestamp(microseconds: int) -> str:
    """`2026-11-29T12:00:00.123456Z`"""
    seconds, fraction = divmod(microseconds, 1_000_000)
    return f"{_format_seconds(seconds)}.{fraction:06d}Z"


@lru_cache(1024)
def _format_seconds(seconds: int) -> str:
    # Most timestamps of one answer lie in few seconds.
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


def parse_timestamp(text: str) -> int:
    """Read an RFC 3339 timestamp; a space where a client forgot to encode the `+` is a `+`.

    Raises ValueError where the text is none.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 timestamp such as 2026-11-29T12:00:00.123456Z")
    day, clock, fraction, _, sign, hours, minutes = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    microseconds = from_datetime(moment) + int((fraction or "0").ljust(6, "0"))
    if sign:
        offset = (int(hours) * 60 + int(minutes)) * 60_000_000
        microseconds += offset if sign == "-" else -offset
    return microseconds
