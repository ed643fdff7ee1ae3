"""The storage agent: the stream goes through untouched, and however it ends the record has an end."""

import asyncio
import gc
import logging
from typing import Any
from uuid import uuid4

import pytest
from ag_ui.core import BaseEvent, CustomEvent, RunAgentInput, TextMessageContentEvent, UserMessage

from tests.chat_history.cases import history_of
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import (
    Crash,
    ScriptedAgent,
    called,
    finished,
    result,
    run_of,
    said,
    started,
    thought,
    until,
    wire_input,
)
from tests.chat_history.stored import spoken
from threadkeep.chat_history import (
    AGUIStorageAgent,
    ChatRepositoryLike,
    Message,
    MessageCreate,
    MessageRepositoryLike,
    MessageStatus,
    MessageToolCallCreate,
    StorageState,
    ToolCall,
)
from threadkeep.chat_history.ag_ui.opening import live_runs
from threadkeep.chat_history.ag_ui.patience import Patience

USER = uuid4()
HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]


class Bench:
    """A storage agent of a given class on a store in memory."""

    def __init__(self, cls: type[AGUIStorageAgent] = AGUIStorageAgent, **options: Any) -> None:
        self.cls, self.options = cls, options
        self.chats, self.messages = MemoryChats(), MemoryMessages()
        self.inner = ScriptedAgent([])

    def agent(self, script: list[Any]) -> AGUIStorageAgent:
        self.inner = ScriptedAgent(script)
        return self.cls("assistant", USER, self.chats, self.messages, self.inner, **self.options)

    async def play(self, script: list[Any], run_input: Any = None) -> list[Any]:
        return [event async for event in self.agent(script).run(run_input or wire_input(messages=HELLO))]

    async def stored(self) -> list[Message]:
        return list(self.messages.messages.values())

    async def rows(self) -> list[tuple[str, str, str]]:
        return [(row["role"], row["content"], row["status"]) for row in history_of(await self.stored())]


def test_a_store_of_ones_own_satisfies_the_protocols() -> None:
    assert isinstance(MemoryChats(), ChatRepositoryLike)
    assert isinstance(MemoryMessages(), MessageRepositoryLike)


async def test_events_pass_as_the_very_objects_that_came() -> None:
    events = [TextMessageContentEvent(message_id="m", delta=str(n)) for n in range(50)]
    passed = await Bench().play([*events, finished()])
    assert all(one is other for one, other in zip(passed, events, strict=False))


async def test_an_event_passes_before_the_next_one_is_made() -> None:
    bench, gate = Bench(), asyncio.Event()
    stream = bench.agent([started(), gate, finished()]).run(wire_input(messages=HELLO))
    assert (await anext(stream)).type == "RUN_STARTED"
    gate.set()
    assert [event.type async for event in stream] == ["RUN_FINISHED"]


async def test_history_is_put_before_what_the_user_says_now() -> None:
    bench = Bench()
    await bench.play(run_of(said("m1", "Hi")))
    again = wire_input(runId="r2", messages=[{"id": "u2", "role": "user", "content": "And?"}])
    given = again.messages
    await bench.play(run_of(said("m2", "Well"), run_id="r2"), again)
    assert [(message["role"], message["content"]) for message in bench.inner.seen[0]] == [
        ("user", "Hello!"),
        ("assistant", "Hi"),
        ("user", "And?"),
    ]
    assert again.messages is given


async def test_the_chat_is_called_by_the_first_words_and_messages_by_their_speaker() -> None:
    bench = Bench()
    await bench.play(run_of(said("m1", "Hi")))
    assert [chat.name for chat in bench.chats.chats.values()] == ["Hello!"]
    assert [message.name for message in bench.messages.messages.values()] == ["", bench.agent([]).name]


