"""Runs of the stream manager that have a log."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from tests.chat_history.memory_log import MemoryLog, MemoryWriter
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import Crash, ScriptedAgent, run_of, said, started, until, wire_input
from threadkeep.chat_history import AGUIStorageAgent, Message, RunHandle, StreamPersistenceManager, WireEvent
from threadkeep.errors import RunActive
from threadkeep.streams.run_log import RunEnding

HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]


class House:
    def __init__(self, script: list[Any], **options: Any) -> None:
        self.chats, self.messages = MemoryChats(), MemoryMessages()
        self.inner = ScriptedAgent(script)
        self.log = MemoryLog()
        self.manager = StreamPersistenceManager(self.make, self.log, **options)

    @property
    def writer(self) -> MemoryWriter:
        return self.log.writer

    def make(self) -> AGUIStorageAgent:
        return AGUIStorageAgent("assistant", uuid4(), self.chats, self.messages, self.inner)

    def last(self) -> Message:
        return list(self.messages.messages.values())[-1]


async def read(handle: RunHandle, after: int = -1, count: int | None = None) -> list[tuple[int | None, str]]:
    seen: list[tuple[int | None, str]] = []
    async with asyncio.timeout(20):
        async for index, data in handle.follow(after):
            seen.append((index, WireEvent(data).type))
            if len(seen) == count:
                break
    return seen


async def test_a_run_s_events_are_in_its_log_as_they_came_and_its_end_says_how_it_went() -> None:
    script = run_of(said("m1", "Hi"))
    house = House(script)
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert [event.raw async for event in handle.events() if isinstance(event, WireEvent)] == house.writer.events
    assert house.writer.events == [WireEvent.of(event).raw for event in script]
    assert house.writer.ending == RunEnding("finished")
    assert (house.last().content, house.last().status.value) == ("Hi", "complete")


async def test_whoever_sees_the_end_of_a_run_finds_its_history_stored() -> None:
    house, gate = House(run_of(said("m1", "Hi"))), asyncio.Event()

    async def hang() -> None:
        if house.messages.transactions:
            await gate.wait()

    house.messages.before_write = hang
    handle = await house.manager.run(wire_input(messages=HELLO))
    reading = asyncio.create_task(read(handle))
    await until(lambda: len(house.writer.events) == 4)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not reading.done()
    assert not handle.cancel()
    gate.set()
    assert (await reading)[-1] == (4, "RUN_FINISHED")
    assert (house.last().content, house.last().status.value) == ("Hi", "complete")


async def test_a_run_may_be_followed_after_any_index() -> None:
    house = House(run_of(said("m1", "Hi")))
    handle = await house.manager.run(wire_input(messages=HELLO))
    whole = await read(handle)
    assert [index for index, _ in whole] == [0, 1, 2, 3, 4]
    for after in range(5):
        assert await read(handle, after) == whole[after + 1 :]


async def test_a_cancelled_run_is_closed_in_its_log_and_its_agent_stopped() -> None:
    house = House([started(), *said("m1", "Half")[:2], asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO, protocolVersion="1.0"))
    await read(handle, count=3)
    assert handle.cancel()
    assert not handle.cancel()
    assert [kind for _, kind in await read(handle, 2)] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert house.writer.ending == RunEnding("interrupted", {"type": "cancelled"})
    assert (house.last().content, house.last().status.value) == ("Half", "interrupted")


async def test_a_log_may_ask_for_the_end_of_a_run() -> None:
    house = House([started(), asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO))
    await read(handle, count=1)
    house.log.cancels[0]()
    assert (await read(handle))[-1] == (1, "RUN_FINISHED")


async def test_a_run_that_is_stopped_for_a_reason_of_the_server_ends_with_an_error() -> None:
    house = House([started(), asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO))
    await read(handle, count=1)
    assert handle.fail("The server was stopped", "SERVER_STOPPED")
    await handle.wait()
    assert WireEvent(house.writer.events[-1]).fields == {
        "type": "RUN_ERROR",
        "message": "The server was stopped",
        "code": "SERVER_STOPPED",
    }
    assert house.writer.ending == RunEnding("interrupted", error="The server was stopped")


async def test_a_crash_of_the_agent_is_in_the_log_and_no_success() -> None:
    """Pitfall 13."""
    house = House([started(), Crash("no more tokens")])
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert [kind for _, kind in await read(handle)] == ["RUN_STARTED", "RUN_ERROR"]
    assert house.writer.ending == RunEnding("errored", error="no more tokens")


async def test_an_event_that_is_no_json_ends_the_run_and_closes_its_agent() -> None:
    left: list[str] = []

    class Odd(ScriptedAgent):
        async def run(self, input: Any) -> Any:
            try:
                yield {"type": "RUN_STARTED"}
                yield {"type": "CUSTOM", "value": object()}
                yield {"type": "CUSTOM", "value": "never asked for"}
            finally:
                left.append("closed")

    house = House([])
    house.inner = Odd([])
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert [kind for _, kind in await read(handle)] == ["RUN_STARTED", "RUN_ERROR"]
    assert house.writer.ending == RunEnding("errored", error="The agent sent an event that is no JSON")
    assert left == ["closed"]


async def test_an_agent_is_held_up_when_too_much_of_its_run_waits_for_the_log() -> None:
    house = House(run_of(said("m1", *["word "] * 50)), max_waiting_bytes=5_000)
    house.writer.gate.clear()
    handle = await house.manager.run(wire_input(messages=HELLO))
    stream = handle._logged
    assert stream is not None
    await until(lambda: stream.is_full)
    for _ in range(50):
        await asyncio.sleep(0)
    assert 5_000 < stream._waiting_bytes < 5_500
    house.writer.gate.set()
    assert len(await read(handle)) == 54


async def test_a_run_that_somebody_else_took_over_is_stopped_here() -> None:
    gate = asyncio.Event()
    house = House([started(), gate, *said("m1", "late")])
    handle = await house.manager.run(wire_input(messages=HELLO))
    await read(handle, count=1)
    house.writer.give_away(b'{"type":"RUN_ERROR","message":"ended by its new owner"}')
    gate.set()
    assert await read(handle) == [(0, "RUN_STARTED"), (1, "RUN_ERROR")]
    await handle.wait()
    assert not handle.cancel()


async def test_a_run_that_the_log_has_is_followed_and_not_carried_out_again() -> None:
    house = House(run_of())
    house.writer.is_new = False
    house.writer.events = [b'{"type":"RUN_STARTED"}', b'{"type":"RUN_FINISHED"}']
    house.writer.ending = RunEnding("finished")
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert await read(handle) == [(0, "RUN_STARTED"), (1, "RUN_FINISHED")]
    assert await read(handle, 0) == [(1, "RUN_FINISHED")]
    assert not handle.cancel()
    await handle.wait()
    assert house.inner.inputs == []


async def test_a_reader_that_stops_early_lets_go_of_the_log_at_once() -> None:
    house = House(run_of())
    house.writer.is_new = False
    house.writer.events = [b'{"type":"RUN_STARTED"}', b'{"type":"RUN_FINISHED"}']
    handle = await house.manager.run(wire_input(messages=HELLO))
    for events in (handle.events(), handle.follow(), handle.batches()):
        await anext(events)
        assert house.writer.followers == 1
        await events.aclose()  # type: ignore[union-attr]
        assert house.writer.followers == 0


async def test_a_reader_of_a_run_that_was_lost_lets_go_of_the_log_at_once() -> None:
    house = House([*run_of()[:1], asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO))
    events = handle.follow()
    await anext(events)
    house.writer.events = [b'{"type":"RUN_STARTED"}', b'{"type":"STEP_STARTED"}', b'{"type":"RUN_ERROR"}']
    handle.lose()
    assert await anext(events) == (1, b'{"type":"STEP_STARTED"}')
    assert house.writer.followers == 1
    await events.aclose()  # type: ignore[attr-defined]
    assert house.writer.followers == 0


async def test_a_run_that_is_asked_for_twice_at_once_begins_once() -> None:
    house = House(run_of(said("m1", "Hi")))
    one, two = await asyncio.gather(house.manager.run(wire_input()), house.manager.run(wire_input()))
    assert one is two
    assert house.log.begun == ["r1"]
    assert len(await read(one)) == 5


async def test_a_caller_that_leaves_while_its_run_begins_leaves_no_run_without_an_agent() -> None:
    house = House(run_of(said("m1", "Hi")))
    asking = asyncio.create_task(house.manager.run(wire_input(messages=HELLO)))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    await until(lambda: house.writer.ending is not None)
    assert house.last().content == "Hi"


async def test_a_log_that_refuses_a_run_is_asked_again_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(run_of())
    begin = house.log.begin

    async def refuse(*_: Any) -> MemoryWriter:
        raise RunActive("t1", "r0")

    monkeypatch.setattr(house.log, "begin", refuse)
    with pytest.raises(RunActive):
        await house.manager.run(wire_input())
    monkeypatch.setattr(house.log, "begin", begin)
    assert (await read(await house.manager.run(wire_input())))[-1][1] == "RUN_FINISHED"


async def test_draining_waits_for_the_log_too() -> None:
    house = House(run_of(said("m1", "Hi")))
    house.writer.gate.clear()
    await house.manager.run(wire_input(messages=HELLO))
    await house.writer.entered.wait()
    assert await house.manager.drain(0.001) == 1
    house.writer.gate.set()
    assert await house.manager.drain(20) == 0
    assert house.writer.ending == RunEnding("finished")


async def test_a_run_is_over_when_its_readers_have_its_end() -> None:
    gate = asyncio.Event()
    house = House([started(), gate, *run_of()[1:]])
    handle = await house.manager.run(wire_input(messages=HELLO))
    over = asyncio.create_task(handle.over())
    await read(handle, count=1)
    assert not over.done()
    gate.set()
    await over
    assert house.writer.ending == RunEnding("finished")


@pytest.mark.parametrize("where", ["before its end", "while its end is stored"])
async def test_a_run_that_is_abandoned_writes_nothing_more(where: str) -> None:
    house = House([started(), asyncio.Event()] if where == "before its end" else run_of(said("m1", "Hi")))
    house.writer.gate.clear()

    async def hang() -> None:
        if house.messages.transactions:
            await asyncio.Event().wait()

    house.messages.before_write = hang
    handle = await house.manager.run(wire_input(messages=HELLO))
    await house.writer.entered.wait()
    if where == "while its end is stored":
        await until(lambda: handle._is_closed)
    async with asyncio.timeout(20):
        await handle.abandon()
    house.writer.gate.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (house.writer.events, house.writer.ending) == ([], None)
