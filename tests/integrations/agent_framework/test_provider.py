"""The provider in a plain agent of the framework, and by itself."""

from typing import Any
from uuid import uuid4

import pytest
from ag_ui.core import RunAgentInput, UserMessage
from agent_framework import Agent, Content, Message

from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.integrations.agent_framework.scripted import ScriptedClient, call, run, seen
from tests.integrations.agent_framework.stored import Place, shown
from tests.integrations.agent_framework.tools import f
from threadkeep.chat_history import (
    AGUIStorageAgent,
    ChatRepository,
    ChatSessionRegistry,
    MessageRepository,
    translate_messages,
)
from threadkeep.integrations.agent_framework import ThreadkeepHistoryProvider
from threadkeep.testing.agents import ScriptedAgent

USER = {"role": "user", "content": "hi"}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}


async def test_a_plain_agent_keeps_its_runs_as_chats(place: Place, stream: bool) -> None:
    client = ScriptedClient([call("c1")], ["Hel", "lo"], ["fine"])
    history = place.provider()
    agent = Agent(client, name="helper", tools=[f], context_providers=[history])
    await run(agent, "hi", history.create_session("t"), stream=stream)
    assert await place.stored() == [
        USER,
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "Hello"},
    ]
    assert [row.name for row in await place.rows()] == ["", "helper", "helper"]
    await run(agent, "and?", place.provider().create_session("t"), stream=stream)
    assert client.sent[2] == [
        USER,
        CALL,
        RESULT,
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "and?"},
    ]
    assert (await place.stored())[3:] == [
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "fine"},
    ]


async def test_the_frameworks_own_storing_after_each_call_leaves_the_same_rows(place: Place, stream: bool) -> None:
    client = ScriptedClient([call("c1")], ["Hello"])
    history = place.provider()
    agent = Agent(client, tools=[f], context_providers=[history], require_per_service_call_history_persistence=True)
    await run(agent, "hi", history.create_session("t"), stream=stream)
    assert client.sent[1] == [USER, CALL, RESULT]
    assert await place.stored() == [
        USER,
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "Hello"},
    ]


async def test_users_have_chats_of_their_own(place: Place) -> None:
    history = ThreadkeepHistoryProvider(place.space)
    agent = Agent(ScriptedClient(["to anna"], ["to ben"]), context_providers=[history])
    anna, ben = uuid4(), uuid4()
    await agent.run("I am Anna", session=history.create_session("t", user_id=anna))
    await agent.run("I am Ben", session=history.create_session("t", user_id=ben))
    assert await Place(place.space, anna).stored() == [
        {"role": "user", "content": "I am Anna"},
        {"role": "assistant", "content": "to anna"},
    ]
    assert await Place(place.space, ben).stored() == [
        {"role": "user", "content": "I am Ben"},
        {"role": "assistant", "content": "to ben"},
    ]


async def test_a_session_without_a_user_is_refused_by_name(place: Place) -> None:
    history = ThreadkeepHistoryProvider(place.space)
    with pytest.raises(ValueError, match="give the provider a user_id"):
        history.create_session("t")
    with pytest.raises(ValueError, match="give the provider a user_id"):
        await Agent(ScriptedClient(["x"]), context_providers=[history]).run("hi")


def test_a_provider_needs_a_store() -> None:
    with pytest.raises(ValueError, match="a space, or chats and messages"):
        ThreadkeepHistoryProvider()


def test_an_unknown_conflict_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="error, warn, prefer_service, prefer_history"):
        ThreadkeepHistoryProvider(chats=MemoryChats(), messages=MemoryMessages(), conflict="ask")  # type: ignore[arg-type]


async def test_repositories_of_ones_own_will_do() -> None:
    chats = MemoryChats()
    history = ThreadkeepHistoryProvider(user_id=uuid4(), chats=chats, messages=MemoryMessages())
    client = ScriptedClient([call("c1")], ["Hello"], ["fine"])
    agent = Agent(client, tools=[f], context_providers=[history])
    await agent.run("hi", session=history.create_session("t"))
    await agent.run("and?", session=history.create_session("t"))
    assert client.sent[2][:4] == [USER, CALL, RESULT, {"role": "assistant", "content": "Hello"}]


async def test_a_chat_is_called_by_what_its_user_says_first(place: Place) -> None:
    history = place.provider()
    await Agent(ScriptedClient(["x"]), context_providers=[history]).run(
        "Where is my parcel?", session=history.create_session("t")
    )
    chat = await ChatRepository(place.space).get_chat_by_thread_id(place.user_id, "t")
    assert chat is not None
    assert chat.name == "Where is my parcel?"


