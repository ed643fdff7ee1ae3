"""The scripted demo agent."""

import json
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from threadkeep import demo
from threadkeep.demo.script import DemoAgent, asked_city


def run_input(*questions: str) -> RunAgentInput:
    messages = [{"id": f"u{n}", "role": "user", "content": text} for n, text in enumerate(questions)]
    return RunAgentInput.model_validate(
        {
            "threadId": "t",
            "runId": "r",
            "messages": messages,
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }
    )


async def play(agent: DemoAgent, given: RunAgentInput) -> list[dict[str, Any]]:
    return [event.model_dump(mode="json", by_alias=True, exclude_none=True) async for event in agent.run(given)]


def joined(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind)


async def test_a_run_thinks_talks_calls_its_tool_and_answers() -> None:
    events = await play(DemoAgent(pause=0), run_input("What is the weather in Oslo today?"))
    order = list(dict.fromkeys(event["type"] for event in events))
    assert order == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "RUN_FINISHED",
    ]
    assert joined(events, "TOOL_CALL_ARGS") == '{"city": "Oslo"}'
    (result,) = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert json.loads(result) == {"city": "Oslo", "celsius": 7, "sky": "partly cloudy", "humidity": 69}
    assert joined(events, "TEXT_MESSAGE_CONTENT") == (
        "Let me look up the weather in Oslo.It is 7 °C in Oslo, the sky is partly cloudy, and the humidity is 69 %."
    )


async def test_the_call_belongs_to_the_text_before_it() -> None:
    events = await play(DemoAgent(pause=0), run_input("hello"))
    first, last = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"]
    (call,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert call["parentMessageId"] == first
    assert first != last


async def test_the_agent_knows_the_conversation_so_far() -> None:
    events = await play(DemoAgent(pause=0), run_input("In Oslo?", "And in Rome?"))
    assert joined(events, "TEXT_MESSAGE_CONTENT").endswith("(This was question 2 of our conversation.)")


@pytest.mark.parametrize(
    ("question", "city"),
    [
        ("weather in New York please", "New York"),
        ("what about Rome", "Lisbon"),
        ("for Århus?", "Århus"),
        ("", "Lisbon"),
    ],
)
def test_the_city_is_what_the_question_names(question: str, city: str) -> None:
    assert asked_city(question) == city


def test_without_a_key_the_demo_is_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("THREADKEEP_DEMO_PAUSE", "0.5")
    agent = demo.agent()
    assert isinstance(agent, DemoAgent)
    assert agent.pause == 0.5


def test_the_pause_is_a_fraction_of_a_second_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THREADKEEP_DEMO_PAUSE", raising=False)
    assert DemoAgent().pause == 0.04
