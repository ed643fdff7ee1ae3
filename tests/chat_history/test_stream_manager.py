"""Runs that outlive their readers."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import Crash, ScriptedAgent, called, run_of, said, started, until, wire_input
from threadkeep.chat_history import AGUIStorageAgent, Message, StreamPersistenceManager, WireEvent
from threadkeep.chat_history.ag_ui.wire import event_fields, event_json, event_type

HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]


class House:
    def __init__(self, script: list[Any]) -> None:
        self.chats, self.messages = MemoryChats(), MemoryMessages()
        self.inner = ScriptedAgent(script)
        self.made: list[tuple[Any, ...]] = []
        self.manager = StreamPersistenceManager(self.make)

    def make(self, *args: Any, **kwargs: Any) -> AGUIStorageAgent:
        self.made.append((args, kwargs))
        return AGUIStorageAgent("assistant", uuid4(), self.chats, self.messages, self.inner)

    def last(self) -> Message:
        return list(self.messages.messages.values())[-1]


async def kinds(handle: Any, count: int | None = None) -> list[str]:
    found: list[str] = []
    async for event in handle.events():
        found.append(event_type(event))
        if len(found) == count:
            break
    return found


async def test_a_run_is_read_as_it_comes_and_stored() -> None:
    house = House(run_of(said("m1", "Hi")))
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert (handle.thread_id, handle.run_id) == ("t1", "r1")
    assert (await kinds(handle))[-1] == "RUN_FINISHED"
    await handle.wait()
    assert (house.last().content, house.last().status.value) == ("Hi", "complete")


async def test_a_run_may_be_read_by_several_and_again_later() -> None:
    house = House(run_of(said("m1", "Hi")))
    handle = await house.manager.run(wire_input(messages=HELLO))
    both = await asyncio.gather(kinds(handle), kinds(handle))
    await handle.wait()
    assert both[0] == both[1] == await kinds(handle)


async def test_a_reader_that_leaves_stops_nothing() -> None:
    house = House(run_of(said("m1", "One ", "two ", "three")))
    handle = await house.manager.run(wire_input(messages=HELLO))
    await kinds(handle, 2)
    await handle.wait()
    assert (house.last().content, house.last().status.value) == ("One two three", "complete")


async def test_further_arguments_go_to_the_factory() -> None:
    house = House(run_of())
    await (await house.manager.run(wire_input(), "tenant", model="m")).wait()
    assert house.made == [(("tenant",), {"model": "m"})]


async def test_a_run_that_is_under_way_is_not_started_twice() -> None:
    gate = asyncio.Event()
    house = House([started(), gate, *run_of()[1:]])
    first = await house.manager.run(wire_input())
    assert await house.manager.run(wire_input()) is first
    gate.set()
    await first.wait()
    assert await house.manager.run(wire_input()) is not first
    await (await house.manager.run(wire_input())).wait()
    assert len(house.made) == 2


async def test_a_crash_is_told_to_the_client_and_wait_raises_nothing() -> None:
    house = House([started(), *said("m1", "Half")[:2], Crash("it broke")])
    handle = await house.manager.run(wire_input(messages=HELLO))
    await handle.wait()
    *_, last = [event async for event in handle.events()]
    assert (event_type(last), last.code, last.message) == ("RUN_ERROR", "INTERNAL_ERROR", "it broke")
    assert house.last().status.value == "errored"


async def test_a_factory_that_fails_is_told_to_the_client() -> None:
    manager = StreamPersistenceManager(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    handle = await manager.run(wire_input())
    await handle.wait()
    assert await kinds(handle) == ["RUN_ERROR"]


async def test_a_stream_without_a_terminal_event_gets_one() -> None:
    house = House([started(), *said("m1", "abc")[:2]])
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert (await kinds(handle))[-1] == "RUN_ERROR"
    await handle.wait()
    assert house.last().status.value == "errored"


async def test_nothing_follows_a_terminal_event() -> None:
    house = House([*run_of(said("m1", "Hi")), *said("m2", "late"), {"type": "RUN_ERROR", "message": "late"}])
    handle = await house.manager.run(wire_input())
    assert (await kinds(handle))[-1] == "RUN_FINISHED"
    await handle.wait()
    assert (await kinds(handle))[-1] == "RUN_FINISHED"


async def test_the_terminal_event_does_not_wait_for_the_store() -> None:
    house, gate = House(run_of(said("m1", "Hi"))), asyncio.Event()

    async def hang() -> None:
        if house.messages.transactions:
            await gate.wait()

    house.messages.before_write = hang
    handle = await house.manager.run(wire_input(messages=HELLO))
    assert (await kinds(handle))[-1] == "RUN_FINISHED"
    assert [message.role.value for message in house.messages.messages.values()] == ["user"]
    assert not handle.cancel()
    gate.set()
    await handle.wait()
    assert (house.last().content, house.last().status.value) == ("Hi", "complete")


@pytest.mark.parametrize("by", ["handle", "manager"])
async def test_a_cancelled_run_ends_for_its_readers_at_once_and_its_records_are_interrupted(by: str) -> None:
    house = House([started(), *said("m1", "One, two")[:2], asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO))
    await kinds(handle, 3)
    assert handle.cancel() if by == "handle" else house.manager.cancel("t1", "r1")
    assert (await kinds(handle))[3:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    *_, last = [event async for event in handle.events()]
    assert event_fields(last).get("outcome") is None
    await handle.wait()
    assert (house.last().content, house.last().status.value) == ("One, two", "interrupted")
    assert not handle.cancel()
    assert not house.manager.cancel("t1", "r1")


async def test_a_1_x_client_sees_a_cancelled_run_closed_in_good_order() -> None:
    house = House([started(), *said("m1", "Let me")[:2], *called("c1")[:2], asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO, protocolVersion="1.0"))
    await kinds(handle, 5)
    assert handle.cancel()
    *_, last = [event async for event in handle.events()]
    assert (await kinds(handle))[5:] == ["TOOL_CALL_END", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert json.loads(event_json(last))["outcome"] == {"type": "cancelled"}
    await handle.wait()


async def test_an_unknown_run_cannot_be_cancelled() -> None:
    assert not House([]).manager.cancel("t1", "nowhere")


async def test_a_run_that_has_ended_is_forgotten() -> None:
    house = House(run_of())
    handle = await house.manager.run(wire_input())
    await handle.wait()
    await until(lambda: not house.manager._live)
    assert not house.manager.cancel("t1", "r1")


async def test_a_task_that_is_cancelled_from_outside_still_ends_its_readers() -> None:
    house = House([started(), *said("m1", "One")[:2], asyncio.Event()])
    handle = await house.manager.run(wire_input(messages=HELLO))
    await kinds(handle, 3)
    handle._task.cancel()
    await handle.wait()
    assert (await kinds(handle))[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert house.last().status.value == "interrupted"


async def test_an_invalid_input_is_told_to_the_client() -> None:
    house = House(run_of())
    handle = await house.manager.run(wire_input(messages=[{"id": "s", "role": "system", "content": "x"}]))
    (event,) = [event async for event in handle.events()]
    assert (event_type(event), event.code) == ("RUN_ERROR", "INVALID_INPUT")
    await handle.wait()


async def test_an_agent_that_carries_out_two_runs_tells_each_of_its_own_end() -> None:
    gates = {"r1": asyncio.Event(), "r2": asyncio.Event()}

    class Two(ScriptedAgent):
        async def run(self, input: Any) -> Any:
            await gates[input.run_id].wait()
            raise Crash(input.run_id)
            yield

    house = House([])
    shared = AGUIStorageAgent("assistant", uuid4(), house.chats, house.messages, Two([]))
    manager = StreamPersistenceManager(lambda: shared)
    handles = [await manager.run(wire_input(runId=run_id, threadId=run_id)) for run_id in gates]
    for gate in gates.values():
        gate.set()
    for handle in handles:
        assert [event.message async for event in handle.events()] == [handle.run_id]
        await handle.wait()


async def test_an_agent_that_overrides_run_may_end_a_broken_stream_in_its_own_words() -> None:
    class Polite(AGUIStorageAgent):
        async def run(self, input: Any) -> Any:
            try:
                async for event in super().run(input):
                    yield event
            except Crash:
                yield WireEvent.of({"type": "RUN_ERROR", "message": "Sorry"})

    house = House([started(), Crash("it broke")])
    manager = StreamPersistenceManager(lambda: Polite("a", uuid4(), house.chats, house.messages, house.inner))
    handle = await manager.run(wire_input())
    await handle.wait()
    *_, last = [event async for event in handle.events()]
    assert event_fields(last)["message"] == "Sorry"
