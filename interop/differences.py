"""What differs between two sets of rows, and the one table of what may."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from interop.rows import Row

ABSENT = "(absent)"
ANY = "(any)"


class Difference(NamedTuple):
    """A place where our rows may differ from those of the published package.

    Attributes:
        topic: the module of the scenarios that it may differ in.
        place: the path from the space inwards; `*` stands for any one step.
        published: what the published package stores there: a value, or `ABSENT`.
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

ALLOWED: tuple[Difference, ...] = (
    Difference("sdk_sessions", "*/sessions/*/metadata/snake_key", ABSENT, 5, _KEYS),
    Difference("sdk_sessions", "*/sessions/*/metadata/snakeKey", 5, ABSENT, _KEYS),
    Difference("sdk_events", "*/sessions/*/events/*/body/snake_key", ABSENT, 5, _KEYS),
    Difference("sdk_events", "*/sessions/*/events/*/body/snakeKey", 5, ABSENT, _KEYS),
    Difference("orm", "*/sessions/*/metadata", None, ANY, _DEFAULTS),
    Difference("orm", "*/sessions/*/metadata/*", ABSENT, ANY, _DEFAULTS),
    Difference("orm", "*/sessions/*/events/*/body/*", ABSENT, ANY, _DEFAULTS),
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
        line.topic == topic
        and len(place) == len(path)
        and all(want in ("*", step) for want, step in zip(place, path, strict=True))
        and line.published == left
        and line.ours in (ANY, right)
    )