async def test_the_input_may_be_the_protocols_own() -> None:
    bench = Bench()
    given = RunAgentInput(
        thread_id="t1",
        run_id="r1",
        messages=[UserMessage(id="u1", role="user", content="Hello!")],
        tools=[],
        context=[],
        state={},
        forwarded_props={},
    )
    await bench.play(run_of(said("m1", "Hi")), given)
    assert await bench.rows() == [("user", "Hello!", "complete"), ("assistant", "Hi", "complete")]
    assert [message.content for message in given.messages] == ["Hello!"]


async def test_a_new_message_that_only_the_agent_may_bring_ends_the_run_before_anything_is_stored() -> None:
    bench = Bench()
    made_up = {"id": "m9", "role": "assistant", "content": "I never said that"}
    (event,) = await bench.play(run_of(said("m1", "Hi")), wire_input(messages=[*HELLO, made_up]))
    assert (event.type.value, event.code) == ("RUN_ERROR", "INVALID_INPUT")
    assert "m9" in event.message
    assert (bench.inner.seen, bench.messages.messages, bench.chats.chats) == ([], {}, {})


async def test_the_history_can_be_translated_by_ones_own_function() -> None:
    bench = Bench(translate=lambda messages: [f"{message.role}: {message.content}" for message in messages])
    given = wire_input(messages=HELLO)
    await bench.play(run_of(), given)
    assert given.messages == ["user: Hello!"]


async def test_asking_again_gives_the_agent_the_history_up_to_the_question() -> None:
    bench = Bench()
    await bench.play(run_of(said("m1", "Hi")))
    await bench.play(run_of(said("m2", "Hey"), run_id="r2"), wire_input(runId="r2", messages=HELLO))
    assert [message["content"] for message in bench.inner.seen[0]] == ["Hello!"]
    assert [content for _, content, _ in await bench.rows()] == ["Hello!", "Hi", "Hey"]


# The four outcomes, and the others


async def test_a_run_that_finishes_is_complete() -> None:
    bench = Bench()
    await bench.play(run_of(thought("z1", "hm"), said("m1", "Hi"), called("c1"), result("c1")))
    _, message = await bench.stored()
    states = [(each.status.value, each.in_progress) for each in (message, *message.tool_calls, *message.reasonings)]
    assert states == [("complete", False)] * 3
    assert (message.run_id, message.emitter_type, message.chat_uuid) == ("r1", "agent", next(iter(bench.chats.chats)))


async def test_an_agent_that_raises_leaves_errored_records_and_its_exception() -> None:
    bench = Bench()
    with pytest.raises(Crash):
        await bench.play([started(), *said("m1", "Half an ans")[:2], Crash("it broke")])
    assert (await bench.rows())[1] == ("assistant", "Half an ans", "errored")
    assert (await bench.stored())[1].error == "it broke"


async def test_a_stream_without_a_terminal_event_leaves_errored_records() -> None:
    bench = Bench()
    await bench.play([started(), *said("m1", "abc")[:2]])
    assert (await bench.rows())[1] == ("assistant", "abc", "errored")
    assert (await bench.stored())[1].error == "The agent's stream ended without a terminal event"


async def test_an_error_event_leaves_errored_records() -> None:
    bench = Bench()
    await bench.play([started(), *said("m1", "abc")[:2], {"type": "RUN_ERROR", "message": "503"}])
    assert (await bench.rows())[1] == ("assistant", "abc", "errored")


async def _cancelled(bench: Bench, script: list[Any], count: int) -> None:
    async def consume() -> None:
        async for _ in bench.agent(script).run(wire_input(messages=HELLO)):
            seen.append(1)  # noqa: PERF401

    seen: list[int] = []
    task = asyncio.create_task(consume())
    await until(lambda: len(seen) == count)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "events",
    [
        [started()],
        [started(), *thought("z1", "hm")[:3]],
        [started(), *said("m1", "One, two")[:2]],
        [started(), *said("m1", "Let me"), *called("c1")[:2]],
        [started(), *said("m1", "Let me"), *called("c1")],
        [started(), *said("m1", "Let me"), *called("c1"), result("c1")],
        [started(), *said("m1", "One"), *thought("z1", "two")],
        [started(), *said("m1")[:1]],
    ],
    ids=["start", "reasoning", "text", "arguments", "call", "result", "waiting reasoning", "silence"],
)
async def test_a_cancellation_in_any_state_interrupts_what_is_open(events: list[Any]) -> None:
    bench = Bench()
    await _cancelled(bench, [*events, asyncio.Event()], len(events))
    messages = await bench.stored()
    for message in messages:
        for record in (message, *message.tool_calls, *message.reasonings):
            assert record.status is not MessageStatus.ACTIVE
            assert not record.in_progress
    if len(events) > 1:
        assert messages[-1].status is MessageStatus.INTERRUPTED


