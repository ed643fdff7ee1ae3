"""A channel inside one process."""

import asyncio

import pytest

from threadkeep.streams.local import Channel


async def read(channel: Channel[int], after: int = 0) -> list[int]:
    return [item async for item in channel.follow(after)]


async def test_a_late_reader_gets_everything_from_the_start() -> None:
    channel: Channel[int] = Channel()
    for item in (1, 2, 3):
        channel.publish(item)
    channel.close()
    assert await read(channel) == [1, 2, 3]
    assert await read(channel) == [1, 2, 3]


async def test_a_reader_may_begin_further_on() -> None:
    channel: Channel[int] = Channel()
    for item in (1, 2, 3):
        channel.publish(item)
    channel.close()
    assert await read(channel, after=2) == [3]
    assert await read(channel, after=3) == await read(channel, after=9) == []


async def test_readers_that_wait_wake_when_an_item_comes_and_end_with_the_channel() -> None:
    channel: Channel[int] = Channel()
    readers = [asyncio.create_task(read(channel)) for _ in range(3)]
    await asyncio.sleep(0)
    channel.publish(1)
    await asyncio.sleep(0)
    channel.publish(2)
    channel.close()
    assert await asyncio.gather(*readers) == [[1, 2]] * 3


async def test_a_reader_sees_an_item_before_the_next_one_is_there() -> None:
    channel: Channel[int] = Channel()
    reader = channel.follow()
    channel.publish(1)
    assert await anext(reader) == 1
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not waiting.done()
    channel.publish(2)
    assert await waiting == 2
    await reader.aclose()


async def test_a_reader_that_leaves_leaves_nothing_behind() -> None:
    channel: Channel[int] = Channel()
    reader = asyncio.create_task(read(channel))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert channel._waiting == []
    channel.publish(1)
    assert len(channel) == 1


async def test_nothing_is_published_on_a_closed_channel() -> None:
    channel: Channel[int] = Channel()
    channel.close()
    channel.close()
    assert channel.closed
    with pytest.raises(ValueError, match="closed"):
        channel.publish(1)
