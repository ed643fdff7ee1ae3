"""A run that broke off, folded again from its events: the same rows as if it never had, and none of them twice."""

import asyncio
import copy
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat_history.cuts import Event, distinct_cuts, terminal_in
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.odd_events import ENDINGS, EVENTS
from tests.chat_history.scripts import (
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
from tests.chat_history.stores import Store
from threadkeep.chat_history import (
    AGUIStorageAgent,
    Chat,
    Message,
    MessageReasoningCreate,
    MessageToolCallCreate,
    StorageState,
    WireEvent,
)
from threadkeep.chat_history.ag_ui.opening import live_runs
from threadkeep.errors import LeaseLost, Unavailable

USER, CHAT = uuid4(), uuid4()
WHY = "The process that ran it has gone"
CUTS = distinct_cuts()
HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]
TIMES = {"timestamp", "created_at"}


class Memory:
    """A store in memory that holds one chat, always the same."""

    def __init__(self) -> None:
        self.chats, self.messages = MemoryChats(), MemoryMessages()
        self.chats.chats[CHAT] = Chat(thread_id="t1", user_uuid=USER, name="t", chat_uuid=CHAT)

    def agent(self, script: Sequence[Any], cls: type[AGUIStorageAgent] = AGUIStorageAgent) -> AGUIStorageAgent:
        return cls("a", USER, self.chats, self.messages, ScriptedAgent(script))

    async def play(self, script: Sequence[Any], run_input: dict[str, Any]) -> None:
        async for _ in self.agent(script).run(on_t1(run_input)):
            pass

    async def play_until_killed(self, run_input: dict[str, Any], events: Sequence[Event], count: int) -> None:
        """The process dies after `count` events, each of which was stored as it came."""
        agent = self.agent([*events[:count], asyncio.Event()], Eager)
        task = asyncio.create_task(drain(agent, run_input))
        await until(lambda: agent.folded == count and bool(self.messages.messages or not run_input["messages"]))  # type: ignore[attr-defined]
        left = copy.deepcopy(self.messages.messages)
        task.cancel()
        await asyncio.wait([task])
        await agent.stored()
        self.messages.messages = left

    async def refold(self, run_input: dict[str, Any], events: Sequence[Event]) -> None:
        await self.agent([]).refold(on_t1(run_input), logged(events), WHY)
        assert live_runs.of(CHAT) == frozenset()

    def stored(self) -> list[Message]:
        return [*self.messages.messages.values()]

    def rows(self) -> list[dict[str, Any]]:
        return [plain(message) for message in self.stored()]


class Eager(AGUIStorageAgent):
    """Stores after each event, and counts them."""

    folded = 0

    async def _dispatch(self, state: StorageState, event: object) -> None:
        await super()._dispatch(state, event)
        await self.flush_message_buffer(state)
        self.folded += 1


def on_t1(run_input: dict[str, Any]) -> Any:
    return wire_input(**{**run_input, "threadId": "t1"})


def logged(events: Sequence[Event]) -> list[WireEvent]:
    return [WireEvent.of(event) for event in events]


async def drain(agent: AGUIStorageAgent, run_input: dict[str, Any]) -> None:
    async for _ in agent.run(on_t1(run_input)):
        pass


def plain(message: Message) -> dict[str, Any]:
    """All of a message but its times and where it is stored."""
    fields = message.model_dump(mode="python", exclude={"timestamp", "chat_uuid"})
    for name in ("tool_calls", "reasonings", "subagents"):
        fields[name] = [{key: value for key, value in each.items() if key not in TIMES} for each in fields[name]]
    return fields


@pytest.mark.parametrize("name", CUTS)
async def test_a_run_that_was_killed_after_any_event_ends_as_if_it_had_never_been(name: str) -> None:
    run_input, cuts = CUTS[name]
    whole = Memory()
    await whole.refold(run_input, cuts[0][1])
    for count, events in cuts:
        so_far, again = Memory(), Memory()
        await so_far.refold(run_input, events[:count])
        await again.play_until_killed(run_input, events, count)
        left = copy.deepcopy(again.messages.messages)
        for _ in range(2):
            # The second time as if the process that did it first had died before it could say so.
            await again.refold(run_input, events[:count])
            assert again.rows() == so_far.rows(), count
        again.messages.messages = left
        await again.refold(run_input, events)
        assert again.rows() == whole.rows(), count


@pytest.mark.parametrize("name", CUTS)
async def test_what_is_folded_from_the_log_alone_is_what_was_folded_live(name: str) -> None:
    run_input, cuts = CUTS[name]
    _, events = cuts[-1]
    if terminal_in(events) is None:
        # Its end is that of its stream then, and not of its events.
        events = [*events, finished()]
    live, later = Memory(), Memory()
    await live.play(events, run_input)
    await later.refold(run_input, events)
    assert later.rows() == live.rows()


