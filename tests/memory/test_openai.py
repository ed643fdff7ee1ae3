"""Chat models and embedders behind a real HTTP server that speaks OpenAI's wire."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from threadkeep.errors import ModelFailed
from threadkeep.memory.endpoint import Endpoint
from threadkeep.memory.openai import OpenAIChat, OpenAIEmbedder
from threadkeep.memory.ports import ChatMessage
from threadkeep.testing.embedder import vector_of
from threadkeep.testing.openai_server import Answer, HangUp, OpenAIServer, Raw, Refusal, Reply, Silence

ASKED = [ChatMessage("system", "Find facts."), ChatMessage("user", "I like tea.")]
SCHEMA = {"type": "object", "properties": {"memories": {"type": "array"}}, "required": ["memories"]}
TEA = {"memories": ["likes tea"]}
GOOD = Reply(text=['{"memories":', '["likes tea"]}'])


class Pauses:
    """Waits that take no time, and how long they would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@asynccontextmanager
async def chat_on(server: OpenAIServer, pause: Pauses | None = None, **options: Any) -> AsyncIterator[OpenAIChat]:
    endpoint = Endpoint(server.url, "sk-secret-key", pause=pause or Pauses(), **options)
    try:
        yield OpenAIChat(endpoint, "m-1")
    finally:
        await endpoint.close()


async def ask(answers: Sequence[Answer], pause: Pauses | None = None, **options: Any) -> dict[str, Any]:
    with OpenAIServer(answers) as server:
        async with chat_on(server, pause, **options) as model:
            return await model.complete(ASKED, SCHEMA)


async def test_a_model_is_asked_for_json_by_the_schema_and_with_the_key() -> None:
    with OpenAIServer([GOOD]) as server:
        async with chat_on(server) as model:
            assert await model.complete(ASKED, SCHEMA) == TEA

    assert server.headers[0]["authorization"] == "Bearer sk-secret-key"
    assert server.requests == [
        {
            "model": "m-1",
            "messages": [
                {"role": "system", "content": "Find facts."},
                {"role": "user", "content": "I like tea."},
            ],
            "temperature": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
            },
        }
    ]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text=['{"memories":["li', 'kes tea"]}'], streams=True),
        Reply(text=['Sure: ```json\n{"memories":["likes tea"],}\n```']),
        Reply(text=['{"memories":["likes tea"]}'], reasoning=["let me think"]),
        Raw(
            json.dumps(
                {"choices": [{"message": {"content": [{"type": "text", "text": '{"memories":["likes tea"]}'}]}}]}
            ).encode()
        ),
    ],
)
async def test_an_answer_is_taken_in_whatever_form_it_comes(reply: Answer) -> None:
    assert await ask([reply]) == TEA


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Reply(refusal="I cannot do that"), "refused to answer"),
        (Reply(text=['{"memories":[]}'], finish_reason="content_filter"), "refused to answer"),
        (Reply(text=['{"memories":[]}'], finish_reason="length"), "cut off at its greatest length"),
        (Reply(text=['{"memories":["likes tea"'], streams=True, cut=True), "broke off|cannot be reached"),
        (Reply(), "answered nothing"),
        (Reply(reasoning=['{"memories":["likes tea"]}']), "answered nothing"),
        (Reply(text=["I do not know"]), "holds no JSON object"),
        (Raw(b"<html>"), "something other than a JSON object"),
        (Raw(b""), "something other than a JSON object"),
        (Raw(b"[]"), "something other than a JSON object"),
        (Raw(b"{}"), "without a message"),
        (Raw(b'{"choices":[null]}'), "without a message"),
        (Raw(b'{"choices":[{"message":{"content":12}}]}'), "answered nothing"),
        (Raw(b'data: {"error":{"message":"x"}}\n\n', 200, {"Content-Type": "text/event-stream"}), "in the middle"),
        (Raw(b'data: {"choices":[7]}\n\n', 200, {"Content-Type": "text/event-stream"}), "other than pieces of text"),
        (Raw(b"data: {oh", 200, {"Content-Type": "text/event-stream"}), "something other than a JSON object"),
        (Raw(b"", 302, {"Location": "http://127.0.0.1/"}), "redirects are not followed"),
        (HangUp(), "cannot be reached"),
    ],
)
async def test_what_is_no_answer_is_told_as_such(answer: Answer, message: str) -> None:
    with pytest.raises(ModelFailed, match=message):
        await ask([answer], retries=0)


async def test_silence_ends_with_the_time_that_a_request_may_take() -> None:
    with pytest.raises(ModelFailed, match=r"127.0.0.1 gave no answer within 0.2 s"):
        await ask([Silence()], retries=0, timeout=0.2)