async def test_an_agent_that_takes_no_notice_of_a_cancellation_is_stopped_at_its_next_event() -> None:
    deaf = asyncio.Event()

    async def ignore() -> None:
        try:
            await deaf.wait()
        except asyncio.CancelledError:
            pass

    bench = Bench()
    await _cancelled(bench, [started(), *said("m1", "One, two")[:2], ignore, *said("m2", "late"), finished()], 3)
    assert await bench.rows() == [("user", "Hello!", "complete"), ("assistant", "One, two", "interrupted")]


async def test_a_consumer_that_leaves_interrupts_the_run_and_closes_the_agent() -> None:
    closed = asyncio.Event()

    class Tidy(ScriptedAgent):
        async def run(self, input: Any) -> Any:
            try:
                async for event in super().run(input):
                    yield event
            finally:
                closed.set()

    bench = Bench()
    inner = Tidy([started(), *said("m1", "One ", "two")])
    stream = AGUIStorageAgent("assistant", USER, bench.chats, bench.messages, inner).run(wire_input(messages=HELLO))
    for _ in range(3):
        await anext(stream)
    await stream.aclose()
    assert closed.is_set()
    assert (await bench.rows())[1] == ("assistant", "One ", "interrupted")


async def test_a_consumer_that_just_forgets_the_stream_interrupts_the_run() -> None:
    bench = Bench()
    stream = bench.agent([started(), *said("m1", "One ", "two")]).run(wire_input(messages=HELLO))
    for _ in range(3):
        await anext(stream)
    del stream
    gc.collect()
    await until(lambda: len(bench.messages.messages) == 2)
    await until(lambda: not live_runs.of(next(iter(bench.chats.chats))))
    assert (await bench.rows())[1] == ("assistant", "One ", "interrupted")


async def test_what_comes_after_the_terminal_event_passes_and_changes_nothing() -> None:
    bench = Bench()
    events = [*run_of(said("m1", "Hi")), {"type": "RUN_ERROR", "message": "late"}]
    assert len(await bench.play(events)) == len(events)
    assert (await bench.rows())[1] == ("assistant", "Hi", "complete")


async def test_a_crash_after_the_terminal_event_is_no_failure_of_the_record() -> None:
    bench = Bench()
    with pytest.raises(Crash):
        await bench.play([*run_of(said("m1", "Hi")), Crash()])
    assert (await bench.rows())[1] == ("assistant", "Hi", "complete")


async def test_a_run_is_live_until_its_record_is_stored() -> None:
    bench, gate = Bench(), asyncio.Event()
    stream = bench.agent([started(), gate, finished()]).run(wire_input(messages=HELLO))
    await anext(stream)
    chat_uuid = next(iter(bench.chats.chats))
    assert live_runs.of(chat_uuid) == {"r1"}
    gate.set()
    async for _ in stream:
        pass
    assert live_runs.of(chat_uuid) == frozenset()


async def test_what_a_dead_run_left_open_is_interrupted_when_the_next_run_begins() -> None:
    bench = Bench()
    chat = await bench.chats.create_chat(_chat_create())
    call = ToolCall(agui_id="c1", name="f")
    left = spoken(
        "One ",
        agui_id="m1",
        chat_uuid=chat.chat_uuid,
        run_id="dead",
        status="active",
        in_progress=True,
        tool_calls=[call],
    )
    bench.messages.messages[left.message_uuid] = left
    await bench.play(run_of())
    assert (left.status.value, left.in_progress, call.status.value, call.in_progress) == (
        "interrupted",
        False,
        "interrupted",
        False,
    )
    assert [message["content"] for message in bench.inner.seen[0][1:2]] == ["f was interrupted before it gave a result"]


