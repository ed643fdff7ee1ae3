"""Stores that are slow, away, full or unwilling: the stream goes on, and the record is whole or says what it lacks."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.chat_history.cases import history_of
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.passing_clock import PassingClock
from tests.chat_history.scripts import Crash, ScriptedAgent, called, result, run_of, said, started, thought, until
from tests.chat_history.scripts import wire_input as whole_input
from threadkeep import errors
from threadkeep.chat_history import AGUIStorageAgent, Message, RunHandle, StreamPersistenceManager
from threadkeep.chat_history.ag_ui.patience import Patience
from threadkeep.chat_history.ag_ui.wire import event_type
from threadkeep.persistence import (
    DRMemoryNotFoundError,
    DRMemoryRateLimitError,
    DRMemoryServiceError,
    DRMemoryUnavailableError,
    DRMemoryValidationError,
)

HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]
TALK = run_of(thought("z1", "hm"), said("m1", "One"), called("c1"), result("c1"), said("m2", "Two"))
WHOLE = [("user", "Hello!", "complete"), ("assistant", "One", "complete"), ("assistant", "Two", "complete")]
Failure = Callable[[], Exception | None]


class Outage:
    """A store in memory that fails after the user's message as `failure` says, on a clock that takes no time."""

    def __init__(self, failure: Failure = lambda: None, **patience: float) -> None:
        self.clock = PassingClock()
        self.chats, self.messages = MemoryChats(), MemoryMessages()
        self.failure = failure
        self.attempts: list[float] = []
        self.patience = Patience(**patience)
        self.messages.before_write = self._before_write

    async def _before_write(self) -> None:
        if not self.messages.messages:
            return
        self.attempts.append(self.clock.time - 1_000)
        if (error := self.failure()) is not None:
            raise error

    def away_until(self, seconds: float, error: Exception | None = None) -> None:
        self.failure = lambda: (error or ConnectionError("away")) if self.clock.time < 1_000 + seconds else None

    def agent(self, script: list[Any], **options: Any) -> AGUIStorageAgent:
        agent = AGUIStorageAgent("a", uuid4(), self.chats, self.messages, ScriptedAgent(script), **options)
        agent.clock, agent.patience = self.clock, self.patience
        return agent

    async def begin(self, script: list[Any], **options: Any) -> RunHandle:
        manager = StreamPersistenceManager(lambda: self.agent(script, **options))
        return await manager.run(whole_input(messages=HELLO))

    async def play(self, script: list[Any], **options: Any) -> list[str]:
        handle = await self.begin(script, **options)
        await handle.wait()
        return [event_type(event) async for event in handle.events()]

    def stored(self) -> list[Message]:
        return [*self.messages.messages.values()]

    def rows(self) -> list[tuple[str, str, str]]:
        return [(row["role"], row["content"], row["status"]) for row in history_of(self.stored())]


AWAY = [
    DRMemoryServiceError("unavailable", 503),
    DRMemoryServiceError("a bad gateway", 502),
    DRMemoryServiceError("a bug", 500),
    DRMemoryServiceError("the token has expired", 401),
    DRMemoryServiceError("something else", 409),
    DRMemoryUnavailableError("refused", None),
    ConnectionRefusedError("refused"),
    TimeoutError(),
    errors.Unavailable("database or disk is full"),
    RuntimeError("a bug in a repository"),
]


@pytest.mark.parametrize("error", AWAY, ids=repr)
async def test_a_store_that_is_back_after_a_minute_ends_with_the_whole_history_though_the_run_is_long_over(
    error: Exception,
) -> None:
    outage = Outage()
    outage.away_until(60, error)
    assert await outage.play(TALK) == [event["type"] for event in TALK]
    assert outage.rows() == WHOLE
    _, one, _ = outage.stored()
    assert [(call.content, call.status.value) for call in one.tool_calls] == [("ok", "complete")]
    assert [step.content for step in one.reasonings] == ["hm"]
    # Six pauses up to five seconds, then one at least every five: few enough that nobody is flooded.
    assert len({time for time in outage.attempts if time < 60}) <= 32


