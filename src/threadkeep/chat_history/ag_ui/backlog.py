"""The bytes of a run that are held because they are not stored yet: in the queue before the fold, and in its rows."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from threadkeep.chat_history.ag_ui.wire import WireEvent

_DEEPEST = 20
_OVERHEAD = 200


class Backlog:
    """Counts what came in and what was stored of it.

    `limit` is in bytes. A write stores all that was folded when it began, so a mark of that moment is all it takes:
    `folded` before the write, `stored_up_to` after it. `when_freed` is called when there may be room again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.folded = 0
        self.when_freed: Callable[[], object] = lambda: None
        self._waiting = 0
        self._stored = 0
        self._full = False

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return self._waiting + self.folded - self._stored

    def has_room(self, size: int) -> bool:
        """Whether that many bytes more may be held. One event is always taken, however large it is.

        What was full has room again when it is half empty: a record that misses every second event helps nobody.
        """
        held = self.held
        self._full = held > 0 and (held > self.limit // 2 if self._full else held + size > self.limit)
        return not self._full

    def come(self, size: int) -> None:
        self._waiting += size

    def fold(self, size: int) -> None:
        self._waiting -= size
        self.folded += size

    def stored_up_to(self, mark: int) -> None:
        if mark > self._stored:
            self._stored = mark
            self.when_freed()


def event_bytes(event: object) -> int:
    """About how much memory an event takes: the bytes that came, or the texts in an object."""
    if isinstance(event, WireEvent):
        return len(event.raw) + _OVERHEAD
    fields = event.__dict__ if isinstance(event, BaseModel) else event
    return _OVERHEAD + (_value_bytes(fields, 0) if isinstance(fields, Mapping) else 0)


def _value_bytes(value: Any, depth: int) -> int:
    if isinstance(value, str | bytes):
        return sys.getsizeof(value)
    if isinstance(value, BaseModel):
        value = value.__dict__
    if depth < _DEEPEST and isinstance(value, Mapping):
        return sum(_value_bytes(each, depth + 1) for each in value.values())
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return sum(_value_bytes(each, depth + 1) for each in value)
    return 0