@settings(max_examples=60)
@given(events=st.lists(EVENTS, max_size=12), ending=st.none() | ENDINGS, data=st.data())
def test_no_stream_whatever_is_stored_twice(events: list[Event], ending: Event | None, data: Any) -> None:
    script = [*events, *([] if ending is None else [ending])]
    count = data.draw(st.integers(0, len(script)))
    run_input = {"runId": "r1", "messages": HELLO}

    async def both() -> None:
        whole, again = Memory(), Memory()
        await whole.refold(run_input, script)
        await again.play_until_killed(run_input, script, count)
        await again.refold(run_input, script)
        # As text: a NaN is not equal to itself.
        assert repr(again.rows()) == repr(whole.rows())

    asyncio.run(both())


RICH: list[Event] = run_of(
    thought("z1", "Let me ", "see"),
    said("m1", "I ", "ask."),
    called("c1", arguments='{"a":1}'),
    result("c1"),
    thought("z2", "Hm"),
    said("m2", "It is ", "so."),
    called("c1", arguments='{"a":2}'),
    said("m1", "Again."),
)


class Severed:
    """A repository of messages that its process can be cut off from: nothing that it writes comes through then."""

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)

    @asynccontextmanager
    async def transaction(self) -> Any:
        if self.is_cut:
            raise LeaseLost("it is somebody else's")
        async with self._messages.transaction():
            yield


async def test_on_the_real_service_each_row_of_a_run_that_died_is_there_once(store: Store, user_uuid: UUID) -> None:
    async def rows_of(thread: str, count: int | None) -> list[dict[str, Any]]:
        run_input = {"threadId": thread, "runId": "r1", "messages": HELLO}
        if count is not None:
            messages = Severed(store.messages)
            agent = Eager("a", user_uuid, store.chats, messages, ScriptedAgent([*RICH[:count], asyncio.Event()]))  # type: ignore[arg-type]

            async def play() -> None:
                async for _ in agent.run(wire_input(**run_input)):
                    pass

            task = asyncio.create_task(play())
            await until(lambda: agent.folded == count)
            messages.is_cut = True
            task.cancel()
            await asyncio.wait([task])
            await agent.stored()
        for _ in range(2):
            elsewhere = store.elsewhere()
            after = AGUIStorageAgent("a", user_uuid, elsewhere.chats, elsewhere.messages, ScriptedAgent([]))
            await after.refold(wire_input(**run_input), logged(RICH), WHY)
        elsewhere = store.elsewhere()
        chat = await elsewhere.chats.get_chat_by_thread_id(user_uuid, thread)
        assert chat is not None
        return [plain(message) for message in await elsewhere.messages.get_chat_messages(chat.chat_uuid)]

    def without_uuids(rows: list[dict[str, Any]]) -> list[Any]:
        uuids = [str(row["message_uuid"]) for row in rows]
        assert len(set(uuids)) == len(uuids)
        shown = ("agui_id", "role", "content", "status", "error", "outcome")
        inner = ("agui_id", "name", "arguments", "content", "status")
        return [
            (
                [row[name] for name in shown],
                [[call.get(name) for name in inner] for call in row["tool_calls"]],
                [[step.get(name) for name in inner] for step in row["reasonings"]],
            )
            for row in rows
        ]

    whole = without_uuids(await rows_of("never begun", None))
    assert [row[0][2] for row in whole] == ["Hello!", "I ask.", "It is so.", "Again."]
    for count in range(1, len(RICH), 3):
        assert without_uuids(await rows_of(f"died after {count}", count)) == whole, count


# Which record is which


async def test_a_run_id_that_is_used_again_in_its_chat_is_another_run() -> None:
    memory = Memory()
    for text, question in (("One", "u1"), ("Two", "u2")):
        run_input = {"runId": "r1", "messages": [{"id": question, "role": "user", "content": question}]}
        await memory.play(run_of(said("m1", text)), run_input)
    assert [message.content for message in memory.stored()] == ["u1", "One", "u2", "Two"]


async def test_one_run_id_in_two_chats_names_two_runs() -> None:
    memory = Memory()
    await memory.play(run_of(said("m1", "One")), {"runId": "r1", "messages": HELLO})
    other = AGUIStorageAgent("a", USER, memory.chats, memory.messages, ScriptedAgent(run_of(said("m1", "Two"))))
    async for _ in other.run(wire_input(threadId="t2", messages=HELLO)):
        pass
    assert [message.content for message in memory.stored()] == ["Hello!", "One", "Hello!", "Two"]
    assert len({message.message_uuid for message in memory.stored()}) == 4