async def test_a_run_that_goes_on_while_the_store_is_away_and_comes_back_is_whole() -> None:
    outage, gate, later = Outage(), asyncio.Event(), asyncio.Event()
    outage.away_until(60)
    handle = await outage.begin([*TALK[:-1], gate, *said("m3", "Three"), later, TALK[-1]])
    await until(lambda: len(outage.attempts) == 1)
    for attempts in range(2, 30):
        outage.clock.advance(5)
        if outage.clock.time >= 1_060:
            break
        await until(lambda attempts=attempts: len(outage.attempts) >= attempts)
    gate.set()
    await until(lambda: len(outage.stored()) == 4)
    later.set()
    await handle.wait()
    assert outage.rows() == [*WHOLE, ("assistant", "Three", "complete")]


async def test_a_store_that_asks_for_time_is_given_it() -> None:
    outage = Outage(lambda: next(failures, None), final=100)
    failures = iter([DRMemoryRateLimitError("slower", 429, retry_after=30)] * 2)
    await outage.play(TALK)
    assert outage.rows() == WHOLE
    first, second, third = outage.attempts
    assert second - first >= 30
    assert third - second >= 30


async def test_a_store_that_asks_for_more_time_than_there_is_gets_one_last_attempt() -> None:
    outage = Outage(lambda: next(failures, None), final=100)
    failures = iter([DRMemoryRateLimitError("slower", 429, retry_after=86_400)])
    await outage.play(TALK)
    assert outage.rows() == WHOLE
    assert outage.attempts == [0.0, pytest.approx(100.0)]


# Given up


