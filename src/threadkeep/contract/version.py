"""What a service says of itself: the version of the contract, and what it serves beyond it."""

from typing import NotRequired, TypedDict

LOOKUP_KEYS = "lookupKeys"
"""Events take lookup keys, and are found by them in their space."""
NEWEST_EVENTS = "newestEvents"
"""The newest events of many sessions come in one answer."""
APPEND_WITH_CHANGES = "appendWithChanges"
"""A batch of changes may append events as well."""
WHOLE_HISTORY = "wholeHistory"
"""All events of a session come in one answer, a line each."""

FEATURES = (LOOKUP_KEYS, NEWEST_EVENTS, APPEND_WITH_CHANGES, WHOLE_HISTORY)


class Version(TypedDict):
    """The answer to GET /version/. A service that says nothing of `features` has none of them."""

    major: int
    minor: int
    versionString: str
    releasedVersion: str
    features: NotRequired[list[str]]
