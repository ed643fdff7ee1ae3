"""What is kept in memory of the spaces that were used last, up to a number of bytes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Something of one space that is kept."""

    lock: asyncio.Lock
    """Held by whoever uses it."""

    @property
    def size(self) -> int:
        """Bytes, roughly."""


S = TypeVar("S", bound=Sized)
T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do something that takes the processor, to its end: who is cancelled leaves nothing behind that goes on."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class Kept(Generic[S]):
    """Things by their keys; those that were not used for longest go when all are more than `budget` bytes."""

    def __init__(self, make: Callable[[], S], budget: int) -> None:
        self._make = make
        self._budget = budget
        self._things: OrderedDict[Hashable, S] = OrderedDict()

    def take(self, key: Hashable) -> S:
        """The thing of this key; a new one where none is kept."""
        if key not in self._things:
            self._things[key] = self._make()
        self._things.move_to_end(key)
        return self._things[key]

    def let_go(self) -> None:
        """Forget what is too much, but nothing that is in use."""
        size = sum(thing.size for thing in self._things.values())
        for key in list(self._things):
            if size <= self._budget:
                break
            if not self._things[key].lock.locked():
                size -= self._things.pop(key).size