async def test_a_store_that_is_back_too_late_is_told_what_is_missing_and_why(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(final=600)
    outage.away_until(700)
    handle = await outage.begin(TALK)
    await handle.wait()
    assert 1_600 <= outage.clock.time < 1_700
    assert outage.rows() == WHOLE[:1]
    assert "2 messages could not be stored in 600 s after its end" in caplog.text
    await until(lambda: len(outage.stored()) == 3)
    why = "The store gave no answer for 600 s after the end of the run; this is not all of it"
    assert [(each.content, each.status.value, each.error, each.in_progress) for each in outage.stored()[1:]] == [
        ("", "errored", why, False),
        ("", "errored", why, False),
    ]
    assert [each.agui_id for each in outage.stored()[1:]] == ["m1", "m2"]


async def test_what_was_stored_of_a_message_before_the_store_went_away_stays_and_says_that_it_is_short() -> None:
    outage, gate = Outage(final=600), asyncio.Event()
    half = [started(), *thought("z1", "hm")[:3], *said("m1", "One ")[:2], *called("c1")]
    handle = await outage.begin(
        [*half, gate, result("c1"), *said("m1", "two")[1:], TALK[-1]], minimal_chunk_to_persist=1
    )
    await until(lambda: len(outage.stored()) == 2)
    outage.away_until(700)
    gate.set()
    await handle.wait()
    _, one = outage.stored()
    assert [record.status.value for record in (one, *one.tool_calls, *one.reasonings)] == ["active"] * 3
    await until(lambda: one.status.value != "active")
    records = (one, *one.tool_calls, *one.reasonings)
    assert {(record.status.value, record.in_progress) for record in records} == {("errored", False)}
    assert (one.content, one.tool_calls[0].content, one.reasonings[0].content) == ("One ", "", "hm")
    assert all("600 s" in (record.error or "") for record in records)


async def test_a_store_that_never_comes_back_is_not_asked_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(lambda: ConnectionError("away"), final=60, note=3_600)
    await outage.play(TALK)
    await until(lambda: "was not told of 2 messages" in caplog.text)
    assert 4_660 <= outage.clock.time <= 4_730
    assert outage.rows() == WHOLE[:1]


async def test_a_refused_message_is_marked_even_where_the_store_is_away_at_that_moment() -> None:
    outage = Outage()
    create = outage.messages.create_message
    marking = iter([True, True])

    async def refuse(data: Any) -> Message:
        if data.content == "One":
            raise DRMemoryValidationError("content is forbidden", 422)
        if data.agui_id == "m1" and next(marking, False):
            raise DRMemoryServiceError("away", 503)
        return await create(data)

    outage.messages.create_message = refuse  # type: ignore[method-assign]
    await outage.play(TALK)
    rows = {message.agui_id: message for message in outage.stored()}
    assert (rows["m1"].content, rows["m1"].status.value) == ("", "errored")
    assert (rows["m1"].error or "").startswith("The store refused this message: content is forbidden")
    assert (rows["m2"].content, rows["m2"].status.value) == ("Two", "complete")


async def test_a_refusal_ends_what_the_store_has_as_active_too() -> None:
    outage, gate = Outage(), asyncio.Event()
    update = outage.messages.update_message

    async def refuse(uuid: Any, data: Any) -> Message | None:
        if data.content:
            raise DRMemoryServiceError("too large", 413)
        return await update(uuid, data)

    script = [started(), *said("m1", "One ")[:2], *called("c1"), gate, *said("m1", "two")[1:], TALK[-1]]
    handle = await outage.begin(script, minimal_chunk_to_persist=1)
    await until(lambda: len(outage.stored()) == 2)
    outage.messages.update_message = refuse  # type: ignore[method-assign]
    gate.set()
    await handle.wait()
    _, one = outage.stored()
    assert [(each.status.value, each.error) for each in (one, *one.tool_calls)] == [
        ("errored", "The store refused this message: too large (HTTP 413)")
    ] * 2
    assert one.content == "One "


async def test_one_message_that_the_store_stumbles_over_keeps_no_other_from_being_stored() -> None:
    outage = Outage(final=60)
    create = outage.messages.create_message

    async def stumble(data: Any) -> Message:
        if data.content == "One":
            raise DRMemoryServiceError("a bug", 500)
        return await create(data)

    outage.messages.create_message = stumble  # type: ignore[method-assign]
    await outage.play(TALK)
    assert ("assistant", "Two", "complete") in outage.rows()
    await until(lambda: len(outage.stored()) == 3)
    assert ("assistant", "", "errored") in outage.rows()


@pytest.mark.parametrize(
    "error",
    [DRMemoryNotFoundError("gone", 404), DRMemoryServiceError("gone", 410), errors.NotFound("gone")],
    ids=["404", "410", "of one's own"],
)
async def test_nothing_more_is_written_to_a_chat_that_was_deleted(error: Exception) -> None:
    outage = Outage(lambda: error)
    assert (await outage.play(TALK))[-1] == "RUN_FINISHED"
    assert len(outage.attempts) == 1
    assert outage.rows() == WHOLE[:1]


@pytest.mark.parametrize("method", ["create_message", "create_message_tool_call", "create_message_reasoning"])
async def test_a_write_whose_answer_was_lost_is_neither_stored_twice_nor_left_as_it_was_then(method: str) -> None:
    outage, gate = Outage(), asyncio.Event()
    create = getattr(outage.messages, method)
    lost = iter([True])

    async def lose_the_answer(data: Any) -> Any:
        made = await create(data)
        if outage.stored()[1:] and next(lost, False):
            gate.set()
            raise TimeoutError
        return made

    setattr(outage.messages, method, lose_the_answer)
    half = [started(), *thought("z1", "h")[:3], *said("m1", "On")[:2], *called("c1", arguments='{"a')[:2]]
    rest = [
        *thought("z1", "m")[2:],
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "e"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '":1}'},
        result("c1"),
        TALK[-1],
    ]
    await outage.play([*half, gate, *rest], minimal_chunk_to_persist=1)
    _, one = outage.stored()
    assert (one.content, one.status.value) == ("One", "complete")
    assert [(call.arguments, call.content) for call in one.tool_calls] == [('{"a":1}', "ok")]
    assert [step.content for step in one.reasonings] == ["hm"]


# Memory


def words(count: int, agui_id: str = "m1") -> list[Any]:
    return said(agui_id, *(["word " * 100] * count))