async def test_ids_that_an_agent_uses_again_name_other_records_each_time() -> None:
    memory = Memory()
    script = run_of(called("c1"), result("c1"), said("m1", "One"), called("c1"), result("c1"), said("m1", "Two"))
    await memory.play(script, {"runId": "r1", "messages": HELLO})
    again = Memory()
    await again.refold({"runId": "r1", "messages": HELLO}, script)
    assert again.rows() == memory.rows()
    uuids = [call.uuid for message in memory.stored() for call in message.tool_calls]
    assert len(uuids) == len(set(uuids)) == 2


class NamedCall(MessageToolCallCreate):
    team: str = ""


class Naming(AGUIStorageAgent):
    def build_tool_call_create(self, state: StorageState, tool_call_id: Any, tool_call_name: Any) -> Any:
        base = super().build_tool_call_create(state, tool_call_id, tool_call_name)
        return NamedCall(**base.model_dump(), team="research")

    def build_reasoning_create(self, state: StorageState, name: str | None) -> Any:
        return MessageReasoningCreate(name="own", created_at=state.current_event_timestamp)

    def build_message_create(self, state: StorageState, chat: Any, agui_id: Any, role: Any) -> Any:
        base = super().build_message_create(state, chat, agui_id, role)
        return base.model_copy(update={"name": "own"})


async def test_records_that_hooks_have_shaped_are_found_again() -> None:
    memory = Memory()
    run_input = {"runId": "r1", "messages": HELLO}
    agent = memory.agent(RICH, Naming)
    await drain(agent, run_input)
    before = memory.rows()
    await memory.agent([], Naming).refold(on_t1(run_input), logged(RICH), WHY)
    assert memory.rows() == before
    assert [step["name"] for row in before for step in row["reasonings"]] == ["own", "own"]


class Owning(AGUIStorageAgent):
    def build_message_create(self, state: StorageState, chat: Any, agui_id: Any, role: Any) -> Any:
        base = super().build_message_create(state, chat, agui_id, role)
        return base.model_copy(update={"message_uuid": UUID(int=7)})


async def test_a_uuid_that_a_hook_gives_is_the_uuid() -> None:
    memory = Memory()
    await drain(memory.agent(run_of(said("m1", "Hi")), Owning), {"runId": "r1", "messages": []})
    (message,) = memory.stored()
    assert message.message_uuid == UUID(int=7)


async def test_a_create_that_a_handler_makes_of_its_own_accord_is_no_record_of_the_fold() -> None:
    made: list[Any] = []

    class Making(AGUIStorageAgent):
        async def handle_step(self, state: StorageState, chat: Chat, event: Any) -> None:
            made.extend(self.build_message_create(state, chat, None, None) for _ in range(2))

    memory = Memory()
    script = run_of(said("m1", "Hi"), {"type": "STEP_STARTED", "stepName": "s"})
    await drain(memory.agent(script, Making), {"runId": "r1", "messages": []})
    uuids = {each.message_uuid for each in [*made, *memory.stored()]}
    assert len(uuids) == 3


async def test_ids_without_bytes_name_records_too() -> None:
    memory = Memory()
    run_input = {"runId": "r\ud83d", "messages": []}
    script = [started("r\ud83d"), *said("m\udc00", "Hi"), finished("r\ud83d")]
    await drain(memory.agent(script), run_input)
    before = memory.rows()
    await memory.refold(run_input, script)
    assert memory.rows() == before


# What the run met when it began


async def test_a_call_of_an_earlier_run_that_the_run_has_answered_is_answered_once() -> None:
    memory = Memory()
    interrupt = {"type": "interrupt", "interrupts": [{"id": "i1", "toolCallId": "c1"}]}
    await memory.play([started(), *called("c1"), finished(outcome=interrupt)], {"runId": "r1", "messages": HELLO})
    second = {"runId": "r2", "messages": HELLO, "resume": [{"interruptId": "i1", "status": "resolved"}]}
    script = [started("r2"), *called("c1"), result("c1", "done"), *said("m2", "Done."), finished("r2")]
    await memory.play(script, second)
    before = memory.rows()
    assert [[call["content"] for call in row["tool_calls"]] for row in before] == [[], ["done"], []]
    for log in (script[:5], script):
        await memory.refold(second, log)
        assert [row["tool_calls"] for row in memory.rows()] == [row["tool_calls"] for row in before]
    assert memory.rows() == before


async def test_what_the_user_said_is_stored_though_the_process_died_before_it_was() -> None:
    memory = Memory()
    run_input = {"runId": "r1", "messages": HELLO}
    for _ in range(2):
        await memory.refold(run_input, [])
        assert [(row["role"], row["content"], row["status"].value) for row in memory.rows()] == [
            ("user", "Hello!", "complete")
        ]


