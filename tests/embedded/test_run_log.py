"""Runs of a library user in a durable log, on both engines."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from ag_ui.core import RunAgentInput

from tests.services.run_stage import lose_answer
from threadkeep import embedded
from threadkeep.chat_history import (
    AGUIStorageAgent,
    ChatRepository,
    ChatSessionRegistry,
    MessageRepository,
    RunHandle,
    StreamPersistenceManager,
)
from threadkeep.embedded.client import behind
from threadkeep.errors import InterruptAnswered, InterruptsOpen, NotFound, RunActive, Unavailable
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace
from threadkeep.testing.agents import ScriptedAgent, Step

ANN = UUID("11111111-1111-4111-8111-111111111111")
BOB = UUID("22222222-2222-4222-8222-222222222222")
HALF: list[Step] = [
    {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "One, two"},
]
END: list[Step] = [{"type": "TEXT_MESSAGE_END", "messageId": "m1"}, {"type": "RUN_FINISHED"}]
ASKS: Step = {
    "type": "RUN_FINISHED",
    "outcome": {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "confirmation", "message": "Sure?"}]},
}


def run_input(run: str = "r1", thread: str = "t1", **fields: Any) -> RunAgentInput:
    message = {"id": f"u-{run}", "role": "user", "content": f"hi {run}"}
    whole = {"threadId": thread, "runId": run, "messages": [message], "tools": [], "context": [], "state": {}}
    return RunAgentInput.model_validate({**whole, "forwardedProps": {}, **fields})


@dataclass
class House:
    """What a library user has in a process: an agent, its manager and its log."""

    client: DRMemoryServiceClient
    chats: ChatRepository
    messages: MessageRepository
    log: embedded.RunLog
    agent: ScriptedAgent
    manager: StreamPersistenceManager[[]]

    async def run(self, *events: Step, **fields: Any) -> RunHandle:
        self.agent.events = list(events)
        return await self.manager.run(run_input(**fields))

    async def whole(self, *events: Step, **fields: Any) -> list[str]:
        handle = await self.run(*events, **fields)
        kinds = [json.loads(data)["type"] async for _, data in handle.follow()]
        await handle.wait()
        return kinds

    async def read(self, run: str = "r1", after: int = -1) -> list[tuple[int, str]]:
        return [(event.index, json.loads(event.data)["type"]) async for event in self.log.follow("t1", run, after)]


@asynccontextmanager
async def house(
    database: str, *, user: str = "local", of: UUID = ANN, key: str = "app", **options: Any
) -> AsyncIterator[House]:
    """A process with a client of its own; two at once are two processes to the database."""
    async with embedded.client(database, user=user, work=False) as client:
        space = await DRMemorySpace.post(client, deduplication_key=key)
        registry = ChatSessionRegistry(space)
        chats, messages = ChatRepository(space, registry), MessageRepository(space, registry)
        agent = ScriptedAgent()
        async with embedded.run_log(chats, of, **options) as log:
            manager = StreamPersistenceManager(
                lambda: AGUIStorageAgent("assistant", of, chats, messages, agent), run_log=log
            )
            yield House(client, chats, messages, log, agent, manager)
            assert await manager.drain(10, cancel=True) == 0


KINDS = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]


async def test_a_run_is_read_from_any_index_when_its_process_has_long_ended(database: str) -> None:
    async with house(database) as first:
        assert await first.whole(*HALF, *END) == KINDS
        space = first.chats.space.id
    async with embedded.client(database) as client:
        chats = ChatRepository(await DRMemorySpace.get(client, space))
        async with embedded.run_log(chats, ANN) as log:
            seen = [(each.index, json.loads(each.data)["type"]) async for each in log.follow("t1", "r1")]
            tail = [each.index async for each in log.follow("t1", "r1", 2)]
    assert seen == [*enumerate(KINDS)]
    assert tail == [3, 4]


async def test_the_history_is_there_when_the_terminal_event_is_seen(database: str) -> None:
    async with house(database) as ours:
        await ours.whole(*HALF, *END)
        chat = await ours.chats.get_chat_by_thread_id(ANN, "t1")
        assert chat is not None
        stored = await ours.messages.get_chat_messages(chat.chat_uuid)
    assert [(each.role, each.content, each.status) for each in stored] == [
        ("user", "hi r1", "complete"),
        ("assistant", "One, two", "complete"),
    ]


async def test_the_same_run_again_is_followed_and_not_carried_out_twice(database: str) -> None:
    async with house(database) as ours:
        await ours.whole(*HALF, *END)
        assert await ours.whole(*END) == KINDS
        assert len(ours.agent.inputs) == 1


async def test_a_run_is_followed_live_by_another_process_and_cancelled_from_there(database: str) -> None:
    async with house(database) as ours, house(database) as theirs:
        await ours.run(*HALF, asyncio.Event())
        seen = []
        # The number is there so that a loss of the feature ends the test.
        async with asyncio.timeout(60):
            async for event in theirs.log.follow("t1", "r1"):
                seen.append(json.loads(event.data)["type"])
                if seen == KINDS[:3]:
                    assert await theirs.log.cancel("t1", "r1")
        assert seen[:4] == KINDS[:4]
        assert len(seen) == 5
        assert not await theirs.log.cancel("t1", "r1")
        (run,) = await behind(ours.client).container.runs.page(
            behind(ours.client).principal, ours.chats.space.id, await ours.log._known_session("t1")
        )
        assert (run.status, run.outcome) == ("interrupted", '{"type": "cancelled"}')


async def test_a_thread_that_is_busy_in_another_process_takes_no_second_run(database: str) -> None:
    async with house(database) as ours, house(database) as theirs:
        await ours.run(*HALF, asyncio.Event())
        with pytest.raises(RunActive, match="Thread 't1' already has an active run: 'r1'"):
            await theirs.run(run="r2")
        assert (await theirs.run(run="r1")).cancel() is False


async def test_a_run_whose_process_has_died_is_ended_before_the_next_one_begins(database: str) -> None:
    async with house(database) as ours:
        await ours.whole(*HALF, *END)
        inside, session = behind(ours.client), await ours.log._known_session("t1")
        lost = await inside.container.runs.begin(
            inside.principal,
            ours.chats.space.id,
            session,
            run_id="lost",
            parent_run_id=None,
            owner="gone",
            lease_seconds=-1,
        )
        await inside.container.run_log.append(lost, 0, [b'{"type":"RUN_STARTED"}'])
        assert (await ours.whole(*END, run="r2"))[-1] == "RUN_FINISHED"
        assert await ours.read("lost") == [(0, "RUN_STARTED"), (1, "RUN_ERROR")]


async def test_a_run_whose_beginning_was_not_heard_of_is_carried_out(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(database) as ours:
        lost = lose_answer(monkeypatch, "begin")
        assert await ours.whole(*HALF, *END) == KINDS
        assert lost
        assert await ours.whole(*END) == KINDS
        assert len(ours.agent.inputs) == 1


@pytest.mark.parametrize("is_busy", [False, True], ids=["alone", "beside another run"])
async def test_a_run_that_nobody_carries_out_does_not_keep_its_thread_busy(
    database: str, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    async with house(database, lease_seconds=1.0) as ours:
        if is_busy:
            gate = asyncio.Event()
            other = await ours.run(*HALF, gate, *END, thread="t2", run="other")
            await anext(aiter(other.follow()))
        for name in ("begin", "get"):
            lose_answer(monkeypatch, name)
        with pytest.raises(Unavailable):
            await ours.run(*END)
        async with asyncio.timeout(60):
            assert await ours.read() == [(0, "RUN_ERROR")]
        assert (await ours.whole(*END, run="r2"))[-1] == "RUN_FINISHED"
        if is_busy:
            # What goes on is held all the while.
            gate.set()
            assert [json.loads(data)["type"] async for _, data in other.follow()] == KINDS


async def test_a_run_that_goes_on_is_followed_whoever_asks_for_it_again(database: str) -> None:
    async with house(database) as ours:
        gate = asyncio.Event()
        first = await ours.run(*HALF, gate, *END)
        another = StreamPersistenceManager(lambda: ours.agent, run_log=ours.log)
        second = await another.run(run_input())
        assert second.cancel() is False
        gate.set()
        assert [json.loads(data)["type"] async for _, data in second.follow()] == KINDS
        await first.wait()
        assert len(ours.agent.inputs) == 1


async def test_a_lost_run_that_was_taken_over_unheard_is_ended_all_the_same(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(database, lease_seconds=1.0) as ours:
        await ours.whole(*END)
        inside, session = behind(ours.client), await ours.log._known_session("t1")
        at = (inside.principal, ours.chats.space.id, session)
        lost = lose_answer(monkeypatch, "take_over")
        await inside.container.runs.begin(*at, run_id="lost", parent_run_id=None, owner="gone", lease_seconds=-1)
        async with asyncio.timeout(60):
            assert await ours.read("lost") == [(0, "RUN_ERROR")]
        assert lost == [True]


async def test_what_was_lost_in_another_space_is_left_to_whoever_has_it(database: str) -> None:
    async with house(database, key="one") as ours, house(database, key="two") as others:
        await others.whole(*END)
        inside, session = behind(others.client), await others.log._known_session("t1")
        at = (inside.principal, others.chats.space.id, session)
        await inside.container.runs.begin(*at, run_id="lost", parent_run_id=None, owner="gone", lease_seconds=-1)
        await ours.whole(*END)
        assert (await inside.container.runs.get(*at, "lost")).status == "active"


async def test_nobody_reads_the_runs_of_another_user_or_space(database: str) -> None:
    async with house(database) as ours:
        await ours.whole(ASKS)
        for options in ({"of": BOB}, {"user": "bob"}, {"key": "another"}):
            async with house(database, **options) as others:
                for call in (others.log.cancel("t1", "r1"), others.log.interrupts("t1"), others.read()):
                    with pytest.raises(NotFound, match="There is no thread 't1'"):
                        await call
        with pytest.raises(NotFound, match="There is no run 'r9' in the thread 't1'"):
            await ours.read("r9")


async def test_an_interrupt_waits_for_its_answer_which_it_gets_once(database: str) -> None:
    async with house(database) as ours:
        await ours.whole(ASKS)
        with pytest.raises(InterruptsOpen, match="open interrupts: 'i1'"):
            await ours.run(run="r2")
        space = ours.chats.space.id
    async with embedded.client(database) as client:
        chats = ChatRepository(await DRMemorySpace.get(client, space))
        async with embedded.run_log(chats, ANN) as log:
            (waiting,) = await log.interrupts("t1")
    assert (waiting.run_id, waiting.interrupt_id, waiting.status) == ("r1", "i1", "open")
    assert json.loads(waiting.payload) == {"id": "i1", "reason": "confirmation", "message": "Sure?"}
    resume = [{"interruptId": "i1", "status": "resolved", "payload": {"yes": True}}]
    async with house(database) as ours:
        assert (await ours.whole(*END, run="r2", messages=[], resume=resume))[-1] == "RUN_FINISHED"
        (given,) = ours.agent.inputs
        assert [(each.interrupt_id, each.payload) for each in given.resume or ()] == [("i1", {"yes": True})]
        with pytest.raises(InterruptAnswered, match="'i1' was resolved by the run 'r2'"):
            await ours.run(run="r3", resume=resume)
        assert (await ours.whole(run="r2", messages=[], resume=resume))[-1] == "RUN_FINISHED"
        assert len(ours.agent.inputs) == 1


async def test_an_input_without_answers_cancels_what_is_open_where_that_was_asked_for(database: str) -> None:
    async with house(database, open_interrupts="cancel") as ours:
        await ours.whole(ASKS)
        await ours.whole(*END, run="r2")
        (interrupt,) = await ours.log.interrupts("t1")
    assert (interrupt.status, interrupt.ended_by) == ("cancelled", "r2")


async def test_the_log_goes_with_the_chat(database: str) -> None:
    async with house(database) as ours:
        await ours.whole(*HALF, *END)
        chat = await ours.chats.get_chat_by_thread_id(ANN, "t1")
        assert chat is not None
        await ours.chats.delete_chat(chat.chat_uuid)
        with pytest.raises(NotFound):
            await ours.read()
        assert await ours.whole(*END) == ["TEXT_MESSAGE_END", "RUN_FINISHED"]


async def test_what_cannot_be_is_said_at_once(database: str) -> None:
    async with house(database) as ours:
        for options, said in (({"open_interrupts": "maybe"}, "not 'maybe'"), ({"lease_seconds": 0}, "not 0")):
            with pytest.raises(ValueError, match=said):
                async with embedded.run_log(ours.chats, ANN, **options):
                    pass
    async with DRMemoryServiceClient(endpoint="http://h/api/v2", api_token="t") as client:
        ours.chats._space._client = client
        with pytest.raises(TypeError, match="is on a service of another process"):
            async with embedded.run_log(ours.chats, ANN):
                pass
