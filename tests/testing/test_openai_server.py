"""The scripted OpenAI-compatible server, driven by OpenAI's own client."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import openai
import pytest

from threadkeep.testing.openai_server import Answer, Call, HangUp, OpenAIServer, Raw, Refusal, Reply


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
        request = urllib.request.Request(server.url + "/completions", b"{}")
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(request)
        caught.value.close()
    assert server.requests == []


def test_embeddings_come_in_order_and_are_noted(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([]) as server:
        answer = connect(server, clients).embeddings.create(model="e", input=["green tea", "green tea", "a dog"])
    vectors = [item.embedding for item in answer.data]
    assert vectors[0] == vectors[1] != vectors[2]
    assert server.embedded == [["green tea", "green tea", "a dog"]]


def test_what_is_scripted_comes_before_embeddings(clients: list[openai.OpenAI]) -> None:
    with (
        OpenAIServer([], embeddings=[Refusal(400, "no such model")]) as server,
        pytest.raises(openai.BadRequestError, match="no such model"),
    ):
        connect(server, clients).embeddings.create(model="e", input="x")


def test_a_refusal_of_the_model_is_no_content(clients: list[openai.OpenAI]) -> None:
    with OpenAIServer([Reply(refusal="I will not")], always=Reply(text=["a"])) as server:
        completions = connect(server, clients).chat.completions
        first = completions.create(model="m", messages=HELLO).choices[0].message
        others = [completions.create(model="m", messages=HELLO).choices[0].message.content for _ in range(2)]
    assert (first.content, first.refusal) == (None, "I will not")
    assert others == ["a", "a"]


def test_bodies_are_sent_as_they_are_and_connections_are_closed_without_a_word() -> None:
    with OpenAIServer([Raw(b"<html>", 502, {"Content-Type": "text/html"}), HangUp()]) as server:
        request = urllib.request.Request(server.url + "/chat/completions", b"{}")
        with pytest.raises(urllib.error.HTTPError, match="502") as caught:
            urllib.request.urlopen(request)
        assert caught.value.read() == b"<html>"
        caught.value.close()
        with pytest.raises(http.client.RemoteDisconnected):
            urllib.request.urlopen(request)
