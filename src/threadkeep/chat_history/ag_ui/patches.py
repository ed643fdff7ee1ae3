"""JSON Patch (RFC 6902) on the values of a run: state and activities. Pure: nothing that was handed in is changed."""

from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
from jsonpointer import JsonPointer

from threadkeep.chat_history.ag_ui.lenient import plain


class BadPatch(Exception):
    """The patch does not fit the document, or is none."""


def patched(document: Any, operations: Sequence[Any]) -> Any:
    """The document after all operations. Raises BadPatch where one of them cannot be done; then none counts.

    Only what lies on the path of an operation is copied: a large state that changes in one place costs that place.
    """
    for operation in operations:
        change = plain(operation)
        try:
            for path in {change.get("path"), change.get("from") if change.get("op") == "move" else None} - {None}:
                document = _copied_along(document, JsonPointer(path).parts[:-1])
            document = jsonpatch.apply_patch(document, [change], in_place=True)
        except Exception as error:
            # The library raises its own errors for most of what can be wrong, and any other for the rest.
            raise BadPatch(f"{type(error).__name__}: {error}") from error
    return document


def _copied_along(document: Any, parts: Sequence[str]) -> Any:
    """The document with fresh containers from the root along a path, as far as there is one."""
    copy = _copied(document)
    here = copy
    for part in parts:
        key: Any = int(part) if isinstance(here, list) and part.isdecimal() else part
        try:
            here[key] = _copied(here[key])
        except (KeyError, IndexError, TypeError):
            break
        here = here[key]
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list) else value
