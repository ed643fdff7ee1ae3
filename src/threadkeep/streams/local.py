"""Inside one process: a live stream that any number of readers follow from any place in it, and wake-ups by topic."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Channel(Generic[T]):
    """An append-only stream. A reader that waits wakes when an item comes; late readers get all from the start."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    def __len__(self) -> int:
        """How many items were published."""
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Whether no item will come any more."""
        return self._closed

    def publish(self, item: T) -> None:
        """Append an item. Raises ValueError on a closed channel."""
        if self._closed:
            raise ValueError("The channel is closed; nothing can be published on it")
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """End the stream: readers end when they have read what there is. Closing twice is closing once."""
        self._closed = True
        self._wake()

    async def follow(self, after: int = 0) -> AsyncIterator[T]:
        """The items from number `after` on (0 is the first), then each as it comes, until the channel is closed."""
        place = after
        while True:
            while place < len(self._items):
                yield self._items[place]
                place += 1
            if self._closed:
                return
            news = asyncio.get_running_loop().create_future()
            self._waiting.append(news)
            try:
                await news
            finally:
                if news in self._waiting:
                    self._waiting.remove(news)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for news in waiting:
            if not news.done():
                news.set_result(None)


class LocalNews:
    """The news of one listener."""

    def __init__(self) -> None:
        self._came = asyncio.Event()

    def tell(self) -> None:
        self._came.set()

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._came.wait()
        except TimeoutError:
            return False
        self._came.clear()
        return True


class LocalBus:
    """Wakes the listeners of this process."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[LocalNews]] = {}

    @property
    def topics(self) -> list[str]:
        """What is listened to."""
        return [*self._listeners]

    def has_listener(self, topic: str) -> bool:
        return topic in self._listeners

    def publish(self, topic: str) -> None:
        for news in self._listeners.get(topic, ()):
            news.tell()

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[LocalNews]:
        news = LocalNews()
        self._listeners.setdefault(topic, set()).add(news)
        try:
            yield news
        finally:
            listeners = self._listeners[topic]
            listeners.discard(news)
            if not listeners:
                del self._listeners[topic]

    async def close(self) -> None:
        """Nothing is held."""
