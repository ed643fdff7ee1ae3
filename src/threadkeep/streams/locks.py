"""One at a time for each key, inside one process."""

import asyncio
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K")


class Locks(Generic[K]):
    """A lock for each key, for as long as somebody has it or waits for it: `key in locks` says whether anybody does."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    def __contains__(self, key: object) -> bool:
        return key in self._locks

    def of(self, key: K) -> asyncio.Lock:
        """The lock of a key; whoever holds on to it keeps it there."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
