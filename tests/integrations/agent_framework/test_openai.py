"""The framework's own OpenAI clients over real HTTP: what goes over the wire in each call, and what is stored."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import pytest
from agent_framework import Content, Message
from agent_framework_openai import OpenAIChatClient, OpenAIChatCompletionClient
from openai import AsyncOpenAI

from tests.integrations.agent_framework.scripted import run
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f
from threadkeep.integrations.agent_framework import ConversationConflict, PersistentAgent
from threadkeep.testing.openai_server import Answer, Call, OpenAIServer, Refusal, Reply

ASKS = Reply(calls=[Call("f", ["{", "}"], id="c1")])
STORED = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "calls": [("c1", "r", "complete")]},
    {"role": "assistant", "content": "done"},
    {"role": "user", "content": "next"},
    {"role": "assistant", "content": "fine"},
]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
GONE = "f was interrupted before it gave a result"


SCRIPT: list[Answer] = [ASKS, Reply(text=["do", "ne"]), Reply(text=["fine"])]
THINKS: list[Answer] = [Reply(reasoning=["let ", "me see"], calls=[Call("f", ["{}"], id="c1")]), *SCRIPT[1:]]
FAILS: list[Answer] = [ASKS, Refusal(503, "busy"), Reply(text=["fine"])]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[OpenAIServer]:
    """A server with the script that the test is parametrised with, or with `SCRIPT`."""
    with OpenAIServer(getattr(request, "param", SCRIPT)) as opened:
        yield opened


def agent(place: Place, client: Any, at_end: bool, **options: Any) -> PersistentAgent:
    return PersistentAgent(
        client,
        tools=[f],
        context_providers=[place.provider(**options)],
        persist_chat_history_at_end_of_run=at_end,
        default_options=options.pop("default_options", None),
    )


class Clients:
    """The framework's clients of a server, over connections that the test closes."""

    def __init__(self, server: OpenAIServer) -> None:
        self.connection = AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    def completions(self) -> OpenAIChatCompletionClient[Any]:
        return OpenAIChatCompletionClient(model="m", async_client=self.connection)

    def responses(self) -> OpenAIChatClient[Any]:
        return OpenAIChatClient(model="m", async_client=self.connection)


@pytest.fixture
async def clients(server: OpenAIServer) -> AsyncIterator[Clients]:
    async with Clients(server) as opened:
        yield opened


async def test_chat_completions(
    place: Place, stream: bool, at_end: bool, server: OpenAIServer, clients: Clients
) -> None:
    for text in ("hi", "next"):
        client = clients.completions()
        await run(agent(place, client, at_end), text, place.provider().create_session("t"), stream=stream)
    hi = {"role": "user", "content": "hi"}
    looped = [hi, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "r"}]
    assert [_messages(request) for request in server.requests] == [
        [hi],
        looped,
        [*looped, {"role": "assistant", "content": "done"}, {"role": "user", "content": "next"}],
    ]
    assert await place.stored() == STORED


@pytest.mark.parametrize("server", [FAILS], indirect=True)
async def test_chat_completions_after_a_call_that_failed(
    place: Place, stream: bool, server: OpenAIServer, clients: Clients
) -> None:
    with pytest.raises(Exception, match="busy"):
        await run(agent(place, clients.completions(), False), "hi", place.provider().create_session("t"), stream=stream)
    await run(agent(place, clients.completions(), False), "next", place.provider().create_session("t"), stream=stream)
    assert _messages(server.requests[2]) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": GONE},
        {"role": "user", "content": "next"},
    ]


@pytest.mark.parametrize("conflict", ["prefer_service", "warn"])
async def test_responses_that_the_service_keeps(
    place: Place, stream: bool, at_end: bool, server: OpenAIServer, clients: Clients, conflict: str
) -> None:
    session = place.provider().create_session("t")
    for text in ("hi", "next"):
        await run(agent(place, clients.responses(), at_end, conflict=conflict), text, session, stream=stream)
    assert [_input(request) for request in server.requests] == [
        [("user", "hi")],
        [("output", "c1", "r")],
        [("user", "next")],
    ]
    assert [request.get("previous_response_id") for request in server.requests] == [None, "resp_1", "resp_2"]
    assert session.service_session_id == "resp_3"
    assert await place.stored() == STORED


