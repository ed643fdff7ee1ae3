"""Extraction over HTTP on both sides: the API's, and that of a scripted OpenAI-compatible server."""

import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from tests.api.test_contract import USER
from tests.passing_time import load_case
from threadkeep import clock
from threadkeep.api.app import create_app
from threadkeep.api.routes.extractions import ExtractionIn, ExtractionOut
from threadkeep.contract import extractions as wire
from threadkeep.domain import memory_filter
from threadkeep.memory.endpoints import Endpoints
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import metadata
from threadkeep.testing.openai_server import Answer, OpenAIServer, Raw, Refusal, Reply, Silence
from threadkeep.transport.in_process import InProcessTransport
from threadkeep.workers.runner import model_runner_of

KEY = "sk-operators-own-key"
TEA = Reply(text=['{"memories":["likes tea"]}'])


class Scene:
    """A session in which somebody said that they like tea."""

    def __init__(self, container: Container, http: httpx.AsyncClient, space: str, session: str) -> None:
        self.container = container
        self.http = http
        self.space = space
        self.path = f"memory/{space}/sessions/{session}/extract/"
        self.session = f"memory/{space}/sessions/{session}/"

    async def ask(self, **body: Any) -> dict[str, Any]:
        answer = await self.http.post(self.path, json=body)
        assert answer.status_code == 202, answer.text
        stands: dict[str, Any] = answer.json()
        return stands

    async def stands(self) -> dict[str, Any]:
        stands: dict[str, Any] = (await self.http.get(self.path)).json()
        return stands

    async def work(self, seconds_from_now: float = 0) -> int:
        return await model_runner_of(self.container).run_due(clock.now() + int(seconds_from_now * 1_000_000))

    async def memories(self) -> list[str]:
        alice = await self.container.tokens.local_principal("alice")
        found, _ = await self.container.memories.page(alice, self.space, memory_filter.EVERYTHING)
        return [memory.text for memory in found]


@asynccontextmanager
async def scene_on(
    database: str, server: OpenAIServer, *, space: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Scene]:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    wanted = {"llm_base_url": server.url, "llm_model": "m-1", "llm_api_key": KEY, "llm_timeout": 1}
    known = Settings(database=database, **{**wanted, **settings})
    container = await Container.open(known, models=Endpoints(known, pause=pause))
    try:
        _, secret = await container.tokens.create(user="alice", name="t")
        async with httpx.AsyncClient(
            transport=InProcessTransport(create_app(container)),
            timeout=60,
            base_url="http://threadkeep.test/api/v2",
            headers={"Authorization": f"Bearer {secret}"},
        ) as http:
            made = (await http.post("memory/new/", json=space or {})).json()["memorySpaceId"]
            session = (await http.post(f"memory/{made}/sessions/", json={"participants": [USER]})).json()["id"]
            scene = Scene(container, http, made, session)
            said = {"body": {"content": "I like tea"}, "emitter": {"type": "user", "id": USER}}
            await http.post(f"{scene.session}events/", json=said)
            yield scene
    finally:
        await container.close()


def test_the_keys_of_the_wire_are_those_of_the_contract() -> None:
    for struct, typed in ((ExtractionIn, wire.NewExtraction), (ExtractionOut, wire.Extraction)):
        assert [field.encode_name for field in msgspec.structs.fields(struct)] == list(typed.__annotations__)