async def test_without_a_thread_nothing_is_read_or_stored(place: Place) -> None:
    history = place.provider()
    await history.save_messages(None, [Message("user", ["hi"])])
    assert await history.get_messages(None) == []
    assert await ChatRepository(place.space).get_all_chats(place.user_id) == []


# Never twice


async def test_messages_that_were_saved_are_known_by_their_marks(place: Place) -> None:
    history = place.provider()
    messages = [Message("user", ["hi"]), Message("assistant", ["hello"])]
    await history.save_messages("t", messages)
    await history.save_messages("t", messages[::-1])
    await place.provider(source_id="another").save_messages("t", messages[1:])
    assert await place.stored() == [USER, {"role": "assistant", "content": "hello"}]


async def test_messages_are_known_by_their_ids(place: Place) -> None:
    await place.provider().save_messages("t", [Message("user", ["hi"], message_id="m1")])
    await place.provider().save_messages(
        "t", [Message("user", ["new"], message_id="m2"), Message("user", ["hi"], message_id="m1")]
    )
    assert await place.stored() == [USER, {"role": "user", "content": "new"}]


async def test_a_conversation_that_is_sent_again_is_known_by_its_place(place: Place) -> None:
    def talk() -> list[Message]:
        return [
            Message("user", ["yes"]),
            Message("assistant", [call("c1")]),
            Message("tool", [Content.from_function_result("c1", result="r")]),
            Message("assistant", ["ok"]),
        ]

    await place.provider().save_messages("t", talk())
    await place.provider().save_messages("t", [*talk(), Message("user", ["yes"])])
    await place.provider().save_messages("t", [*talk()[2:], Message("user", ["yes"]), Message("assistant", ["ok"])])
    assert await place.stored() == [
        {"role": "user", "content": "yes"},
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "yes"},
        {"role": "assistant", "content": "ok"},
    ]


async def test_the_same_word_said_twice_on_purpose_stays_two(place: Place, stream: bool) -> None:
    history = place.provider()
    agent = Agent(ScriptedClient(["ok"], ["ok"]), context_providers=[history])
    session = history.create_session("t")
    await run(agent, "yes", session, stream=stream)
    await run(agent, "yes", session, stream=stream)
    assert [row["content"] for row in await place.stored()] == ["yes", "ok", "yes", "ok"]


async def test_what_an_agent_said_goes_to_another_agent_without_being_stored_again(place: Place, stream: bool) -> None:
    history = place.provider()
    first = Agent(ScriptedClient([call("c1")], ["ask the other"]), tools=[f], context_providers=[history])
    second = Agent(ScriptedClient(["done"]), context_providers=[history])
    response = await run(first, "hi", history.create_session("t"), stream=stream)
    await run(second, [*response.messages, Message("user", ["go on"])], history.create_session("t"), stream=stream)
    assert await place.stored() == [
        USER,
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "ask the other"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "done"},
    ]


async def test_two_providers_of_one_chat_store_it_once(place: Place, stream: bool) -> None:
    history, record = place.provider(), place.provider(source_id="record", load_messages=False)
    agent = Agent(ScriptedClient([call("c1")], ["ok"]), tools=[f], context_providers=[history, record])
    await run(agent, "hi", history.create_session("t"), stream=stream)
    assert await place.stored() == [
        USER,
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "ok"},
    ]


async def test_a_call_id_that_is_used_again_answers_the_later_call(place: Place, stream: bool) -> None:
    history = place.provider()
    agent = Agent(ScriptedClient([call("c1")], ["one"], [call("c1")], ["two"]), tools=[f], context_providers=[history])
    await run(agent, "hi", history.create_session("t"), stream=stream)
    await run(agent, "hi", history.create_session("t"), stream=stream)
    assert await place.stored() == [
        USER,
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "one"},
        USER,
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "two"},
    ]


async def test_what_is_to_be_stored_can_be_chosen(place: Place) -> None:
    asked = place.provider(store_outputs=False)
    await Agent(ScriptedClient(["x"]), context_providers=[asked]).run("hi", session=asked.create_session("asked"))
    answered = place.provider(store_inputs=False)
    await Agent(ScriptedClient(["x"]), context_providers=[answered]).run("hi", session=answered.create_session("said"))
    assert await place.stored("asked") == [USER]
    assert await place.stored("said") == [{"role": "assistant", "content": "x"}]