def _chat_create() -> Any:
    from threadkeep.chat_history import ChatCreate

    return ChatCreate(user_uuid=USER, thread_id="t1")


# Slow and failing stores


async def test_a_store_that_hangs_delays_no_event_and_loses_nothing() -> None:
    bench, hung, wrote = Bench(), asyncio.Event(), asyncio.Event()
    agent = bench.agent(run_of(said("m1", *(["word "] * 3_000)), called("c1"), result("c1"), said("m2", "Done")))
    passed: list[Any] = []

    async def hang() -> None:
        wrote.set()
        await hung.wait()

    async def consume() -> None:
        async for event in agent.run(wire_input(messages=HELLO)):
            bench.messages.before_write = hang
            passed.append(event)

    task = asyncio.create_task(consume())
    await until(lambda: len(passed) == len(bench.inner.script))
    assert passed[-1].type == "RUN_FINISHED"
    await wrote.wait()
    assert len(bench.messages.messages) == 1
    hung.set()
    await task
    assert await bench.rows() == [
        ("user", "Hello!", "complete"),
        ("assistant", "word " * 3_000, "complete"),
        ("assistant", "Done", "complete"),
    ]


class Impatient(AGUIStorageAgent):
    patience = Patience(attempt=60, first_delay=0, longest_delay=0, final=60)


async def test_a_store_that_fails_for_a_while_ends_with_the_whole_history(caplog: pytest.LogCaptureFixture) -> None:
    bench, failures = Bench(Impatient), iter(range(7))

    async def fail() -> None:
        if bench.messages.transactions and next(failures, None) is not None:
            raise ConnectionError("no answer")

    bench.messages.before_write = fail
    await bench.play(run_of(said("m1", "One"), called("c1"), result("c1"), said("m2", "Two")))
    assert await bench.rows() == [
        ("user", "Hello!", "complete"),
        ("assistant", "One", "complete"),
        ("assistant", "Two", "complete"),
    ]
    assert caplog.text.count("storing failed") == 7


async def test_a_write_that_was_stored_and_not_answered_is_not_stored_twice() -> None:
    bench, failures = Bench(Impatient), iter([True])
    create = bench.messages.create_message_tool_call

    async def lose_the_answer(data: MessageToolCallCreate) -> ToolCall:
        if next(failures, False):
            raise TimeoutError
        return await create(data)

    bench.messages.create_message_tool_call = lose_the_answer  # type: ignore[method-assign]
    await bench.play(run_of(said("m1", "One"), called("c1"), result("c1")))
    assert await bench.rows() == [("user", "Hello!", "complete"), ("assistant", "One", "complete")]
    assert [call.content for call in (await bench.stored())[1].tool_calls] == ["ok"]


class Hasty(AGUIStorageAgent):
    patience = Patience(attempt=60, first_delay=0, longest_delay=0, final=0)


async def test_a_store_that_never_comes_back_is_given_up_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Hasty)

    async def fail() -> None:
        if bench.messages.transactions:
            raise ConnectionError("no answer")

    bench.messages.before_write = fail
    passed = await bench.play(run_of(said("m1", "One")))
    assert len(passed) == 5
    assert "1 messages could not be stored" in caplog.text


async def test_a_message_that_the_store_refuses_is_marked_and_the_others_are_stored() -> None:
    from threadkeep.persistence import DRMemoryValidationError

    bench = Bench()
    update, create = bench.messages.update_message, bench.messages.create_message

    async def refuse(data: MessageCreate) -> Message:
        if "forbidden" in data.content:
            raise DRMemoryValidationError("content is forbidden", 422)
        return await create(data)

    bench.messages.create_message = refuse  # type: ignore[method-assign]
    assert update is not None
    await bench.play(run_of(said("m1", "forbidden"), said("m2", "fine")))
    assert await bench.rows() == [
        ("user", "Hello!", "complete"),
        ("assistant", "", "errored"),
        ("assistant", "fine", "complete"),
    ]
    assert "content is forbidden" in ((await bench.stored())[1].error or "")


