"""What differs between two sets of rows, and the one table of what may."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from interop.rows import Row

ABSENT = "(absent)"
ANY = "(any)"


class Difference(NamedTuple):
    """A place where our rows may differ from those of the published package.

    Attributes:
        topic: how the modules of the scenarios that it may differ in begin.
        place: the path from the space inwards; `*` stands for any one step.
        published: what the published package stores there: a value, `ABSENT`, or `ANY` but absent.
        ours: what ours stores there: a value, `ABSENT`, or `ANY`.
        why: the reason.
    """

    topic: str
    place: str
    published: Any
    ours: Any
    why: str


_KEYS = "Keys of metadata and bodies belong to the application; the published SDK renames those in snake case."
_DEFAULTS = (
    "A field that was left out is stored with its default, so that a later change of the class changes no history."
)
_EMPTY = "A field without a value is stored as null or left out; all readers take both alike."
_MORE = "What AG-UI says beyond the published fields is kept: a replay and a reader of the history need it."
_RESULT = (
    "The id of the message that brought a result is kept, so that the message is known when a client sends it back."
)
_OPEN_CALL = "A message whose text has ended is not complete while a call in it is cut off: it ends as the call does."
_DECLARED = (
    "A field that a subclass declares is stored from its creation on; the published repository begins with its change."
)
_HEALING = "All locators of a chat are one query, so that those that were lost are found and written again."
_KEYS_TOO = "What is in an event is found by the event's own keys as well, which are stored with it and never lost."

_LATER = (
    "A reasoning between two texts of a run belongs to the one after it, which it led to; "
    "the published package puts it into the one before."
)

_METADATA = "*/sessions/*/metadata"
_BODY = "*/sessions/*/events/*/body"
_CALL = f"{_BODY}/tool_calls/*"

ALLOWED = (
    Difference("sdk_sessions", f"{_METADATA}/snake_key", ABSENT, 5, _KEYS),
    Difference("sdk_sessions", f"{_METADATA}/snakeKey", 5, ABSENT, _KEYS),
    Difference("sdk_events", f"{_BODY}/snake_key", ABSENT, 5, _KEYS),
    Difference("sdk_events", f"{_BODY}/snakeKey", 5, ABSENT, _KEYS),
    Difference("orm", _METADATA, None, ANY, _DEFAULTS),
    Difference("orm", f"{_METADATA}/*", ABSENT, ANY, _DEFAULTS),
    Difference("orm", f"{_BODY}/*", ABSENT, ANY, _DEFAULTS),
    Difference("chat", f"{_BODY}/*", ABSENT, None, _EMPTY),
    Difference("chat", f"{_BODY}/*/*/*", ABSENT, None, _EMPTY),
    Difference("chat", f"{_BODY}/run_id", ABSENT, ANY, _MORE),
    Difference("chat", f"{_BODY}/subagents", ABSENT, [], _MORE),
    Difference("chat", f"{_METADATA}/said/*/*", ABSENT, "activity", _MORE),
    Difference("chat_runs", "*/sessions/*/events/3", ABSENT, ANY, _MORE),
    Difference("chat", f"{_CALL}/awaiting", ABSENT, False, _MORE),
    Difference("chat", f"{_CALL}/tool_call_id", "c1", "result-1", _RESULT),
    Difference("chat", f"{_CALL}/tool_call_id", "c1", None, _RESULT),
    Difference("chat", f"{_BODY}/status", "complete", "interrupted", _OPEN_CALL),
    Difference("chat", f"{_BODY}/status", "complete", "errored", _OPEN_CALL),
    Difference("chat", f"{_BODY}/error", ABSENT, "the model is gone", _OPEN_CALL),
    Difference("chat", f"{_BODY}/team", ABSENT, "", _DECLARED),
    Difference("chat", f"{_BODY}/team", "", "research", _DECLARED),
    Difference("chat_reasonings", "*/sessions/*/events/1/body/reasonings/0", ANY, ABSENT, _LATER),
    Difference("chat_reasonings", "*/sessions/*/events/2/body/reasonings/0", ABSENT, ANY, _LATER),
    # The same ids, which are met in another order.
    Difference("chat_reasonings", "*/sessions/*/events/2/body/message_uuid", "<uuid 9>", "<uuid 8>", _LATER),
    Difference("chat_reasonings", "*/sessions/4/deduplicationKey", "message:<uuid 9>", "message:<uuid 8>", _LATER),
    Difference("chat_reasonings", "*/sessions/5/deduplicationKey", "reasoning:<uuid 8>", "reasoning:<uuid 9>", _LATER),
    Difference("chat_reasonings", "*/sessions/5/metadata/message_uuid", "<uuid 7>", "<uuid 8>", _LATER),
    Difference("chat", "*/sessions/*/participants/0", "0" * 24, ANY, _HEALING),
    Difference("chat", "*/sessions/*/events/*/lookupKeys", ABSENT, ANY, _KEYS_TOO),
)


def unexplained(topic: str, published: list[Row], ours: list[Row]) -> list[str]:
    """Where the rows differ, and no line of the table says that they may."""
    return [
        f"{'/'.join(path)}: published {left!r}, ours {right!r}"
        for path, left, right in _differences((), published, ours)
        if not any(_allows(line, topic, path, left, right) for line in ALLOWED)
    ]


def _differences(path: tuple[str, ...], left: Any, right: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in {**left, **right}:
            yield from _differences((*path, name), left.get(name, ABSENT), right.get(name, ABSENT))
    elif isinstance(left, list) and isinstance(right, list):
        for number in range(max(len(left), len(right))):
            pair = (rows[number] if number < len(rows) else ABSENT for rows in (left, right))
            yield from _differences((*path, str(number)), *pair)
    elif left != right or type(left) is not type(right):
        yield path, left, right


def _allows(line: Difference, topic: str, path: tuple[str, ...], left: Any, right: Any) -> bool:
    place = line.place.split("/")
    return (
        topic.startswith(line.topic)
        and len(place) == len(path)
        and all(want in ("*", step) for want, step in zip(place, path, strict=True))
        and line.published in (ANY, left)
        and line.ours in (ANY, right)
    )