async def test_an_extraction_is_asked_for_done_and_told(database: str) -> None:
    with OpenAIServer([TEA]) as server:
        async with scene_on(database, server) as scene:
            before = await scene.stands()
            asked = await scene.ask(agentId="bot", metadata={"n": 1})
            await scene.work()
            done = await scene.stands()
            assert await scene.memories() == ["likes tea"]
            assert (await scene.http.get(scene.session)).status_code == 200

    assert before == {
        "state": "none",
        "summary": "none",
        "memories": 0,
        "attempts": 0,
        "error": None,
        "lastSequenceId": 0,
        "requestedAt": None,
        "updatedAt": None,
    }
    assert (asked["state"], asked["lastSequenceId"]) == ("pending", 0)
    assert (done["state"], done["summary"], done["memories"], done["lastSequenceId"]) == (
        "extracted",
        "extracted 1",
        1,
        1,
    )
    assert done["requestedAt"] == asked["requestedAt"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_a_session_is_deleted_after_its_extraction_where_that_is_asked_for(database: str) -> None:
    with OpenAIServer([TEA]) as server:
        async with scene_on(database, server) as scene:
            await scene.ask(softDelete=True)
            assert (await scene.http.get(scene.session)).status_code == 200
            await scene.work()
            assert (await scene.http.get(scene.session)).status_code == 404
            assert (await scene.stands())["state"] == "extracted"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"metadata": [1]}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"agentId": "x" * 257}, "agentId"),
        ({"agentId": 7}, "agentId"),
        ({"softDelete": "yes"}, "softDelete"),
    ],
)
async def test_what_breaks_a_rule_is_422_and_asks_for_nothing(database: str, body: Any, place: str) -> None:
    with OpenAIServer([]) as server:
        async with scene_on(database, server) as scene:
            answer = await scene.http.post(scene.path, json=body)
            assert answer.status_code == 422
            assert answer.json()["detail"][0]["loc"] == ["body", place]
            assert (await scene.stands())["state"] == "none"


async def test_asking_twice_with_one_key_asks_once(database: str) -> None:
    with OpenAIServer([TEA]) as server:
        async with scene_on(database, server) as scene:
            first = await scene.http.post(scene.path, json={}, headers={"Idempotency-Key": "k-1"})
            await scene.work()
            again = await scene.http.post(scene.path, json={}, headers={"Idempotency-Key": "k-1"})
            assert (first.status_code, again.status_code, again.json()) == (202, 202, first.json())


def _reply(scripted: Any) -> Reply:
    if isinstance(scripted, str):
        return Reply(text=[scripted])
    return Reply(text=[scripted["content"]], reasoning=[scripted["reasoning_content"]])


CASE_118 = load_case("118-extraction-llm-messy-json")["input"]["llm_replies"]


@pytest.mark.parametrize("number", range(len(CASE_118)))
async def test_case_118_messy_answers_store_one_memory_or_are_a_failed_attempt(database: str, number: int) -> None:
    with OpenAIServer([], always=_reply(CASE_118[number])) as server:
        async with scene_on(database, server, llm_attempts=3) as scene:
            await scene.ask()
            await scene.work()
            first = await scene.stands()
            for minutes in range(1, 6):
                await scene.work(minutes * 600)
            last = await scene.stands()
            memories = await scene.memories()

    if number < 4:
        assert (first["state"], memories) == ("extracted", ["likes tea"])
        assert len(server.requests) == 1
    else:
        assert (first["state"], first["attempts"], first["lastSequenceId"]) == ("pending", 1, 0)
        assert (last["state"], last["attempts"], last["lastSequenceId"]) == ("failed", 3, 0)
        assert last["summary"].startswith("failed: The model")
        assert memories == []
        assert len(server.requests) == 3