async def test_responses_that_the_service_keeps_are_not_also_loaded_from_here(
    place: Place, stream: bool, server: OpenAIServer, clients: Clients
) -> None:
    with pytest.raises(ConversationConflict):
        await run(agent(place, clients.responses(), False), "hi", place.provider().create_session("t"), stream=stream)
    assert server.requests == []


async def test_responses_that_are_kept_here(
    place: Place, stream: bool, at_end: bool, server: OpenAIServer, clients: Clients
) -> None:
    for text in ("hi", "next"):
        client = clients.responses()
        session = place.provider().create_session("t")
        await run(agent(place, client, at_end, conflict="prefer_history"), text, session, stream=stream)
        assert session.service_session_id is None
    looped = [("user", "hi"), ("call", "c1", "f"), ("output", "c1", "r")]
    assert [_input(request) for request in server.requests] == [
        [("user", "hi")],
        looped,
        [*looped, ("assistant", "done"), ("user", "next")],
    ]
    assert [(each["store"], each.get("previous_response_id")) for each in server.requests] == [(False, None)] * 3
    assert await place.stored() == STORED


@pytest.mark.parametrize("server", [THINKS], indirect=True)
async def test_sealed_reasoning_goes_back_to_the_service_with_its_call(
    place: Place, stream: bool, at_end: bool, server: OpenAIServer, clients: Clients
) -> None:
    for text in ("hi", "next"):
        session = place.provider().create_session("t")
        await run(agent(place, clients.responses(), at_end, conflict="prefer_history"), text, session, stream=stream)
    items = server.requests[2]["input"]
    assert [item["type"] for item in items[:4]] == ["message", "reasoning", "function_call", "function_call_output"]
    assert items[1]["encrypted_content"] == "sealed_1"
    row = (await place.rows())[1]
    assert [(step.content, step.encrypted_value) for step in row.reasonings] == [("let me see", "sealed_1")]


@pytest.mark.parametrize("server", [FAILS], indirect=True)
async def test_a_run_after_one_that_failed_goes_through_at_the_service(
    place: Place, stream: bool, at_end: bool, server: OpenAIServer, clients: Clients
) -> None:
    session = place.provider().create_session("t")
    persistent = agent(place, clients.responses(), at_end, conflict="prefer_service")
    with pytest.raises(Exception, match="busy"):
        await run(persistent, "hi", session, stream=stream)
    response = await run(persistent, "next", session, stream=stream)
    assert response.text == "fine"
    assert _input(server.requests[2]) == [*([] if at_end else [("output", "c1", GONE)]), ("user", "next")]


@pytest.mark.parametrize("server", [FAILS], indirect=True)
async def test_a_call_that_the_service_keeps_open_is_answered_by_the_caller(
    place: Place, stream: bool, server: OpenAIServer, clients: Clients
) -> None:
    session = place.provider().create_session("t")
    persistent = agent(place, clients.responses(), False, conflict="prefer_service")
    with pytest.raises(Exception, match="busy"):
        await run(persistent, "hi", session, stream=stream)
    assert session.service_session_id == "resp_1"
    brought = Message("tool", [Content.from_function_result("c1", result="mine")])
    await run(persistent, [brought], session, stream=stream)
    assert _input(server.requests[2]) == [("output", "c1", "mine")]


def _messages(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request for a chat completion, in the shape of the cases."""
    shown = []
    for message in request["messages"]:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        fields = {key: message[key] for key in ("role", "tool_calls", "tool_call_id") if message.get(key)}
        shown.append({**fields, **({"content": content} if content else {})})
    return shown


def _input(request: dict[str, Any]) -> list[tuple[str, ...]]:
    """The input items of a request for a response, in short."""
    shown: list[tuple[str, ...]] = []
    for item in request["input"]:
        if item["type"] == "message":
            shown.append((item["role"], "".join(part["text"] for part in item["content"])))
        elif item["type"] == "function_call":
            shown.append(("call", item["call_id"], item["name"]))
        elif item["type"] == "function_call_output":
            shown.append(("output", item["call_id"], item["output"]))
    return shown