# Overflow


async def test_events_that_find_no_room_are_counted_in_the_record(caplog: pytest.LogCaptureFixture) -> None:
    gate = asyncio.Event()

    class Slow(AGUIStorageAgent):
        async def handle_text_message(self, state: StorageState, chat: Any, event: Any) -> None:
            await gate.wait()
            await super().handle_text_message(state, chat, event)

    bench = Bench(Slow, max_queue_size=3, put_timeout=0.0)
    agent = bench.agent(run_of(said("m1", *"abcdefgh")))
    passed = []
    async for event in agent.run(wire_input(messages=HELLO)):
        passed.append(event)
        if len(passed) == len(bench.inner.script):
            gate.set()
    assert len(passed) == 12
    _, message = await bench.stored()
    assert message.status is MessageStatus.ERRORED
    assert message.error.endswith("events of this run could not be recorded; this is not all of it")
    assert "the record will miss some" in caplog.text


async def test_a_handler_that_fails_costs_its_own_event_and_says_so() -> None:
    class Broken(AGUIStorageAgent):
        async def handle_step(self, state: StorageState, chat: Any, event: Any) -> None:
            raise KeyError("step")

    bench = Bench(Broken)
    await bench.play(run_of({"type": "STEP_STARTED", "stepName": "s"}, said("m1", "Hi")))
    _, message = await bench.stored()
    assert (message.content, message.status.value) == ("Hi", "errored")
    assert message.error == "1 event of this run could not be recorded; this is not all of it"


# The seams


class Notes(CustomEvent):
    """A custom event of an application."""


async def test_an_event_class_of_ones_own_has_its_handler() -> None:
    class Collecting(AGUIStorageAgent):
        @classmethod
        def event_handlers(cls) -> dict[type[BaseEvent] | str, str]:
            return {**super().event_handlers(), Notes: "handle_notes", "QUANTUM_FOAM": "handle_foam"}

        async def handle_notes(self, state: StorageState, chat: Any, event: Any) -> None:
            state.extra.setdefault("notes", []).append(event.name)
            heard.append(event.name)

        async def handle_foam(self, state: StorageState, chat: Any, event: Any) -> None:
            heard.append("foam")

        async def handle_unknown_event(self, state: StorageState, chat: Any, event: Any) -> None:
            heard.append("unknown")

    class Louder(Notes):
        """Goes where its base class goes."""

    heard: list[str] = []
    script = [
        started(),
        Notes(name="a", value=1),
        Louder(name="b", value=1),
        CustomEvent(name="c", value=1),
        {"type": "QUANTUM_FOAM"},
        {"type": "RAW", "event": {}},
        finished(),
    ]
    await Bench(Collecting).play(script)
    assert heard == ["a", "b", "unknown", "foam", "unknown"]


