"""Wake-ups between processes, over Valkey or what speaks its protocol.

Two connections, each with a task: one tells what is published here, the other hears what is published elsewhere. What
is listened to here is woken at once, without the server. While the server cannot be reached nothing waits for it and
nothing fails: what is to be told is told when it is back, and whoever listens looks again then.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from threadkeep.errors import MissingExtra, ThreadkeepError
from threadkeep.ids import new_id
from threadkeep.streams.local import LocalBus, LocalNews

try:
    from valkey.asyncio import Valkey
    from valkey.exceptions import ValkeyError
except ModuleNotFoundError as error:
    raise MissingExtra("valkey", "A bus between processes") from error

_ANSWER_SECONDS = 2.0
"""How long the server may take to answer before the connection counts as gone."""
_QUIET_SECONDS = 5.0
"""After so long without a word, the server is asked whether it is there."""
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 2.0
_AT_ONCE = 500
_MOST_UNTOLD = 100_000
"""Topics that wait to be told; beyond them all are forgotten, and found by those who look for themselves."""
_GONE = (ValkeyError, OSError, TimeoutError)

_log = logging.getLogger("threadkeep.bus")


class BadValkeyURL(ThreadkeepError, ValueError):
    """The URL names no Valkey server."""


class ValkeyBus:
    """A bus for all processes with the same server and the same deployment."""

    def __init__(self, url: str, deployment: str) -> None:
        """Nothing is waited for: the server need not be there yet. Raises BadValkeyURL.

        `deployment` keeps apart what shares the server and not the database.
        """
        try:
            self._teller = Valkey.from_url(url, socket_timeout=_ANSWER_SECONDS, socket_connect_timeout=_ANSWER_SECONDS)
            self._hearer = Valkey.from_url(url, socket_timeout=_ANSWER_SECONDS, socket_connect_timeout=_ANSWER_SECONDS)
        except ValueError as error:
            raise BadValkeyURL(f"{url!r} is no Valkey URL; give valkey://HOST:PORT ({error})") from error
        self._prefix = f"threadkeep:{deployment}:".encode()
        self._me = new_id().encode()
        self._local = LocalBus()
        self._untold: dict[str, None] = {}
        self._has_untold = asyncio.Event()
        self._changed: dict[str, None] = {}
        """Topics that somebody has begun or ceased to listen to."""
        self._has_changed = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._keep(self._tell), name="tell the bus"),
            asyncio.create_task(self._keep(self._hear), name="hear the bus"),
        ]

    def publish(self, topic: str) -> None:
        self._local.publish(topic)
        if len(self._untold) >= _MOST_UNTOLD:
            self._untold.clear()
        self._untold[topic] = None
        self._has_untold.set()

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[LocalNews]:
        async with self._local.listen(topic) as news:
            self._change(topic)
            yield news
        self._change(topic)

    async def close(self) -> None:
        await _stop(self._tasks)
        await self._teller.aclose()
        await self._hearer.aclose()

    def _change(self, topic: str) -> None:
        self._changed[topic] = None
        self._has_changed.set()

    def _channel(self, topic: str) -> bytes:
        # Two ids that look the same like this wake each other's readers: no harm is done.
        return self._prefix + topic.encode("utf-8", "backslashreplace")

    async def _keep(self, work: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]) -> None:
        """Do the work again and again, with a rest where the server is gone."""
        delay = _FIRST_RETRY
        is_gone = False

        def reached() -> None:
            nonlocal delay, is_gone
            delay = _FIRST_RETRY
            if is_gone:
                is_gone = False
                _log.warning("Valkey answers again")

        while True:
            try:
                await work(reached)
            except _GONE as error:
                if not is_gone:
                    is_gone = True
                    _log.warning("Valkey cannot be reached, runs are followed more slowly: %s", error)
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_RETRY)
            except Exception:
                _log.exception("the bus has failed and begins anew")
                await asyncio.sleep(_LONGEST_RETRY)

    async def _tell(self, reached: Callable[[], None]) -> None:
        """Publish what waits."""
        await self._has_untold.wait()
        topics = [*self._untold][:_AT_ONCE]
        async with self._teller.pipeline(transaction=False) as pipeline:
            for topic in topics:
                pipeline.publish(self._channel(topic), self._me)
                # Before it is told: what happens from now on is to be told again.
                del self._untold[topic]
            try:
                await pipeline.execute()
            except BaseException:
                self._untold |= dict.fromkeys(topics)
                raise
        reached()
        if not self._untold:
            self._has_untold.clear()

    async def _hear(self, reached: Callable[[], None]) -> None:
        """Listen on one connection for as long as it holds."""
        pubsub = self._hearer.pubsub()
        try:
            # A connection hears something at least, and whoever listens by now is subscribed again.
            topics = {self._channel("here"): "here"} | {self._channel(topic): topic for topic in self._local.topics}
            await pubsub.subscribe(*topics)
            reached()
            subscribing = asyncio.create_task(self._subscribe(pubsub, topics))
            hearing = asyncio.create_task(self._wake(pubsub, topics))
            try:
                await asyncio.wait([subscribing, hearing], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _stop([subscribing, hearing])
            for task in (subscribing, hearing):
                if not task.cancelled():
                    task.result()
        finally:
            with suppress(*_GONE):
                await pubsub.aclose()

    async def _subscribe(self, pubsub: Any, topics: dict[bytes, str]) -> None:
        """Follow what is listened to."""
        while True:
            await self._has_changed.wait()
            changed = {self._channel(topic): topic for topic in self._changed}
            self._changed.clear()
            self._has_changed.clear()
            new = {channel: topic for channel, topic in changed.items() if self._local.has_listener(topic)}
            if wanted := [channel for channel in new if channel not in topics]:
                topics.update(new)
                await pubsub.subscribe(*wanted)
            if unwanted := [channel for channel in changed if channel not in new and channel in topics]:
                for channel in unwanted:
                    del topics[channel]
                await pubsub.unsubscribe(*unwanted)

    async def _wake(self, pubsub: Any, topics: dict[bytes, str]) -> None:
        """Wake the listeners of what is heard. One who has just been subscribed looks again: it may have missed it."""
        is_asked = False
        while True:
            message = await pubsub.get_message(timeout=_ANSWER_SECONDS if is_asked else _QUIET_SECONDS)
            if message is None:
                if is_asked:
                    raise TimeoutError(f"no word from it for {_QUIET_SECONDS + _ANSWER_SECONDS:.0f} s")
                await pubsub.ping()
                is_asked = True
                continue
            is_asked = False
            if message["type"] == "subscribe" or (message["type"] == "message" and message["data"] != self._me):
                self._local.publish(topics.get(message["channel"], ""))


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        # Again and again: the driver swallows a cancellation that comes while it connects.
        await asyncio.wait(pending, timeout=0.1)
