"""Identifiers: made by the application, never by a database."""

import hashlib
import os
import re
import secrets
import threading
import time

_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A UUIDv7 as text (RFC 9562, section 5.7).

    Ids made by one process sort in the order in which they were made: the 12 bits behind the milliseconds
    hold the fraction of the millisecond (method 3 of section 6.2), and a tie takes the next value.
    """
    global _last
    now = time.time_ns()
    with _lock:
        # 60 bits: milliseconds, then 4,096ths of one.
        stamp = (now // 1_000_000 << 12) | (now % 1_000_000 << 12) // 1_000_000
        _last = stamp = max(stamp, _last + 1)
    bits = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Whether `text` is a UUID in its canonical form."""
    return _ID.fullmatch(text) is not None


def new_user_id() -> str:
    """A user id: 24 lower-case hex digits."""
    return secrets.token_hex(12)


def derived_user_id(*parts: str) -> str:
    """The same 24 hex digits for the same parts, always."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