async def test_a_question_that_was_asked_on_purpose_once_more_is_there_twice_and_not_three_times() -> None:
    memory = Memory()
    await memory.play(run_of(said("m1", "Hi")), {"runId": "r1", "messages": HELLO})
    second = {"runId": "r2", "messages": [*HELLO, {"id": "u2", "role": "user", "content": "Hello!"}]}
    script = run_of(said("m1", "Hi again"), run_id="r2")
    await memory.play_until_killed(second, script, 2)
    await memory.refold(second, script)
    assert [row["content"] for row in memory.rows()] == ["Hello!", "Hi", "Hello!", "Hi again"]


async def test_an_input_that_was_refused_leaves_nothing_behind_when_it_is_read_again() -> None:
    memory = Memory()
    refused = {"runId": "r1", "messages": [{"id": "a1", "role": "assistant", "content": "I never said that"}]}
    await memory.refold(refused, [{"type": "RUN_ERROR", "message": "no", "code": "INVALID_INPUT"}])
    assert memory.rows() == []


# Where the log and the store differ


async def test_what_the_store_has_beyond_the_log_stays() -> None:
    memory = Memory()
    run_input = {"runId": "r1", "messages": HELLO}
    script = [started(), *said("m1", "One ", "and two")[:3], *called("c1", arguments='{"a":1}'), result("c1")]
    await memory.play_until_killed(run_input, script, len(script))
    # The log lacks the end of the arguments, and the result.
    await memory.refold(run_input, [*script[:3], script[4]])
    _, message = memory.stored()
    assert (message.content, message.status.value, message.error) == ("One and two", "interrupted", WHY)
    assert [(call.arguments, call.content, call.status.value) for call in message.tool_calls] == [
        ('{"a":1}', "ok", "complete")
    ]


async def test_what_was_thought_beyond_the_log_stays_and_what_had_ended_has() -> None:
    memory = Memory()
    run_input = {"runId": "r1", "messages": HELLO}
    script = [started(), *thought("e1", "Hm, ", "so it is"), *said("m1", "One"), *said("m2", "Two")]
    await memory.play_until_killed(run_input, script, len(script))
    # The log lacks the end of the thought, and of the first message.
    lacking = [event for event in script if event.get("delta") != "so it is" and event != said("m1", "One")[-1]]
    await memory.refold(run_input, [event for event in lacking if event["type"] != "REASONING_MESSAGE_END"])
    _, message, _ = memory.stored()
    assert [(step.content, step.status.value) for step in message.reasonings] == [("Hm, so it is", "complete")]
    assert (message.content, message.status.value) == ("One", "complete")


async def test_the_end_in_the_log_counts_though_a_handler_fails_at_it() -> None:
    class Failing(AGUIStorageAgent):
        async def handle_run_lifecycle(self, state: StorageState, chat: Chat, event: Any) -> None:
            if event.type == "RUN_FINISHED":
                raise RuntimeError("no")
            await super().handle_run_lifecycle(state, chat, event)

    memory = Memory()
    events = [started(), *said("m1", "One")[:2], finished()]
    await memory.agent([], Failing).refold(on_t1({"runId": "r1", "messages": HELLO}), logged(events), WHY)
    assert [(row["content"], row["status"].value) for row in memory.rows()] == [
        ("Hello!", "complete"),
        ("One", "complete"),
    ]


async def test_a_message_that_the_store_refuses_keeps_no_other_from_being_stored() -> None:
    memory = Memory()
    create = memory.messages.create_message

    async def refuse_one(data: Any) -> Message:
        if data.agui_id == "m1":
            from threadkeep.errors import Invalid

            raise Invalid("too long")
        return await create(data)

    memory.messages.create_message = refuse_one  # type: ignore[method-assign]
    await memory.refold({"runId": "r1", "messages": HELLO}, run_of(said("m1", "One"), said("m2", "Two")))
    assert [row["content"] for row in memory.rows()] == ["Hello!", "Two"]


async def test_a_store_that_is_down_is_said_and_the_next_attempt_does_all_of_it() -> None:
    memory = Memory()
    run_input = {"runId": "r1", "messages": HELLO}

    async def down() -> None:
        raise Unavailable("The database gives no answer")

    memory.messages.before_write = down
    with pytest.raises(Unavailable):
        await memory.refold(run_input, RICH)
    assert live_runs.of(CHAT) == frozenset()
    memory.messages.before_write = None
    await memory.refold(run_input, RICH)
    assert [row["content"] for row in memory.rows()] == ["Hello!", "I ask.", "It is so.", "Again."]
