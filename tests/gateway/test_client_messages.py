"""What a gateway does with the messages of its clients, by its settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.chat_history.next_inputs import outline
from tests.gateway.stack import Client, open_client, run_body, serve
from threadkeep.api.app import create_app
from threadkeep.chat_history.ag_ui.wire import message_fields
from threadkeep.gateway.agents import agents_of
from threadkeep.gateway.inputs import INPUT_RULES
from threadkeep.services.container import Container
from threadkeep.settings import CLIENT_MESSAGES, Settings
from threadkeep.testing.agents import ScriptedAgent

CALL = [
    {"type": "RUN_STARTED", "threadId": "-", "runId": "-"},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "map", "parentMessageId": "m1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{"},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    {"type": "RUN_FINISHED", "threadId": "-", "runId": "-"},
]
RESULT = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "here"}
MAP = {"name": "map", "description": "a map", "parameters": {}}


@asynccontextmanager
async def gateway(database: str, agent: ScriptedAgent, **settings: Any) -> AsyncIterator[Client]:
    container = await Container.open(Settings(database=database, **settings))
    try:
        _, secret = await container.tokens.create(user="alice", name="test")
        async with (
            serve(container, create_app(container), agents_of(agent)) as app,
            open_client(app, secret) as client,
        ):
            yield client
    finally:
        await container.close()


def seen(agent: ScriptedAgent) -> list[Any]:
    return outline([dict(message_fields(message)) for message in agent.inputs[-1].messages])


def test_every_way_to_read_them_has_its_rules() -> None:
    assert tuple(INPUT_RULES) == CLIENT_MESSAGES


async def test_by_default_a_frontend_may_answer_a_call_and_the_history_is_repaired(database: str) -> None:
    agent = ScriptedAgent(CALL)
    async with gateway(database, agent) as client:
        await client.run(tools=[MAP])
        await client.run(run_body(run="r2", messages=[RESULT]))
        assert seen(agent) == [("user", "hi"), ("assistant", None, "c1"), ("tool", "here", "c1")]
        arguments = [call.function.arguments for call in agent.inputs[-1].messages[1].tool_calls]
        assert arguments == ['{"arguments": "{"}']


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({}, ["user", "assistant", "user"]),
        ({"keep_unsigned": True}, ["user", "reasoning", "assistant", "user"]),
    ],
)
async def test_reasonings_without_a_signature_go_to_the_agent_where_the_operator_wants_it(
    database: str, options: dict[str, Any], roles: list[str]
) -> None:
    thinking = [
        {"type": "REASONING_MESSAGE_START", "messageId": "z1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z1", "delta": "hm"},
        {"type": "REASONING_MESSAGE_END", "messageId": "z1"},
    ]
    answer = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "ok"}
    agent = ScriptedAgent([CALL[0], *thinking, answer, CALL[-1]])
    async with gateway(database, agent, **options) as client:
        await client.run()
        await client.run(run="r2", text="and?", user_id="u2")

        assert [message.role for message in agent.inputs[-1].messages] == roles


async def test_a_strict_gateway_refuses_it_and_goes_on(database: str) -> None:
    agent = ScriptedAgent(CALL)
    async with gateway(database, agent, client_messages="strict", repair=False) as client:
        await client.run(tools=[MAP])
        (frame,) = await client.run(run_body(run="r2", messages=[RESULT]))
        assert (frame.type, frame.json["code"]) == ("RUN_ERROR", "INVALID_INPUT")
        await client.run(run_body(run="r3", text="and?", user_id="u2"))
        assert seen(agent) == [
            ("user", "hi"),
            ("assistant", "", "c1"),
            ("tool", "Completed map", "c1"),
            ("user", "and?"),
        ]


@pytest.mark.parametrize(
    ("way", "lines"), [("whole", [("user", "Hello there")]), ("new", [("user", "hi"), ("user", "Hello there")])]
)
async def test_a_gateway_knows_what_one_new_message_means_if_it_is_told(
    database: str, way: str, lines: list[Any]
) -> None:
    agent = ScriptedAgent([CALL[0], CALL[-1]])
    async with gateway(database, agent, client_messages=way) as client:
        await client.run()
        await client.run(run="r2", text="Hello there", user_id="u2")
        assert seen(agent) == lines
        assert [message["content"] for message in await client.messages(all="true")] == ["hi", "Hello there"]