async def test_a_handler_of_a_family_gets_events_that_came_as_json_too() -> None:
    class Counting(AGUIStorageAgent):
        async def handle_reasoning(self, state: StorageState, chat: Any, event: Any) -> None:
            kinds.append(event.type)
            await super().handle_reasoning(state, chat, event)

    kinds: list[str] = []
    bench = Bench(Counting)
    thinking = [{"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "hm"}, {"type": "THINKING_END"}]
    await bench.play(run_of(thinking, said("m1", "Hi")))
    assert kinds == ["THINKING_TEXT_MESSAGE_CONTENT", "THINKING_END"]
    assert (await bench.stored())[1].reasonings[0].content == "hm"


async def test_a_handler_that_keeps_the_end_of_the_run_to_itself_does_not_make_it_a_failure() -> None:
    class Keeping(AGUIStorageAgent):
        async def handle_run_lifecycle(self, state: StorageState, chat: Any, event: Any) -> None:
            pass

    bench = Bench(Keeping)
    await bench.play(run_of(said("m1", "Hi")))
    assert (await bench.rows())[1] == ("assistant", "Hi", "complete")


async def test_a_handler_may_have_what_has_come_stored_at_once() -> None:
    class Eager(AGUIStorageAgent):
        async def handle_text_message(self, state: StorageState, chat: Any, event: Any) -> None:
            await super().handle_text_message(state, chat, event)
            await self.flush_message_buffer(state)

    bench, gate = Bench(Eager), asyncio.Event()
    stream = bench.agent([started(), *said("m1", "Hel", "lo")[:2], gate, finished()]).run(wire_input(messages=HELLO))
    for _ in range(3):
        await anext(stream)
    await until(lambda: len(bench.messages.messages) == 2)
    assert (await bench.rows())[1] == ("assistant", "Hel", "active")
    gate.set()
    async for _ in stream:
        pass


async def test_the_size_of_a_chunk_decides_when_a_growing_message_is_stored() -> None:
    bench, gate = Bench(minimal_chunk_to_persist=3), asyncio.Event()
    stream = bench.agent([started(), *said("m1", "Hel", "lo")[:2], gate, finished()]).run(wire_input(messages=HELLO))
    for _ in range(3):
        await anext(stream)
    await until(lambda: len(bench.messages.messages) == 2)
    gate.set()
    async for _ in stream:
        pass


class TaggedMessage(Message):
    team: str = ""
    finished_at: str | None = None


class TaggedCreate(MessageCreate):
    team: str = ""


async def test_records_can_have_fields_of_ones_own_from_their_beginning_and_at_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Tagging(AGUIStorageAgent):
        def build_message_create(self, state: StorageState, chat: Any, agui_id: Any, role: Any) -> MessageCreate:
            plain = super().build_message_create(state, chat, agui_id, role)
            return TaggedCreate(**plain.model_dump(), team="research")

        def message_update_fields(self, state: StorageState, event: Any) -> dict[str, Any]:
            return {"finished_at": state.current_event_timestamp.isoformat(), "nowhere": 1}

    monkeypatch.setattr("tests.chat_history.memory_store.Message", TaggedMessage)
    bench = Bench(Tagging)
    await bench.play(run_of(said("m1", "Hi")))
    _, message = await bench.stored()
    assert (message.content, message.team) == ("Hi", "research")
    assert message.finished_at.startswith("20")


async def test_a_build_hook_that_fails_costs_its_additions_and_not_the_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(AGUIStorageAgent):
        def build_tool_call_create(self, state: StorageState, tool_call_id: Any, tool_call_name: Any) -> Any:
            raise RuntimeError("no idea")

        def message_update_fields(self, state: StorageState, event: Any) -> dict[str, Any]:
            raise RuntimeError("no idea")

    bench = Bench(Broken)
    await bench.play(run_of(said("m1", "Hi"), called("c1"), result("c1")))
    _, message = await bench.stored()
    assert [(call.name, call.content) for call in message.tool_calls] == [("f", "ok")]
    assert "a build hook failed" in caplog.text
    assert caplog.records[0].levelno == logging.ERROR


async def test_few_writes_are_enough_for_many_deltas() -> None:
    bench = Bench()
    events = run_of(
        thought("z1", *(["think "] * 200)),
        called("c1", arguments="x" * 100),
        called("c2"),
        result("c1"),
        result("c2"),
        said("m1", *(["word "] * 1_800)),
    )
    await bench.play(events)
    assert len(events) > 2_000
    assert bench.messages.transactions <= 6


async def test_a_history_that_cannot_be_translated_leaves_no_live_run() -> None:
    def fail(messages: Any) -> Any:
        raise KeyError("untranslatable")

    bench = Bench(translate=fail)
    with pytest.raises(KeyError):
        await bench.play(run_of())
    assert live_runs.of(next(iter(bench.chats.chats))) == frozenset()