async def test_a_run_holds_no_more_bytes_than_it_may_and_says_what_it_misses(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    outage.away_until(60)
    script = run_of(said("m0", "Before"), words(100), said("m2", "After"), called("c1"), result("c1"))
    assert await outage.play(script, max_pending_bytes=20_000, put_timeout=0.0) == [event["type"] for event in script]
    _, before, *rest = outage.stored()
    assert (before.content, before.status.value, before.error) == ("Before", "complete", None)
    (short,) = rest
    assert 10_000 < len(short.content) <= 20_000
    assert short.content == "word " * (len(short.content) // 5)
    assert (short.status.value, short.in_progress) == ("errored", False)
    missing = len(script) - 5 - 1 - len(short.content) // 500
    assert short.error == (
        f"{missing} events of this run could not be recorded: 20,000 bytes were waiting for the store; "
        "this is not all of it"
    )
    assert "wait, the record will miss some" in caplog.text


async def test_a_message_with_a_hole_says_so_though_the_store_is_back_before_the_run_ends() -> None:
    outage, gate, later = Outage(), asyncio.Event(), asyncio.Event()
    outage.away_until(60)
    script = [started(), *words(100)[:-1], gate, words(1)[1], *words(1)[-1:], *said("m2", "Two"), later, TALK[-1]]
    handle = await outage.begin(script, max_pending_bytes=20_000, put_timeout=0.0)
    await until(lambda: len(outage.attempts) == 1)
    outage.clock.advance(60)
    await until(lambda: len(outage.stored()) == 2 and outage.stored()[1].content != "")
    gate.set()
    await until(lambda: len(outage.stored()) == 3)
    later.set()
    await handle.wait()
    _, short, two = outage.stored()
    assert short.status.value == "errored"
    assert "could not be recorded" in (short.error or "")
    # How the run ended shows on its last message, whole or not.
    assert (two.content, two.status.value) == ("Two", "errored")


async def test_a_call_with_a_hole_says_so_though_its_result_came() -> None:
    outage, gate, later = Outage(), asyncio.Event(), asyncio.Event()
    outage.away_until(60)
    start, _, end = called("c1", arguments="")
    more = {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "x" * 500}
    thinking = thought("z1", *(["hm " * 100] * 100))
    script = [started(), start, *[more] * 100, end, *thinking, gate, result("c1"), *said("m2", "Two"), later, TALK[-1]]
    handle = await outage.begin(script, max_pending_bytes=20_000, put_timeout=0.0)
    await until(lambda: len(outage.attempts) == 1)
    outage.clock.advance(60)
    await until(lambda: len(outage.stored()) == 2)
    gate.set()
    await until(lambda: len(outage.stored()) == 3)
    later.set()
    await handle.wait()
    (call,) = outage.stored()[1].tool_calls
    assert (call.content, call.status.value) == ("ok", "errored")
    assert "could not be recorded" in (call.error or "")


async def test_a_store_that_never_catches_up_with_a_run_may_still_take_all_of_it() -> None:
    outage = Outage()

    async def take_turns(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def slow() -> None:
        if outage.messages.messages:
            await take_turns(10)

    async def breathe() -> None:
        await take_turns(5)

    outage.messages.before_write = slow
    deltas = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "word " * 100}] * 33
    steps = [step for _ in range(20) for step in (*deltas, breathe)]
    script = [started(), said("m1")[0], *steps, *said("m1")[-1:], TALK[-1]]
    await outage.play(script, max_pending_bytes=200_000, put_timeout=0.0, minimal_chunk_to_persist=1)
    assert [(len(row[1]), row[2]) for row in outage.rows()[1:]] == [(330_000, "complete")]


async def test_a_long_run_on_a_store_that_works_may_be_longer_than_what_it_may_hold() -> None:
    outage = Outage()
    script = run_of(*(words(20, f"m{n}") for n in range(50)))
    await outage.play(script, max_pending_bytes=50_000, put_timeout=10.0)
    assert [(len(row[1]), row[2]) for row in outage.rows()[1:]] == [(10_000, "complete")] * 50


async def test_a_store_that_hangs_lets_a_run_hold_no_more_than_one_that_fails() -> None:
    outage, away = Outage(), asyncio.Event()

    async def hang() -> None:
        if outage.messages.messages:
            await away.wait()

    outage.messages.before_write = hang
    script = run_of(said("m0", "Before"), words(100))
    handle = await outage.begin(script, max_pending_bytes=20_000, put_timeout=0.0)
    assert len([event async for event in handle.events()]) == len(script)
    away.set()
    await handle.wait()
    _, before, short = outage.stored()
    assert before.status.value == "complete"
    assert (len(short.content) <= 20_000, short.status.value) == (True, "errored")


# Who waits, and for how long


async def test_a_write_that_takes_too_long_is_given_up_and_repeated() -> None:
    outage, hung = Outage(attempt=0.0), iter([True] * 3)

    async def hang() -> None:
        if outage.messages.messages and next(hung, False):
            await asyncio.Event().wait()

    outage.messages.before_write = hang
    await outage.play(TALK)
    assert outage.rows() == WHOLE
    assert next(hung, None) is None


async def test_an_agent_that_breaks_is_told_to_the_client_at_once_whatever_the_store_does() -> None:
    outage, away = Outage(settle=3_600), asyncio.Event()

    async def hang() -> None:
        if outage.messages.messages:
            await away.wait()

    outage.messages.before_write = hang
    for script, message in [
        ([started(), *said("m1", "Half")[:2], Crash("it broke")], "it broke"),
        ([started(), *said("m1", "Half")[:2]], "The agent's stream ended without a terminal event"),
    ]:
        handle = await outage.begin(script)
        async with asyncio.timeout(20):
            events = [event async for event in handle.events()]
        assert (event_type(events[-1]), events[-1].message) == ("RUN_ERROR", message)
        assert len(outage.stored()) == 1
        away.set()
        await handle.wait()
        assert outage.rows()[1] == ("assistant", "Half", "errored")
        outage.messages.messages.clear()
        outage.chats.chats.clear()
        away.clear()


async def test_the_end_of_a_stream_waits_a_little_for_the_record_and_stored_waits_for_all_of_it() -> None:
    outage, away = Outage(settle=0.0), asyncio.Event()

    async def hang() -> None:
        if outage.messages.messages:
            await away.wait()

    outage.messages.before_write = hang
    agent = outage.agent(TALK)
    assert len([event async for event in agent.run(whole_input(messages=HELLO))]) == len(TALK)
    assert outage.rows() == WHOLE[:1]
    away.set()
    await agent.stored()
    assert outage.rows() == WHOLE


async def test_a_handle_waits_for_the_record_longer_than_the_stream_does() -> None:
    outage, away = Outage(settle=0.0), asyncio.Event()

    async def hang() -> None:
        if outage.messages.messages:
            await away.wait()

    outage.messages.before_write = hang
    waiting = asyncio.create_task((await outage.begin(TALK)).wait())
    await until(lambda: any(task.get_name().startswith("store the rest") for task in asyncio.all_tasks()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    away.set()
    await waiting
    assert outage.rows() == WHOLE


async def test_a_manager_is_drained_before_a_shutdown() -> None:
    outage, away = Outage(), asyncio.Event()

    async def hang() -> None:
        if outage.messages.messages:
            await away.wait()

    outage.messages.before_write = hang
    manager = StreamPersistenceManager(lambda: outage.agent([started(), *said("m1", "Half")[:2], asyncio.Event()]))
    assert await manager.drain() == 0
    handle = await manager.run(whole_input(messages=HELLO))
    async for event in handle.events():
        if event_type(event) == "TEXT_MESSAGE_CONTENT":
            break
    assert await manager.drain(0.0) == 1
    assert await manager.drain(0.0, cancel=True) == 1
    away.set()
    assert await manager.drain(20.0) == 0
    assert outage.rows()[1] == ("assistant", "Half", "interrupted")
