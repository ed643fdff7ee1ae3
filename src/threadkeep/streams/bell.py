"""Wakes those that wait inside one process. It says that something happened, never what."""

import asyncio


class Bell:
    """Whoever waits is woken by the next ring. A ring that nobody waits for is forgotten: look first, then wait."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Wake all that wait."""
        waiting, self._waiting = self._waiting, set()
        for news in waiting:
            if not news.done():
                news.set_result(None)

    async def wait(self) -> None:
        """Return at the next ring."""
        news = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            await news
        finally:
            self._waiting.discard(news)
