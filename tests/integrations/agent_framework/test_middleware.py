"""The middleware in a client's own stack, and beside others."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from agent_framework import (
    Agent,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ContextProvider,
    InMemoryHistoryProvider,
    Message,
    MessageInjectionMiddleware,
    SlidingWindowStrategy,
    enqueue_messages,
    tool,
)

from tests.integrations.agent_framework.scripted import ScriptedClient, call, run
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f
from threadkeep.integrations.agent_framework import ChatHistoryPersistingMiddleware, PersistentAgent
from threadkeep.integrations.agent_framework.marks import MARK

HI = {"role": "user", "content": "hi"}
ANSWERED = {"role": "assistant", "calls": [("c1", "r", "complete")]}
OK = {"role": "assistant", "content": "ok"}


@pytest.mark.parametrize("mark_only", [False, True])
@pytest.mark.parametrize("make", [Agent, PersistentAgent])
async def test_in_the_clients_stack_it_stores_once_beside_whatever_agent(
    place: Place, stream: bool, mark_only: bool, make: type[Any]
) -> None:
    history = place.provider()
    client = ScriptedClient(
        [call("c1")], ["ok"], middleware=[ChatHistoryPersistingMiddleware(history, mark_only=mark_only)]
    )
    await run(make(client, tools=[f], context_providers=[history]), "hi", history.create_session("t"), stream=stream)
    assert await place.stored() == [HI, ANSWERED, OK]


async def test_what_it_marks_is_stored_when_the_run_ends_and_not_before(place: Place, stream: bool) -> None:
    history = place.provider()
    during: list[Any] = []

    @tool(name="f", approval_mode="never_require")
    async def look() -> str:
        """Look at what is stored between two calls."""
        during.append(await place.stored())
        return "r"

    for at_end in (False, True):
        agent = PersistentAgent(
            ScriptedClient([call("c1")], ["ok"]),
            tools=[look],
            context_providers=[history],
            persist_chat_history_at_end_of_run=at_end,
        )
        await run(agent, "hi", history.create_session("t"), stream=stream)
    first = [HI, {"role": "assistant", "calls": [("c1", "", "active")]}]
    assert during == [first, [HI, ANSWERED, OK]]


async def test_every_message_that_a_caller_gets_is_marked(place: Place, stream: bool, at_end: bool) -> None:
    history = place.provider()
    agent = PersistentAgent(
        ScriptedClient(["let me see", call("c1")], ["ok"]),
        tools=[f],
        context_providers=[history],
        persist_chat_history_at_end_of_run=at_end,
    )
    response = await run(agent, "hi", history.create_session("t"), stream=stream)
    assert [(message.role, MARK in message.additional_properties) for message in response.messages] == [
        ("assistant", True),
        ("tool", True),
        ("assistant", True),
    ]
    await history.save_messages("t", response.messages)
    assert len(await place.rows()) == 3


async def test_marks_are_not_stored(place: Place, stream: bool) -> None:
    history = place.provider()
    agent = PersistentAgent(ScriptedClient(["ok"]), context_providers=[history])
    mine = Message("user", ["hi"], additional_properties={"mine": 1})
    await run(agent, [mine], history.create_session("t"), stream=stream)
    rows = await place.rows()
    assert all(MARK not in row.model_dump_json() for row in rows)
    assert (await place.provider().get_messages("t"))[0].additional_properties["mine"] == 1


async def test_messages_that_are_injected_between_calls_are_stored(place: Place, stream: bool, at_end: bool) -> None:
    history = place.provider()
    session = history.create_session("t")

    @tool(name="f", approval_mode="never_require")
    def injecting() -> str:
        """Say something in between."""
        enqueue_messages(session, "hurry")
        return "r"

    client = ScriptedClient([call("c1")], ["ok"])
    agent = PersistentAgent(
        client,
        tools=[injecting],
        middleware=[MessageInjectionMiddleware()],
        context_providers=[history],
        persist_chat_history_at_end_of_run=at_end,
    )
    await run(agent, "hi", session, stream=stream)
    assert client.sent[1][-1] == {"role": "user", "content": "hurry"}
    assert await place.stored() == [HI, ANSWERED, {"role": "user", "content": "hurry"}, OK]


async def test_compaction_changes_what_a_model_is_sent_and_nothing_that_is_stored(
    place: Place, stream: bool, at_end: bool
) -> None:
    history = place.provider()
    client = ScriptedClient(*[[f"answer {n}"] for n in range(4)])
    agent = PersistentAgent(
        client,
        context_providers=[history],
        persist_chat_history_at_end_of_run=at_end,
        compaction_strategy=SlidingWindowStrategy(keep_last_groups=1),
    )
    for n in range(4):
        await run(agent, f"question {n}", history.create_session("t"), stream=stream)
    assert len(client.sent[-1]) < 7
    assert [row.get("content") for row in await place.stored()] == [
        text for n in range(4) for text in (f"question {n}", f"answer {n}")
    ]


async def test_context_of_other_providers_is_not_part_of_the_chat(place: Place, stream: bool, at_end: bool) -> None:
    class Knows(ContextProvider):
        async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
            context.extend_messages(self, [Message("user", ["my name is Ann"])])

    for stores, rows in ((False, [HI, OK]), (True, [{"role": "user", "content": "my name is Ann"}, HI, OK])):
        history = place.provider(store_context_messages=stores)
        client = ScriptedClient(["ok"])
        agent = PersistentAgent(
            client,
            context_providers=[Knows("knows"), history],
            persist_chat_history_at_end_of_run=at_end,
        )
        thread_id = f"stores {stores}"
        await run(agent, "hi", history.create_session(thread_id), stream=stream)
        assert client.sent[0][0] == {"role": "user", "content": "my name is Ann"}
        assert await place.stored(thread_id) == rows


async def test_it_is_a_record_beside_the_frameworks_own_memory(place: Place, stream: bool, at_end: bool) -> None:
    record = place.provider(load_messages=False)
    client = ScriptedClient([call("c1")], ["ok"], ["fine"])
    agent = PersistentAgent(
        client,
        tools=[f],
        context_providers=[InMemoryHistoryProvider(), record],
        persist_chat_history_at_end_of_run=at_end,
    )
    session = record.create_session("t")
    await run(agent, "hi", session, stream=stream)
    await run(agent, "next", session, stream=stream)
    assert len(client.sent[2]) == 5
    assert await place.stored() == [
        HI,
        ANSWERED,
        OK,
        {"role": "user", "content": "next"},
        {"role": "assistant", "content": "fine"},
    ]


async def test_two_chats_of_one_agent_each_have_the_whole_run(place: Place, stream: bool, at_end: bool) -> None:
    other = Place(place.space, uuid4())
    mine, theirs = place.provider(), other.provider(source_id="theirs", load_messages=False)
    agent = PersistentAgent(
        ScriptedClient([call("c1")], ["ok"]),
        tools=[f],
        context_providers=[mine, theirs],
        persist_chat_history_at_end_of_run=at_end,
    )
    await run(agent, "hi", mine.create_session("t"), stream=stream)
    assert await place.stored() == await other.stored() == [HI, ANSWERED, OK]


async def test_an_agent_as_the_tool_of_another_has_its_own_chat(place: Place, stream: bool, at_end: bool) -> None:
    inner_history, outer_history = place.provider(source_id="inner"), place.provider()
    inner = PersistentAgent(ScriptedClient(["from inside"]), name="inner", context_providers=[inner_history])
    outer = PersistentAgent(
        ScriptedClient([call("c1", "inner", '{"task": "look"}')], ["ok"]),
        tools=[inner.as_tool()],
        context_providers=[outer_history],
        persist_chat_history_at_end_of_run=at_end,
    )
    await run(outer, "hi", outer_history.create_session("t"), stream=stream)
    assert await place.stored() == [HI, {"role": "assistant", "calls": [("c1", "from inside", "complete")]}, OK]


async def test_a_run_without_a_session_is_a_chat_of_its_own(place: Place, stream: bool) -> None:
    agent = PersistentAgent(ScriptedClient(["ok"]), context_providers=[place.provider()])
    response = await run(agent, "hi", stream=stream)
    assert response.text == "ok"


async def test_a_client_without_an_agent_is_left_alone(place: Place, stream: bool) -> None:
    client = ScriptedClient(["ok"], middleware=[ChatHistoryPersistingMiddleware(place.provider())])
    if stream:
        response = await client.get_response([Message("user", ["hi"])], stream=True).get_final_response()
    else:
        response = await client.get_response([Message("user", ["hi"])])
    assert response.text == "ok"
    assert await place.stored() == []


async def test_a_middleware_that_answers_in_the_models_place_is_heard(place: Place) -> None:
    class Answers(ChatMiddleware):
        async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
            context.result = ChatResponse(messages=[Message("assistant", ["cached"])])

    history = place.provider()
    agent = PersistentAgent(ScriptedClient(), middleware=[Answers()], context_providers=[history])
    await agent.run("hi", session=history.create_session("t"))
    assert await place.stored() == [HI, {"role": "assistant", "content": "cached"}]