async def test_a_result_without_a_known_call_is_not_lost(place: Place) -> None:
    await place.provider().save_messages("t", [Message("tool", [Content.from_function_result("c9", result="late")])])
    assert await place.stored() == [{"role": "tool", "content": "late"}]
    assert seen(await place.provider().get_messages("t")) == [{"role": "tool", "tool_call_id": "c9", "content": "late"}]


# One thread, two kinds of agents


async def test_a_thread_of_an_ag_ui_frontend_goes_on_in_an_agent(place: Place, stream: bool) -> None:
    await _ag_ui_run(place, "m1", "weather?", _events())
    client = ScriptedClient(["still sunny"])
    history = place.provider()
    await run(Agent(client, context_providers=[history]), "and now?", history.create_session("t"), stream=stream)
    assert client.sent == [
        [
            {"role": "user", "content": "weather?"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "k1", "name": "weather", "arguments": '{"city":"Rome"}'}],
                "others": [
                    {
                        "type": "text_reasoning",
                        "id": "r1",
                        "text": "look",
                        "protected_data": "E",
                        "additional_properties": {},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "k1", "content": "sunny"},
            {"role": "assistant", "content": "It is sunny"},
            {"role": "user", "content": "and now?"},
        ]
    ]
    assert (await place.stored())[3:] == [
        {"role": "user", "content": "and now?"},
        {"role": "assistant", "content": "still sunny"},
    ]


async def test_a_thread_of_an_agent_goes_on_in_an_ag_ui_frontend(place: Place, stream: bool) -> None:
    history = place.provider()
    agent = Agent(ScriptedClient([call("c1")], ["Hello"]), tools=[f], context_providers=[history])
    await run(agent, "hi", history.create_session("t"), stream=stream)
    inner = await _ag_ui_run(place, "m2", "and?", [])
    assert [(message.role, message.content) for message in inner] == [
        ("user", "hi"),
        ("assistant", None),
        ("tool", "r"),
        ("assistant", "Hello"),
        ("user", "and?"),
    ]
    assert inner[1].tool_calls[0].id == inner[2].tool_call_id == "c1"


async def test_history_reads_the_same_for_both(place: Place) -> None:
    history = place.provider()
    agent = Agent(ScriptedClient([call("c1")], ["Hello"]), tools=[f], context_providers=[history])
    await agent.run("hi", session=history.create_session("t"))
    replayed = translate_messages(await place.rows())
    assert [message.role for message in replayed] == ["user", "assistant", "tool", "assistant"]


async def _ag_ui_run(place: Place, message_id: str, text: str, events: list[dict[str, Any]]) -> list[Any]:
    """A run that the storage agent records. Returns what its inner agent was given."""
    registry = ChatSessionRegistry(place.space)
    chats, messages = ChatRepository(place.space, registry), MessageRepository(place.space, registry)
    ends = [{"type": kind, "threadId": "t", "runId": "r"} for kind in ("RUN_STARTED", "RUN_FINISHED")]
    inner = ScriptedAgent([ends[0], *events, ends[1]])
    run_input = RunAgentInput(
        thread_id="t",
        run_id="r",
        messages=[UserMessage(id=message_id, role="user", content=text)],
        tools=[],
        context=[],
        state={},
        forwarded_props={},
    )
    async for _ in AGUIStorageAgent("assistant", place.user_id, chats, messages, inner).run(run_input):
        pass
    return inner.inputs[0].messages


def _events() -> list[dict[str, Any]]:
    return [
        {"type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": "look"},
        {"type": "REASONING_MESSAGE_END", "messageId": "r1"},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r1", "encryptedValue": "E"},
        {"type": "TOOL_CALL_START", "toolCallId": "k1", "toolCallName": "weather", "parentMessageId": "a1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "k1", "delta": '{"city":"Rome"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "k1"},
        {"type": "TOOL_CALL_RESULT", "messageId": "x1", "toolCallId": "k1", "content": "sunny"},
        {"type": "TEXT_MESSAGE_START", "messageId": "a2", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a2", "delta": "It is sunny"},
        {"type": "TEXT_MESSAGE_END", "messageId": "a2"},
    ]


async def test_rows_of_an_agent_show_nothing_but_themselves(place: Place) -> None:
    history = place.provider()
    await Agent(ScriptedClient(["x"]), context_providers=[history]).run("hi", session=history.create_session("t"))
    rows = await place.rows()
    assert shown(rows) == [USER, {"role": "assistant", "content": "x"}]
    assert [getattr(row, "agent_framework", None) for row in rows] == [None, None]
