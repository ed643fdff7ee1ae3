"""Extraction in a real server with a scripted model over real HTTP: killed in the middle, and stopped in the middle."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from tests.conftest import Server
from threadkeep.domain.job import EXTRACTION
from threadkeep.storage.database import open_database
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import jobs
from threadkeep.testing.openai_server import OpenAIServer, Refusal, Reply

TEA = Reply(text=['{"memories":[{"text":"Likes tea","sources":[1],"categories":[]}]}'])
_PATIENCE = 60
_RUN_OUT = Statement(update(jobs).where(jobs.c.kind == EXTRACTION).values(claimed_until=0, due_at=0))


class Thinking:
    """The answer of a model that thinks until the test is over; `asked` says that it does."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.over = threading.Event()

    def __call__(self, body: Any) -> Refusal:
        self.asked.set()
        self.over.wait(_PATIENCE)
        return Refusal(500, "nobody listens any more")


@pytest.fixture
def thinking() -> Iterator[Thinking]:
    found = Thinking()
    yield found
    found.over.set()


@pytest.fixture
def model(thinking: Thinking) -> Iterator[OpenAIServer]:
    """Thinks at the first request, and answers all others."""
    with OpenAIServer([thinking], always=TEA) as running:
        yield running
        thinking.over.set()


@pytest.fixture
def serving(database: str, model: OpenAIServer) -> Iterator[Server]:
    running = Server(database, "--llm-base-url", model.url, "--llm-model", "m", "--llm-timeout", str(_PATIENCE))
    try:
        yield running
    finally:
        running.kill()


class Talk:
    """A session of a person who likes tea, which is to be deleted when its memories are extracted."""

    def __init__(self, server: Server) -> None:
        self._server = server
        space = self.call("POST", "memory/new/", json={}).json()["memorySpaceId"]
        self.space = f"memory/{space}/"
        strategies = [{"type": "extract_memories", "trigger": {"eventCount": 1}}]
        made = {"participants": ["ann"], "lifecycleStrategies": strategies}
        session = self.call("POST", f"{self.space}sessions/", json=made).json()["id"]
        self.session = f"{self.space}sessions/{session}/"
        said = {"body": {"content": "I like tea"}, "emitter": {"type": "user", "id": "ann"}}
        self.call("POST", f"{self.session}events/", json=said)

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._server.token}"}
        return httpx.request(method, f"{self._server.url}/api/v2/{path}", headers=headers, timeout=_PATIENCE, **options)

    def until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask how the extraction stands until it is so. The number is there so that a loss of the feature ends this."""
        for _ in range(100_000):
            stands: dict[str, Any] = self.call("GET", f"{self.session}extract/").json()
            if is_so(stands):
                return stands
        raise AssertionError(stands)

    def memories(self) -> list[str]:
        found = self.call("GET", f"{self.space}v1/memories/", params={"user_id": "ann"}).json()
        items = found["results"] if isinstance(found, dict) else found
        return [item["memory"] for item in items]


async def let_leases_run_out(database: str) -> None:
    """As if the time had passed for which a killed worker holds its job."""
    opened = await open_database(database)

    def operation() -> Steps[None]:
        yield _RUN_OUT, {}

    try:
        await opened.write(operation)
    finally:
        await opened.close()


def test_a_worker_killed_in_the_middle_of_an_extraction_leaves_it_to_be_done_once(
    serving: Server, database: str, model: OpenAIServer, thinking: Thinking
) -> None:
    talk = Talk(serving)
    assert thinking.asked.wait(_PATIENCE)
    assert talk.until(lambda stands: stands["state"] == "running")["lastSequenceId"] == 0

    serving.kill()
    asyncio.run(let_leases_run_out(database))
    serving.start()
    done = talk.until(lambda stands: stands["state"] not in ("pending", "running"))

    assert done["summary"] == "extracted 1"
    assert talk.memories() == ["Likes tea"]
    assert talk.call("GET", talk.session).status_code == 404
    assert len(model.requests) == 2
    # Nothing is left to do, however often somebody looks.
    serving.restart()
    assert talk.memories() == ["Likes tea"]
    assert len(model.requests) == 2


def test_a_server_that_is_stopped_does_not_wait_for_a_model_and_its_successor_goes_on(
    serving: Server, model: OpenAIServer, thinking: Thinking
) -> None:
    talk = Talk(serving)
    assert thinking.asked.wait(_PATIENCE)

    serving.stop()
    assert serving.returncode == 0
    serving.start()
    done = talk.until(lambda stands: stands["state"] not in ("pending", "running"))

    assert (done["summary"], done["attempts"]) == ("extracted 1", 0)
    assert talk.memories() == ["Likes tea"]
    assert len(model.requests) == 2