async def test_case_119_a_model_that_fails_in_every_way_gives_one_memory_in_the_end(database: str) -> None:
    shapes: dict[str, Answer] = {
        "HTTP 500": Refusal(500, "oops"),
        "timeout": Silence(),
        "HTTP 429 Retry-After: 5": Refusal(429, "slow down", {"Retry-After": "5"}),
        "HTTP 400 response_format not supported": Refusal(400, "response_format is not supported"),
    }
    replies = load_case("119-extraction-llm-unavailable")["input"]["llm_replies"]
    answers = [shapes.get(reply, Reply(text=[reply])) for reply in replies]
    with OpenAIServer(answers) as server:
        async with scene_on(database, server) as scene:
            await scene.ask()
            await scene.work()
            between = await scene.stands()
            assert await scene.work(4) == 0, "the endpoint wants to be left alone"
            await scene.work(8)
            await scene.ask()
            await scene.work(8)
            memories = await scene.memories()

    assert (between["state"], between["attempts"]) == ("pending", 1)
    assert "answered 429" in between["summary"]
    assert memories == ["x"]
    assert ["response_format" in request for request in server.requests] == [True] * 4 + [False]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(text=['{"memories":["likes tea"]}'], streams=True),
        Reply(text=['{"facts":[{"fact":"likes tea",}]}']),
    ],
)
async def test_other_shapes_of_answers_store_one_memory(database: str, answer: Answer) -> None:
    with OpenAIServer([answer]) as server:
        async with scene_on(database, server) as scene:
            await scene.ask()
            await scene.work()
            assert await scene.memories() == ["likes tea"]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([Reply(refusal="I will not")], "The model refused to answer"),
        ([Reply(text=['{"memories":["likes'], streams=True, cut=True)] * 3, "127.0.0.1"),
        ([Raw(b"{oh")], "127.0.0.1 answered with something other than a JSON object"),
        ([Raw(b"")], "127.0.0.1 answered with something other than a JSON object"),
    ],
)
async def test_what_is_no_answer_stores_nothing_and_is_told(
    database: str, answers: Sequence[Answer], told: str
) -> None:
    with OpenAIServer(answers, always=Refusal(500, "beyond")) as server:
        async with scene_on(database, server) as scene:
            await scene.ask()
            await scene.work()
            stands = await scene.stands()
            assert await scene.memories() == []
    assert (stands["state"], stands["attempts"]) == ("pending", 1)
    assert told in stands["summary"] or "500" in stands["summary"]


async def test_nothing_to_note_is_told_as_such(database: str) -> None:
    with OpenAIServer([Reply(text=['{"memories":[]}'])]) as server:
        async with scene_on(database, server) as scene:
            await scene.ask()
            await scene.work()
            assert (await scene.stands())["summary"] == "nothing found"


async def test_a_space_names_its_own_model_and_instructions(database: str) -> None:
    with OpenAIServer([TEA]) as server:
        space = {"llmModelName": "m-of-the-space", "customInstructions": "Only drinks."}
        async with scene_on(database, server, space=space) as scene:
            await scene.ask()
            await scene.work()
    (request,) = server.requests
    assert request["model"] == "m-of-the-space"
    assert "Only drinks." in request["messages"][0]["content"]


async def test_a_space_that_names_another_endpoint_reaches_it_only_where_the_operator_allows(database: str) -> None:
    with OpenAIServer([TEA]) as own, OpenAIServer([TEA]) as theirs:
        space = {"llmBaseUrl": theirs.url}
        async with scene_on(database, own, space=space) as scene:
            await scene.ask()
            await scene.work()
            refused = await scene.stands()
        assert (own.requests, theirs.requests) == ([], [])
        permitted = {"llm_allowed_hosts": "127.0.0.1:*", "llm_allowed_networks": "127.0.0.0/8"}
        async with scene_on(database, own, space=space, **permitted) as scene:
            await scene.ask()
            await scene.work()
            assert await scene.memories() == ["likes tea"]

    assert refused["state"] == "failed"
    assert "THREADKEEP_LLM_ALLOWED_HOSTS" in refused["summary"]
    assert "authorization" not in theirs.headers[0], "the operator's key is for the operator's endpoint alone"


async def test_the_key_is_neither_stored_nor_logged_nor_told(database: str, caplog: pytest.LogCaptureFixture) -> None:
    quoting = Raw(json.dumps({"error": {"message": f"bad key {KEY}", "code": KEY}}).encode(), 401)
    with caplog.at_level(logging.DEBUG), OpenAIServer([quoting, TEA]) as server:
        async with scene_on(database, server) as scene:
            await scene.ask()
            await scene.work()
            failed = await scene.stands()
            await scene.ask()
            await scene.work()
            assert await scene.memories() == ["likes tea"]
            told = [failed, await scene.stands(), (await scene.http.get(f"memory/{scene.space}/")).json()]
            stored = [
                str(list(map(tuple, await scene.container.database.read(_all(Statement(table.select()))))))
                for table in metadata.sorted_tables
            ]

    assert failed["state"] == "failed"
    assert "401" in failed["summary"]
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    assert KEY not in json.dumps(told)
    assert "likes tea" in "".join(stored)
    assert KEY not in "".join(stored)


def _all(statement: Any) -> Any:
    def operation() -> Any:
        return (yield statement, {})

    return operation
