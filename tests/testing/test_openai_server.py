"""The scripted OpenAI-compatible server, driven by OpenAI's own client."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import openai
import pytest

from threadkeep.testing.openai_server import Answer, Call, OpenAIServer, Refusal, Reply


@pytest.fixture
def clients() -> Iterator[list[openai.OpenAI]]:
    made: list[openai.OpenAI] = []
    yield made
    for client in made:
        client.close()


def connect(server: OpenAIServer, clients: list[openai.OpenAI]) -> openai.OpenAI:
    clients.append(openai.OpenAI(base_url=server.url, api_key="k-1"))
    return clients[-1]


HELLO = [{"role": "user", "content": "hello"}]


def test_a_reply_is_streamed_in_the_pieces_of_the_script(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([Reply(text=["Hel", "lo"])]) as server:
        stream = connect(server, clients).chat.completions.create(model="m", messages=HELLO, stream=True)
        deltas = [chunk.choices[0].delta.content for chunk in stream]
    assert deltas == ["", "Hel", "lo", None]
    assert server.requests == [{"model": "m", "messages": HELLO, "stream": True}]
    assert server.headers[0]["authorization"] == "Bearer k-1"


def test_a_reply_comes_whole_to_a_client_that_does_not_stream(clients: list[openai.OpenAI]) -> None:
    reply = Reply(text=["Hel", "lo"], calls=[Call("f", ['{"x"', ":1}"])])
    with OpenAIServer([reply]) as server:
        completion = connect(server, clients).chat.completions.create(model="m", messages=HELLO)
    message = completion.choices[0].message
    assert message.content == "Hello"
    assert message.tool_calls is not None
    assert message.tool_calls[0].to_dict() == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"x":1}'},
    }
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 15


def test_usage_is_streamed_to_a_client_that_asks_for_it(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([Reply(text=["x"])]) as server:
        stream = connect(server, clients).chat.completions.create(
            model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        *_, last = stream
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.prompt_tokens == 10


def test_a_refusal_is_an_error_in_the_shape_of_the_api(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([Refusal(429, "slow down")]) as server:
        completions = connect(server, clients).chat.completions
        with pytest.raises(openai.RateLimitError, match="slow down"):
            completions.create(model="m", messages=HELLO)
    assert len(server.requests) == 1


def test_a_reply_that_is_cut_breaks_off_after_its_pieces(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([Reply(text=["half"], cut=True)]) as server:
        stream = connect(server, clients).chat.completions.create(model="m", messages=HELLO, stream=True)
        assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "half"]
        with pytest.raises(openai.APIConnectionError):
            next(stream)


def test_a_callable_answers_what_it_was_asked(clients: list[openai.OpenAI]) -> None:
    def echo(body: dict[str, object]) -> Reply:
        return Reply(text=[json.dumps(body["messages"])])

    answers: list[Answer] = [echo]
    with OpenAIServer(answers) as server:
        completion = connect(server, clients).chat.completions.create(model="m", messages=HELLO)
    assert completion.choices[0].message.content == '[{"role": "user", "content": "hello"}]'


def test_a_request_beyond_the_script_is_refused_and_says_so(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([]) as server:
        completions = connect(server, clients).chat.completions
        with pytest.raises(openai.InternalServerError, match="No answer is scripted for request 1"):
            completions.create(model="m", messages=HELLO)


def test_other_paths_are_not_there() -> None:
    with OpenAIServer([]) as server:
        request = urllib.request.Request(server.url + "/embeddings", b"{}")
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(request)
        caught.value.close()
    assert server.requests == []
