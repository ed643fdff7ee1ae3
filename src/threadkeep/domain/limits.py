"""Every number that the service enforces, and the checks that name the place and the number.

The numbers are those of the published contract of the Memory Service.
"""

from collections.abc import Sequence

from threadkeep.errors import Invalid

DESCRIPTION = 1_000
"""Characters of a description, of a space or a session."""
SPACE_TEXT = {
    "description": DESCRIPTION,
    "llm_model_name": 200,
    "llm_base_url": 2_083,
    "custom_instructions": 10_000,
}
DEDUPLICATION_KEY = 72
PARTICIPANTS = 50
PARTICIPANT = 128
STRATEGIES = 5
METADATA_BYTES = 256 * 1024
EVENT_TYPE = 100
CONTENT = 1_000_000
"""Characters of `body.content`; an operator may set another number."""
BODY_BYTES = 4 * 1024 * 1024
"""Bytes of one event's body, as UTF-8 JSON."""
BATCH = 200
LOOKUP_KEYS = 512
"""Lookup keys of one event."""
LOOKUP_KEY = 128
"""Characters of a lookup key."""
MEMORY_TEXT = 20_000
"""Characters of a memory."""
SCOPE_ID = 256
"""Characters of an id in the scope of a memory."""
CATEGORIES = 50
CATEGORY = 100
MEMORY_BATCH = 1_000
"""Memories that one request changes."""
MEMORY_PAGE = 200
MEMORIES_FOUND = 1_000
"""Memories that one search gives."""
QUERY = 20_000
"""Characters that a search looks for."""
PAGE = 100
NEEDLE = 3
REQUEST_BYTES = 16 * 1024 * 1024
"""Bytes of one request; an operator may set another number."""
INTEGER = 2**63 - 1
"""The largest offset or number that both engines hold."""


def byte_length(text: str) -> int:
    """Bytes of `text` in UTF-8, without encoding it where it is ASCII."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_text(value: str | None, limit: int, *loc: str | int, minimum: int = 0) -> None:
    """Raise Invalid where a text is longer than `limit` characters or shorter than `minimum`."""
    if value is None:
        return
    if len(value) > limit:
        raise Invalid(f"{len(value):,} characters; the limit is {limit:,}", loc, "too_long")
    if len(value) < minimum:
        raise Invalid(f"{len(value)} characters; at least {minimum} is needed", loc, "too_short")


def check_bytes(size: int, limit: int, *loc: str | int) -> None:
    """Raise Invalid where a JSON value takes more than `limit` bytes."""
    if size > limit:
        raise Invalid(f"{size:,} bytes; the limit is {limit:,}", loc, "too_long")


def check_count(count: int, limit: int, *loc: str | int, minimum: int = 0) -> None:
    """Raise Invalid where a list has more than `limit` items or fewer than `minimum`."""
    if count > limit:
        raise Invalid(f"{count:,} {loc[-1]} in one request; the limit is {limit}", loc, "too_long")
    if count < minimum:
        raise Invalid(f"{count} {loc[-1]}; at least {minimum} is needed", loc, "too_short")


def check_deduplication_key(key: str | None) -> None:
    """Raise Invalid where the key is not 1 to 72 characters long."""
    check_text(key, DEDUPLICATION_KEY, "deduplicationKey", minimum=1)


def check_lookup_keys(keys: Sequence[str]) -> None:
    """Raise Invalid where there are more than 512 keys, or one is not 1 to 128 characters long."""
    check_count(len(keys), LOOKUP_KEYS, "lookupKeys")
    for index, key in enumerate(keys):
        check_text(key, LOOKUP_KEY, "lookupKeys", index, minimum=1)


def check_page(offset: int, limit: int) -> None:
    """Raise Invalid where a page starts before 0 or holds other than 1 to 100 items."""
    check_range(offset, 0, INTEGER, "offset")
    check_range(limit, 1, PAGE, "limit")


def check_range(number: int, low: int, high: int, *loc: str | int) -> None:
    """Raise Invalid where a number is out of its range."""
    if not low <= number <= high:
        raise Invalid(f"{number} is not between {low} and {high}", loc, "out_of_range")
