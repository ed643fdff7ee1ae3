"""Wake-ups, over each bus; with Valkey between two that stand for two processes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from threadkeep.errors import MissingExtra
from threadkeep.streams import valkey
from threadkeep.streams.bus import Bus, News, run_topic
from threadkeep.streams.local import LocalBus
from threadkeep.streams.valkey import BadValkeyURL, ValkeyBus
from threadkeep.testing.valkey import ValkeyProcess

PATIENCE = 20.0
"""Seconds after which a test has failed."""


@dataclass(frozen=True)
class Pair:
    """One who publishes and one who listens."""

    teller: Bus
    hearer: Bus

    async def ready(self, news: News) -> None:
        """Returns when the listener can be reached: over Valkey it is told to look then."""
        if isinstance(self.hearer, ValkeyBus):
            assert await news.wait(PATIENCE)


@pytest.fixture(params=["local", "valkey"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    if request.param == "local":
        bus = LocalBus()
        yield Pair(bus, bus)
        assert bus.topics == []
        return
    url: str = request.getfixturevalue("valkey_url")
    both = Pair(ValkeyBus(url, "ours"), ValkeyBus(url, "ours"))
    yield both
    await both.teller.close()
    await both.hearer.close()
    await both.hearer.close()


async def test_a_listener_is_woken_once_for_what_was_published_before_it_waits(pair: Pair) -> None:
    async with pair.hearer.listen("a") as news:
        await pair.ready(news)
        pair.teller.publish("a")
        assert await news.wait(PATIENCE)
        assert not await news.wait(0)


async def test_each_topic_wakes_its_own_listeners_and_all_of_them(pair: Pair) -> None:
    odd = run_topic("s", "s", "odd \ud800\0\n: ü")
    async with pair.hearer.listen("a") as a, pair.hearer.listen(odd) as b, pair.hearer.listen(odd) as c:
        for news in (a, b):
            await pair.ready(news)
        await c.wait(0)
        pair.teller.publish("nobody's")
        pair.teller.publish(odd)

        assert await b.wait(PATIENCE)
        assert await c.wait(PATIENCE)
        assert not await a.wait(0)


async def test_one_who_listens_in_the_same_process_is_woken_at_once(pair: Pair) -> None:
    async with pair.hearer.listen("a") as news:
        await pair.ready(news)
        pair.hearer.publish("a")
        assert await news.wait(0)


async def test_what_was_told_here_is_not_heard_again_from_the_server(valkey_url: str) -> None:
    one, other = ValkeyBus(valkey_url, "echo"), ValkeyBus(valkey_url, "echo")
    async with one.listen("a") as mine, one.listen("b") as back, other.listen("a") as there:
        for news in (mine, back, there):
            assert await news.wait(PATIENCE)
        one.publish("a")
        assert await mine.wait(0)
        # What comes back from the other is behind what the server had to say of the first.
        assert await there.wait(PATIENCE)
        other.publish("b")
        assert await back.wait(PATIENCE)
        assert not await mine.wait(0)
    await one.close()
    await other.close()


async def test_who_has_left_is_forgotten_and_may_come_back(pair: Pair) -> None:
    for _ in range(3):
        async with pair.hearer.listen("a") as news:
            pair.teller.publish("a")
            # One who comes back at once is subscribed still, and is not told to look.
            while not await news.wait(0.1):
                pair.teller.publish("a")


async def test_a_thousand_listeners_are_all_woken(pair: Pair) -> None:
    woken = 0

    async def listen(number: int) -> None:
        nonlocal woken
        async with pair.hearer.listen(f"topic {number}") as news:
            await pair.ready(news)
            ready.release()
            assert await news.wait(PATIENCE)
            woken += 1

    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(listen(number)) for number in range(1000)]
    for _ in tasks:
        await ready.acquire()
    for number in range(1000):
        pair.teller.publish(f"topic {number}")
    await asyncio.gather(*tasks)

    assert woken == 1000


async def test_two_deployments_on_one_server_do_not_wake_each_other(valkey_url: str) -> None:
    ours, theirs = ValkeyBus(valkey_url, "ours"), ValkeyBus(valkey_url, "theirs")
    async with ours.listen("a") as mine, theirs.listen("a") as yours, theirs.listen("b") as last:
        for news in (mine, yours, last):
            assert await news.wait(PATIENCE)
        ours.publish("a")
        assert await mine.wait(PATIENCE)
        other = ValkeyBus(valkey_url, "theirs")
        other.publish("b")
        assert await last.wait(PATIENCE)
        assert not await yours.wait(0)
    for bus in (ours, theirs, other):
        await bus.close()


async def test_a_server_that_is_killed_and_comes_back_is_found_again(valkey_process: ValkeyProcess) -> None:
    teller, hearer = ValkeyBus(valkey_process.url, "d"), ValkeyBus(valkey_process.url, "d")
    async with hearer.listen("a") as news, hearer.listen("b") as late:
        assert await news.wait(PATIENCE)
        assert await late.wait(PATIENCE)
        valkey_process.kill()
        teller.publish("b")
        hearer.publish("a")
        assert await news.wait(0), "in the process nothing needs the server"
        async with hearer.listen("c") as new:
            await asyncio.to_thread(valkey_process.restart)

            # Whoever listens looks again; what was published meanwhile is told when the server is back.
            for each in (news, late, new):
                assert await each.wait(PATIENCE)
        teller.publish("a")
        while not await news.wait(1):
            teller.publish("a")
    await teller.close()
    await hearer.close()


async def test_a_server_that_is_not_there_yet_is_waited_for_by_nobody(valkey_process: ValkeyProcess) -> None:
    valkey_process.kill()
    bus = ValkeyBus(valkey_process.url, "d")
    async with bus.listen("a") as news:
        bus.publish("a")
        assert await news.wait(0)
        assert not await news.wait(0)
        await asyncio.to_thread(valkey_process.restart)
        assert await news.wait(PATIENCE)
    await bus.close()


async def test_a_server_that_says_nothing_is_left_and_found_again(
    valkey_process: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(valkey, "_ANSWER_SECONDS", 0.05)
    teller, hearer = ValkeyBus(valkey_process.url, "d"), ValkeyBus(valkey_process.url, "d")
    async with hearer.listen("a") as news:
        assert await news.wait(PATIENCE)
        await asyncio.to_thread(valkey_process.pause)
        teller.publish("a")
        hearer.publish("a")
        assert await news.wait(0)
        assert not await news.wait(0.5)
        valkey_process.go_on()

        assert await news.wait(PATIENCE)
    await teller.close()
    await hearer.close()


def test_a_url_that_names_no_server_is_refused() -> None:
    with pytest.raises(BadValkeyURL, match="'http://x' is no Valkey URL; give valkey://HOST:PORT"):
        ValkeyBus("http://x", "d")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "valkey.asyncio", None)
    monkeypatch.delitem(sys.modules, "threadkeep.streams.valkey")
    with pytest.raises(MissingExtra, match=r"pip install 'threadkeep\[valkey\]'"):
        importlib.import_module("threadkeep.streams.valkey")
