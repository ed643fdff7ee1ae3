"""The demo agent on a scripted model, over real HTTP."""

import importlib
import sys
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from threadkeep import demo
from threadkeep.demo.openai import OpenAIAgent
from threadkeep.errors import MissingExtra
from threadkeep.testing.openai_server import Answer, Call, OpenAIServer, Refusal, Reply

ASK = {"id": "u1", "role": "user", "content": "Weather in Oslo?"}
OSLO = Call("weather", ['{"city"', ': "Oslo"}'], id="call_oslo")
OSLO_RESULT = '{"city": "Oslo", "celsius": 7, "sky": "partly cloudy", "humidity": 69}'


def run_input(*messages: dict[str, Any], tools: tuple[dict[str, Any], ...] = ()) -> RunAgentInput:
    fields = {"threadId": "t", "runId": "r", "messages": messages, "tools": tools}
    return RunAgentInput.model_validate({**fields, "state": {}, "context": [], "forwardedProps": {}})


async def play(server: OpenAIServer, given: RunAgentInput) -> list[dict[str, Any]]:
    agent = OpenAIAgent(base_url=server.url, api_key="k", model="m-1")
    return [event.model_dump(mode="json", by_alias=True, exclude_none=True) async for event in agent.run(given)]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_the_model_calls_the_tool_and_answers_with_its_result() -> None:
    answers: list[Answer] = [Reply(text=["Let me ", "look."], calls=[OSLO]), Reply(text=["7 ", "degrees."])]
    with OpenAIServer(answers) as server:
        events = await play(server, run_input(ASK))
    assert types(events) == [
        "RUN_STARTED",
        *["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
        *["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"],
        *["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
        "RUN_FINISHED",
    ]
    assert events[9]["content"] == OSLO_RESULT
    assert events[5]["parentMessageId"] == events[1]["messageId"] != events[10]["messageId"]
    assert server.requests[1]["messages"] == [
        {"role": "user", "content": "Weather in Oslo?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {
                    "id": "call_oslo",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_oslo", "content": OSLO_RESULT},
    ]
    assert server.requests[0]["model"] == "m-1"
    assert server.requests[0]["tools"][0]["function"]["name"] == "weather"
    assert server.headers[0]["authorization"] == "Bearer k"


async def test_reasoning_is_streamed_before_the_text() -> None:
    with OpenAIServer([Reply(reasoning=["h", "m"], text=["Yes."])]) as server:
        events = await play(server, run_input(ASK))
    assert types(events) == [
        "RUN_STARTED",
        *["REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"],
        *["REASONING_MESSAGE_END", "REASONING_END"],
        *["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"],
    ]


async def test_two_calls_in_one_turn_are_both_run() -> None:
    rome = Call("weather", ['{"city": "Rome"}'], id="call_rome")
    with OpenAIServer([Reply(calls=[OSLO, rome]), Reply(text=["Done."])]) as server:
        events = await play(server, run_input(ASK))
    results = [(e["toolCallId"], e["content"]) for e in events if e["type"] == "TOOL_CALL_RESULT"]
    assert [call for call, _ in results] == ["call_oslo", "call_rome"]
    assert results[0][1] == OSLO_RESULT
    assert [m["role"] for m in server.requests[1]["messages"]] == ["user", "assistant", "tool", "tool"]


async def test_a_tool_of_the_client_ends_the_run_and_is_left_to_it() -> None:
    tool = {"name": "confirm", "description": "Ask the user", "parameters": {"type": "object", "properties": {}}}
    with OpenAIServer([Reply(calls=[Call("confirm", ["{}"], id="c9")])]) as server:
        events = await play(server, run_input(ASK, tools=(tool,)))
    assert types(events) == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
    assert [t["function"]["name"] for t in server.requests[0]["tools"]] == ["weather", "confirm"]


async def test_a_tool_that_does_not_exist_is_answered_so() -> None:
    with OpenAIServer([Reply(calls=[Call("dance", ["{}"])]), Reply(text=["Sorry."])]) as server:
        await play(server, run_input(ASK))
    assert server.requests[1]["messages"][-1]["content"] == "There is no tool of the name 'dance'"


async def test_a_refusal_of_the_model_is_a_run_error() -> None:
    with OpenAIServer([Refusal(401, "Bad key")]) as server:
        events = await play(server, run_input(ASK))
    assert types(events) == ["RUN_STARTED", "RUN_ERROR"]
    assert events[1]["code"] == "MODEL_ERROR"
    assert "Bad key" in events[1]["message"]


async def test_a_connection_cut_in_the_middle_is_a_run_error_after_what_was_said() -> None:
    with OpenAIServer([Reply(text=["Let me"], cut=True)]) as server:
        events = await play(server, run_input(ASK))
    assert types(events) == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "RUN_ERROR"]


async def test_a_model_that_never_stops_asking_is_stopped() -> None:
    with OpenAIServer([Reply(calls=[OSLO])] * 9) as server:
        events = await play(server, run_input(ASK))
    assert len(server.requests) == 8
    assert events[-1]["code"] == "TOO_MANY_ROUNDS"


async def test_with_a_key_the_demo_talks_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer([Reply(text=["Hi."])]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_MODEL", "m-2")
        agent = demo.agent()
        events = [event async for event in agent.run(run_input(ASK))]
    assert isinstance(agent, OpenAIAgent)
    assert events[-1].type.value == "RUN_FINISHED"
    assert server.requests[0]["model"] == "m-2"
    assert server.headers[0]["authorization"] == "Bearer from-the-environment"


def test_without_the_extra_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "threadkeep.demo.openai")
    with pytest.raises(MissingExtra, match=r"pip install 'threadkeep\[openai\]'"):
        importlib.import_module("threadkeep.demo.openai")
