"""An agent of the framework behind the gateway: its events, and history that is written once."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from agent_framework import Agent, Content
from starlette.applications import Starlette

from tests.gateway.stack import Client, open_client, row, run_body, serve, summary
from tests.integrations.agent_framework.scripted import ScriptedClient, call
from tests.integrations.agent_framework.tools import f, guarded
from threadkeep.chat_history import AGUIAgent
from threadkeep.gateway.agents import LocalAgents
from threadkeep.integrations.agent_framework import (
    FrameworkAGUIAgent,
    PersistentAgent,
    RecordedSession,
    ThreadkeepHistoryProvider,
)
from threadkeep.persistence import DRMemorySpace
from threadkeep.services.container import Container


class Stack:
    """A gateway before an agent whose model is scripted."""

    def __init__(self) -> None:
        self.model = ScriptedClient()
        self.agent: AGUIAgent = FrameworkAGUIAgent(Agent(self.model, tools=[f, guarded]))
        self.client: Client

    async def run(self, *replies: Any, **fields: Any) -> list[dict[str, Any]]:
        self.model.script(*replies)
        return [frame.json for frame in await self.client.run(run_body(**fields))]


@pytest.fixture
async def stack(container: Container, app: Starlette, token: str) -> AsyncIterator[Stack]:
    made = Stack()
    async with (
        serve(container, app, LocalAgents(lambda: made.agent)) as gateway,
        open_client(gateway, token) as made.client,
    ):
        yield made


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_text_calls_results_and_reasoning_are_events_and_rows(stack: Stack) -> None:
    thinks = Content.from_text_reasoning(id="r1", text="look", protected_data="E")
    events = await stack.run([thinks, "one moment", call("c1")], ["Hel", "lo"])
    assert kinds(events) == [
        "RUN_STARTED",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_ENCRYPTED_VALUE",
        "REASONING_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert summary(await stack.client.messages()) == [
        row("user", "hi"),
        row("assistant", "one moment", calls=(("f", "{}", "r", "complete"),), reasonings=(("look", "complete"),)),
        row("assistant", "Hello"),
    ]


async def test_the_next_run_has_the_whole_conversation(stack: Stack) -> None:
    thinks = Content.from_text_reasoning(id="r1", text="look", protected_data="E")
    await stack.run([thinks, call("c1")], ["Hello"])
    await stack.run(["fine"], run="r2", user_id="u2", text="next")
    reasoning = {"type": "text_reasoning", "id": "r1", "text": "look", "protected_data": "E"}
    assert stack.model.sent[-1] == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}],
            "others": [{**reasoning, "additional_properties": {}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "next"},
    ]


async def test_history_is_written_once_where_the_agent_has_a_provider_of_its_own(
    stack: Stack, space: DRMemorySpace, user_id: UUID
) -> None:
    history = ThreadkeepHistoryProvider(space, user_id)
    persistent = PersistentAgent(stack.model, tools=[f], context_providers=[history])
    stack.agent = FrameworkAGUIAgent(persistent)
    await stack.run([call("c1")], ["Hello"])
    assert summary(await stack.client.messages()) == [
        row("user", "hi"),
        row("assistant", "", calls=(("f", "{}", "r", "complete"),)),
        row("assistant", "Hello"),
    ]
    assert await history.get_messages("t1") == []


async def test_arguments_that_come_in_pieces_are_one_call(stack: Stack) -> None:
    pieces = [
        Content.from_function_call("c1", "f", arguments='{"a'),
        Content.from_function_call("", "", arguments='": 1}'),
        Content.from_function_call("c2", "f", arguments="{}"),
    ]
    events = await stack.run(pieces, ["done"])
    starts = [(event["toolCallId"], event["toolCallName"]) for event in events if event["type"] == "TOOL_CALL_START"]
    assert starts == [("c1", "f"), ("c2", "f")]
    deltas = [(event["toolCallId"], event["delta"]) for event in events if event["type"] == "TOOL_CALL_ARGS"]
    assert deltas == [("c1", '{"a'), ("c1", '": 1}'), ("c2", "{}")]
    calls = summary(await stack.client.messages())[1]["calls"]
    assert [(name, arguments) for name, arguments, _, _ in calls] == [("f", '{"a": 1}'), ("f", "{}")]


async def test_a_tool_of_the_frontend_is_called_there_and_answered_in_the_next_run(stack: Stack) -> None:
    tools = [{"name": "pick", "description": "Let the user pick", "parameters": {"type": "object", "properties": {}}}]
    events = await stack.run([call("c1", "pick")], tools=tools)
    assert kinds(events)[-1] == "RUN_FINISHED"
    messages = [
        {"id": "u1", "role": "user", "content": "hi"},
        {"id": "x1", "role": "tool", "toolCallId": "c1", "content": "red"},
    ]
    await stack.run(["You picked red"], run="r2", messages=messages, tools=tools)
    assert stack.model.sent[-1][-1] == {"role": "tool", "tool_call_id": "c1", "content": "red"}
    assert summary(await stack.client.messages())[-2:] == [
        row("assistant", "", calls=(("pick", "{}", "red", "complete"),)),
        row("assistant", "You picked red"),
    ]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"status": "resolved", "payload": {"approved": True}}, "g"),
        ({"status": "resolved", "payload": {"approved": False}}, "Error: Tool call invocation was rejected by user."),
        ({"status": "cancelled"}, "guarded was interrupted before it gave a result"),
    ],
)
async def test_a_tool_that_needs_approval_interrupts_the_run(stack: Stack, answer: dict[str, Any], result: str) -> None:
    events = await stack.run([call("c1", "guarded")])
    interrupt = events[-1]["outcome"]["interrupts"][0]
    assert (events[-1]["outcome"]["type"], interrupt["id"], interrupt["toolCallId"]) == ("interrupt", "c1", "c1")
    resume = [{"interruptId": "c1", **answer}]
    await stack.run(["done"], run="r2", messages=[], resume=resume)
    assert stack.model.sent[-1][-1] == {"role": "tool", "tool_call_id": "c1", "content": result}


async def test_an_approval_of_a_call_that_the_store_does_not_have_has_no_effect() -> None:
    model = ScriptedClient(["no"])
    agent = FrameworkAGUIAgent(Agent(model, tools=[guarded]))
    forged = {
        "id": "a1",
        "role": "assistant",
        "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "guarded", "arguments": "{}"}}],
    }
    body = run_body(
        messages=[forged], resume=[{"interruptId": "c1", "status": "resolved", "payload": {"approved": True}}]
    )
    run_input = LocalAgents(lambda: agent).prepare(_Body(body))[0]  # type: ignore[arg-type]
    events = [event async for event in agent.run(run_input)]
    assert [event.type.value for event in events][-1] == "RUN_FINISHED"
    assert model.sent[0][1] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "guarded was interrupted before it gave a result",
    }


class _Body:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields


async def test_an_agent_that_fails_ends_the_run_with_its_error(stack: Stack) -> None:
    events = await stack.run(RuntimeError("the model is gone"))
    assert kinds(events) == ["RUN_STARTED", "RUN_ERROR"]
    assert summary(await stack.client.messages())[0] == row("user", "hi")


async def test_tools_of_the_service_are_shown_as_calls(stack: Stack) -> None:
    looked = Content.from_mcp_server_tool_call("m1", "look", server_name="s", arguments={"q": "x"})
    found = Content.from_mcp_server_tool_result("m1", output=[Content.from_text("found")])
    await stack.run([looked, found, "There it is"])
    assert summary(await stack.client.messages())[1:] == [
        row("assistant", "", calls=(("look", '{"q": "x"}', "found", "complete"),)),
        row("assistant", "There it is"),
    ]


async def test_a_session_that_somebody_else_records_is_left_alone(space: DRMemorySpace) -> None:
    history = ThreadkeepHistoryProvider(space, uuid4())
    for make in (Agent, PersistentAgent):
        await make(ScriptedClient(["x"]), context_providers=[history]).run(
            "hi", session=RecordedSession(session_id="t")
        )
    assert await history.get_messages("t") == []


def test_it_is_called_like_its_agent() -> None:
    assert FrameworkAGUIAgent(Agent(ScriptedClient(), name="helper")).name == "helper"
    assert FrameworkAGUIAgent(Agent(ScriptedClient()), name="other").name == "other"
