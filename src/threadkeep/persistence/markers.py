"""Markers that say where a session's field is kept: `topic: Annotated[str, DRRangeKey]`, class or instance alike."""

from collections.abc import Iterable


class FieldMarker:
    """The root of the markers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DRDeduplicationKey(FieldMarker):
    """The field is the session's `deduplicationKey`: 1 to 72 characters, unique among the live sessions of a space.

    At most one field of a class. It makes `post` idempotent and is what `get` finds a session by.
    """


class DRRangeKey(FieldMarker):
    """The field is a segment of the session's indexed `description`, in the order of declaration.

    `list` finds sessions by any number of leading range keys. A value must not be empty.
    """


class DRConcurrencyField(FieldMarker):
    """The field mirrors the session's `version`. At most one field of a class; it cannot be set."""


KINDS = (DRDeduplicationKey, DRRangeKey, DRConcurrencyField)


def marker_of(field: str, metadata: Iterable[object]) -> type[FieldMarker] | None:
    """The kind of marker among a field's metadata.

    Raises TypeError where there are two.
    """
    classes = [item if isinstance(item, type) else type(item) for item in metadata]
    found = [kind for item in classes for kind in KINDS if issubclass(item, kind)]
    if len(found) > 1:
        raise TypeError(f"The field {field!r} has {len(found)} markers; a field is kept in one place")
    return found[0] if found else None
