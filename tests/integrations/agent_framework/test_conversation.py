"""Conversations that the model's service keeps: their ids, and that nobody is sent two copies."""

import logging
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, tool

from tests.integrations.agent_framework.scripted import ScriptedClient, call, run
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f
from threadkeep.integrations.agent_framework import ConversationConflict, PersistentAgent

HI = {"role": "user", "content": "hi"}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}
STORED = [HI, {"role": "assistant", "calls": [("c1", "r", "complete")]}, {"role": "assistant", "content": "ok"}]


class StoringClient(ScriptedClient):
    """Its service keeps conversations unless it is told otherwise, as OpenAI's Responses do."""

    STORES_BY_DEFAULT = True


def agent(place: Place, client: ScriptedClient, at_end: bool, **options: Any) -> PersistentAgent:
    return PersistentAgent(
        client,
        context_providers=[place.provider(**options)],
        persist_chat_history_at_end_of_run=at_end,
        tools=[f],
    )


async def test_the_session_has_the_latest_id_after_every_call(place: Place, stream: bool, at_end: bool) -> None:
    seen: list[Any] = []
    session = place.provider().create_session("t")

    @tool(name="f", approval_mode="never_require")
    def look() -> str:
        """Look at the session between two calls."""
        seen.append(session.service_session_id)
        return "r"

    client = StoringClient([call("c1")], [call("c2")], ["ok"], conversation_ids=["resp_1", "resp_2", "resp_3"])
    history = place.provider(conflict="prefer_service")
    persistent = PersistentAgent(
        client, tools=[look], context_providers=[history], persist_chat_history_at_end_of_run=at_end
    )
    await run(persistent, "hi", session, stream=stream)
    assert [*seen, session.service_session_id] == ["resp_1", "resp_2", "resp_3"]
    assert [each.get("conversation_id") for each in client.options] == [None, "resp_1", "resp_2"]


async def test_a_failed_run_goes_on_from_what_is_stored_of_it(place: Place, stream: bool, at_end: bool) -> None:
    client = StoringClient(["ok"], [call("c1")], RuntimeError("503"), conversation_ids=["resp_1", "resp_2"])
    session = place.provider().create_session("t")
    persistent = agent(place, client, at_end, conflict="prefer_service")
    await run(persistent, "hi", session, stream=stream)
    with pytest.raises(RuntimeError, match="503"):
        await run(persistent, "go", session, stream=stream)
    assert session.service_session_id == ("resp_1" if at_end else "resp_2")


async def test_a_service_is_told_of_calls_that_nobody_answers(place: Place, stream: bool) -> None:
    client = StoringClient([call("c1")], RuntimeError("503"), ["fine"], ["ok"], conversation_ids=["resp_1"])
    session = place.provider().create_session("t")
    with pytest.raises(RuntimeError, match="503"):
        await run(agent(place, client, False, conflict="prefer_service"), "hi", session, stream=stream)
    for text in ("next", "more"):
        await run(agent(place, client, False, conflict="prefer_service"), text, session, stream=stream)
    gone = {**RESULT, "content": "f was interrupted before it gave a result"}
    assert client.sent[2:] == [[gone, {"role": "user", "content": "next"}], [{"role": "user", "content": "more"}]]
    assert (await place.stored())[1] == {"role": "assistant", "calls": [("c1", "", "interrupted")]}


async def test_a_client_that_answers_with_messages_leaves_no_id(place: Place, stream: bool, at_end: bool) -> None:
    session = place.provider().create_session("t")
    client = ScriptedClient([call("c1")], ["ok"])
    await run(agent(place, client, at_end), "hi", session, stream=stream)
    assert session.service_session_id is None
    assert [each.get("conversation_id") for each in client.options] == [None, None]


@pytest.mark.parametrize("make", [PersistentAgent, Agent])
async def test_a_service_that_stores_is_refused_before_it_is_called(
    place: Place, stream: bool, make: type[Any]
) -> None:
    client = StoringClient(["ok"])
    persistent = make(client, context_providers=[place.provider()])
    with pytest.raises(ConversationConflict, match=r"store=False.*load_messages=False.*prefer_service"):
        await run(persistent, "hi", place.provider().create_session("t"), stream=stream)
    assert client.sent == []
    assert await place.stored() == []