class Scripted(httpx.AsyncBaseTransport):
    """Answers that begin at once and go on when the test lets them; knows how many are open."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.open = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.open += 1
        return httpx.Response(200, content=self._content())

    async def _content(self) -> AsyncIterator[bytes]:
        yield b"{"
        await self.go_on.wait()
        self.open -= 1
        yield b"}"


async def test_an_answer_that_begins_and_does_not_end_takes_no_longer_than_it_may() -> None:
    endpoint = Endpoint("http://models", transport=Scripted(), timeout=0.01, retries=0)

    async with asyncio.timeout(10):
        with pytest.raises(ModelFailed, match=r"models gave no answer within 0.01 s"):
            await endpoint.post("/chat/completions", {})
    await endpoint.close()


async def test_what_waits_for_its_turn_is_not_asked_yet() -> None:
    transport = Scripted()
    endpoint = Endpoint("http://models", transport=transport, at_once=2)
    asked = [asyncio.create_task(endpoint.post("/chat/completions", {})) for _ in range(5)]
    for _ in range(100):
        await asyncio.sleep(0)

    assert transport.open == 2
    transport.go_on.set()
    assert await asyncio.gather(*asked) == [{}] * 5
    await endpoint.close()


async def test_passing_failures_are_asked_again_later_and_later() -> None:
    pauses = Pauses()

    assert await ask([Refusal(500, "oops"), HangUp(), GOOD], pauses) == TEA

    first, second = pauses.seconds
    assert 0.5 <= first <= 0.75
    assert 1.0 <= second <= 1.5


async def test_an_endpoint_is_left_alone_for_as_long_as_it_says() -> None:
    pauses = Pauses()
    answers = [Refusal(429, "slow down", {"Retry-After": "5"}), Refusal(503, "soon", {"Retry-After": "0.25"}), GOOD]

    assert await ask(answers, pauses) == TEA

    assert pauses.seconds == [5.0, 0.25]


async def test_whoever_asks_is_told_where_an_endpoint_wants_to_be_left_alone_for_long() -> None:
    pauses = Pauses()
    with pytest.raises(ModelFailed, match=r"answered 429: too many requests") as caught:
        await ask([Refusal(429, "slow down", {"Retry-After": "120"}), GOOD], pauses)
    assert (caught.value.retry_after, caught.value.is_final, pauses.seconds) == (120.0, False, [])


async def test_a_date_to_come_back_at_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadkeep.memory.endpoint.clock.now", lambda: 1_795_953_600_000_000)
    with pytest.raises(ModelFailed) as caught:
        await ask([Refusal(503, "later", {"Retry-After": "Sun, 29 Nov 2026 12:01:30 GMT"})])
    assert caught.value.retry_after == 90.0
    with pytest.raises(ModelFailed) as caught:
        await ask([Refusal(503, "later", {"Retry-After": "whenever"})], retries=0)
    assert caught.value.retry_after is None


@pytest.mark.parametrize(("status", "meaning"), [(401, "the key is missing or wrong"), (404, "no such model or path")])
async def test_what_will_not_change_is_not_asked_again(status: int, meaning: str) -> None:
    with OpenAIServer([Refusal(status, "no"), GOOD]) as server:
        async with chat_on(server) as model:
            with pytest.raises(ModelFailed, match=f"{status}: .*{meaning}") as caught:
                await model.complete(ASKED, SCHEMA)
    assert caught.value.is_final
    assert len(server.requests) == 1


async def test_an_endpoint_without_schemas_is_asked_plainly_and_never_again_with_one() -> None:
    with OpenAIServer([Refusal(400, "response_format is not supported"), GOOD, GOOD]) as server:
        async with chat_on(server) as model:
            assert await model.complete(ASKED, SCHEMA) == TEA
            assert await model.complete(ASKED, SCHEMA) == TEA
    assert ["response_format" in request for request in server.requests] == [True, False, False]
    assert [request["temperature"] for request in server.requests] == [0, 0, 0]


async def test_a_model_without_temperature_is_asked_without_and_keeps_its_schema() -> None:
    with OpenAIServer([Refusal(400, "Unsupported value: 'temperature'"), GOOD, GOOD]) as server:
        async with chat_on(server) as model:
            assert await model.complete(ASKED, SCHEMA) == TEA
            assert await model.complete(ASKED, SCHEMA) == TEA
    assert ["temperature" in request for request in server.requests] == [True, False, False]
    assert all("response_format" in request for request in server.requests)


async def test_a_request_that_is_refused_however_it_is_put_fails_for_good() -> None:
    with OpenAIServer([Refusal(400, "too long")] * 3) as server:
        async with chat_on(server) as model:
            with pytest.raises(ModelFailed, match=r"answered 400: it refused \(scripted\)") as caught:
                await model.complete(ASKED, SCHEMA)
    assert caught.value.is_final
    assert len(server.requests) == 3


async def test_an_answer_without_end_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadkeep.memory.endpoint._MOST_BYTES", 1_000)
    with pytest.raises(ModelFailed, match="more than 1,000 bytes"):
        await ask([Reply(text=["x" * 2_000])])


async def test_no_more_requests_are_open_at_once_than_may_be() -> None:
    import threading

    lock, together, most = threading.Lock(), 0, 0

    def count(body: Any) -> Reply:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        barrier.wait()
        with lock:
            together -= 1
        return GOOD

    barrier = threading.Barrier(2)
    with OpenAIServer([], always=count) as server:
        async with chat_on(server, at_once=2) as model:
            await asyncio.gather(*[model.complete(ASKED, SCHEMA) for _ in range(8)])
    assert most == 2


async def test_neither_key_nor_words_nor_the_endpoints_prose_are_told(caplog: pytest.LogCaptureFixture) -> None:
    error = {"error": {"message": "Incorrect API key provided: sk-secret-key", "code": "sk-secret-key of you"}}
    answers = [Raw(json.dumps(error).encode(), status) for status in (500, 401)] + [Raw(b"sk-secret-key", 503), GOOD]
    with caplog.at_level(logging.DEBUG), OpenAIServer(answers) as server:
        async with chat_on(server) as model:
            with pytest.raises(ModelFailed) as caught:
                await model.complete(ASKED, SCHEMA)
            assert await model.complete(ASKED, SCHEMA) == TEA
    assert "asking 127.0.0.1 again" in caplog.text
    for told in (caplog.text, str(caught.value), repr(caught.value)):
        assert "secret" not in told
        assert "tea" not in told
        assert "Incorrect" not in told


async def test_a_base_url_may_name_the_path_of_the_chat_itself() -> None:
    with OpenAIServer([GOOD]) as server:
        endpoint = Endpoint(f"{server.url}/chat/completions/", None)
        assert await OpenAIChat(endpoint, "m").complete(ASKED, SCHEMA) == TEA
        await endpoint.close()
    assert "authorization" not in server.headers[0]


async def embed(answers: Sequence[Any], texts: list[str]) -> list[Any]:
    with OpenAIServer([], embeddings=answers) as server:
        endpoint = Endpoint(server.url, "k", retries=0)
        try:
            return await OpenAIEmbedder(endpoint, "e-1").embed(texts)
        finally:
            await endpoint.close()


async def test_texts_are_embedded_in_order_and_many_at_once() -> None:
    texts = [f"text {number}" for number in range(200)] + [""]
    with OpenAIServer([]) as server:
        endpoint = Endpoint(server.url, "k")
        embedder = OpenAIEmbedder(endpoint, "e-1")
        assert embedder.dimensions is None
        vectors = await embedder.embed(texts)
        assert await embedder.embed([]) == []
        await endpoint.close()

    assert [round(value, 6) for value in vectors[7]] == [round(value, 6) for value in vector_of("text 7")]
    assert vectors[7].typecode == "f"
    assert embedder.dimensions == len(vectors[7]) == 256
    assert [len(some) for some in server.embedded] == [96, 96, 9]
    assert server.embedded[2][-1] == " "


async def test_vectors_have_length_1_whatever_the_endpoint_sends() -> None:
    data = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]
    first, second = await embed([Raw(json.dumps({"data": data}).encode())], ["a", "b"])
    assert [round(value, 6) for value in first] == [0.6, 0.8]
    assert list(second) == [0.0, 1.0]


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"embedding": [1.0]}, {"embedding": [1.0]}],
        [{"embedding": "AAAA"}],
        [{"embedding": [0.0, 0.0]}],
        [{"embedding": [1e39]}],
        [{}],
        [7],
    ],
)
async def test_what_are_no_vectors_is_told_as_such(data: list[Any]) -> None:
    with pytest.raises(ModelFailed, match=r"did not answer with 1 vectors|other than vectors"):
        await embed([Raw(json.dumps({"data": data}).encode())], ["a"])


async def test_a_vector_of_another_length_is_refused() -> None:
    data = [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [1]}]
    with pytest.raises(ModelFailed, match="1 values came where 2 were expected"):
        await embed([Raw(json.dumps({"data": data}).encode())], ["a", "b"])
