"""Responses of the scripted OpenAI-compatible server, driven by OpenAI's own client."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from threadkeep.testing.openai_server import Call, OpenAIServer, Reply

ASKS = Reply(text=["one ", "moment"], reasoning=["hm"], calls=[Call("f", ['{"a"', ":1}"], id="c1")])
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "r"}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([ASKS, Reply(text=["done"])]) as opened:
        yield opened


@pytest.fixture
def client(server: OpenAIServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="k-1", max_retries=0) as opened:
        yield opened


def test_a_reply_is_one_response(client: openai.OpenAI) -> None:
    response = client.responses.create(model="m", input="hi")
    assert response.id == "resp_1"
    assert response.output_text == "one moment"
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]


def test_a_streamed_response_is_the_same_in_the_end(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="hi") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response: Any = stream.get_final_response()
    assert deltas == ["one ", "moment"]
    assert response.output[2].arguments == '{"a":1}'


def test_a_conversation_goes_on_from_the_response_before(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="hi")
    second = client.responses.create(model="m", input=[OUTPUT], previous_response_id=first.id)  # type: ignore[list-item]
    assert second.output_text == "done"


def test_what_was_not_kept_cannot_be_gone_on_from(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="hi", store=False)
    with pytest.raises(openai.BadRequestError, match="'resp_1' not found"):
        client.responses.create(model="m", input=[OUTPUT], previous_response_id=first.id)  # type: ignore[list-item]


def test_a_call_without_its_output_is_refused(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="hi")
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call c1"):
        client.responses.create(model="m", input="next", previous_response_id=first.id)


def test_an_output_without_its_call_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="No tool call found for function call output with call_id c1"):
        client.responses.create(model="m", input=[OUTPUT])  # type: ignore[list-item]