@pytest.mark.parametrize("store", [False, True])
async def test_store_decides(place: Place, stream: bool, store: bool) -> None:
    client = StoringClient(["ok"]) if not store else ScriptedClient(["ok"])
    persistent = PersistentAgent(client, context_providers=[place.provider()], default_options={"store": store})
    session = place.provider().create_session("t")
    if store:
        with pytest.raises(ConversationConflict, match="asked to store"):
            await run(persistent, "hi", session, stream=stream)
    else:
        await run(persistent, "hi", session, stream=stream)
        assert await place.stored() == [HI, {"role": "assistant", "content": "ok"}]


async def test_a_conversation_that_comes_unexpected_is_stored_and_refused(
    place: Place, stream: bool, at_end: bool
) -> None:
    client = ScriptedClient(["ok"], conversation_ids=["conv_9"])
    with pytest.raises(ConversationConflict, match="answered with the conversation 'conv_9'"):
        await run(agent(place, client, at_end), "hi", place.provider().create_session("t"), stream=stream)
    assert await place.stored() == ([] if at_end else [HI, {"role": "assistant", "content": "ok"}])


async def test_an_unexpected_conversation_is_used_with_a_warning(
    place: Place, stream: bool, at_end: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client = ScriptedClient([call("c1")], ["ok"], ["fine"], conversation_ids=["conv_9"] * 3)
    session = place.provider().create_session("t")
    with caplog.at_level(logging.WARNING, "threadkeep.integrations"):
        await run(agent(place, client, at_end, conflict="warn"), "hi", session, stream=stream)
    assert "conv_9" in caplog.text
    assert client.sent == [[HI], [RESULT]]
    await run(agent(place, client, at_end, conflict="warn"), "next", session, stream=stream)
    assert client.sent[2] == [{"role": "user", "content": "next"}]
    assert (await place.stored())[:3] == STORED


async def test_history_can_be_preferred_to_a_service_that_stores(place: Place, stream: bool, at_end: bool) -> None:
    client = StoringClient([call("c1")], ["ok"], ["fine"], conversation_ids=["conv_9"] * 3)
    session = place.provider().create_session("t")
    session.service_session_id = "conv_1"
    persistent = agent(place, client, at_end, conflict="prefer_history")
    await run(persistent, "hi", session, stream=stream)
    await run(persistent, "next", session, stream=stream)
    assert client.sent[1] == [HI, CALL, RESULT]
    assert client.sent[2] == [
        HI,
        CALL,
        RESULT,
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "next"},
    ]
    assert [(each.get("store"), each.get("conversation_id")) for each in client.options] == [(False, None)] * 3
    assert session.service_session_id is None


@pytest.mark.parametrize("options", [{"conflict": "prefer_service"}, {"load_messages": False}])
async def test_beside_a_service_the_chat_is_a_record(
    place: Place, stream: bool, at_end: bool, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    client = StoringClient([call("c1")], ["ok"], ["fine"], conversation_ids=["resp_1", "resp_2", "resp_3"])
    session = place.provider().create_session("t")
    with caplog.at_level(logging.WARNING, "threadkeep.integrations"):
        await run(agent(place, client, at_end, **options), "hi", session, stream=stream)
        await run(agent(place, client, at_end, **options), "next", session, stream=stream)
    assert client.sent == [[HI], [RESULT], [{"role": "user", "content": "next"}]]
    assert await place.stored() == [
        *STORED,
        {"role": "user", "content": "next"},
        {"role": "assistant", "content": "fine"},
    ]
    assert caplog.records == []


async def test_a_session_outlives_its_process_with_its_conversation(place: Place, stream: bool) -> None:
    client = StoringClient(["ok"], ["fine"], conversation_ids=["resp_1", "resp_2"])
    persistent = agent(place, client, False, conflict="prefer_service")
    session = place.provider().create_session("t")
    await run(persistent, "hi", session, stream=stream)
    again = AgentSession.from_dict(session.to_dict())
    await run(persistent, "next", again, stream=stream)
    assert client.options[1]["conversation_id"] == "resp_1"
    assert again.service_session_id == "resp_2"
