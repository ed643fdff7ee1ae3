"""What storing each service call costs, counted in requests to the store."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette

from tests.integrations.agent_framework.scripted import ScriptedClient, call, run
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f
from threadkeep.integrations.agent_framework import PersistentAgent
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace
from threadkeep.transport.in_process import InProcessTransport

CALLS = 6
"""Service calls of a run, the last of which answers."""


class Counted:
    """A store whose requests are counted."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.place: Place

    async def note(self, request: httpx.Request) -> None:
        self.requests.append(f"{request.method} {request.url.path.rpartition('/sessions/')[2].partition('/')[2]}")

    @contextmanager
    def counting(self) -> Iterator[list[str]]:
        self.requests.clear()
        yield self.requests


@pytest.fixture
async def counted(app: Starlette, token: str) -> AsyncIterator[Counted]:
    made = Counted()
    async with (
        httpx.AsyncClient(transport=InProcessTransport(app), timeout=60, event_hooks={"request": [made.note]}) as http,
        DRMemoryServiceClient(endpoint="http://t/api/v2", api_token=token, http_client=http) as client,
    ):
        made.place = Place(await DRMemorySpace.post(client, deduplication_key="chats"), uuid4())
        yield made


async def requests_of_a_run(counted: Counted, at_end: bool, stream: bool) -> list[str]:
    history = counted.place.provider()
    asks = [[call(f"c{number}")] for number in range(CALLS - 1)]
    agent = PersistentAgent(
        ScriptedClient([call("c")], ["hello"], *asks, ["done"]),
        tools=[f],
        context_providers=[history],
        persist_chat_history_at_end_of_run=at_end,
    )
    session = history.create_session(f"end {at_end}")
    # A first run makes the chat and asks the service what it can do, so that only the loop is counted.
    await run(agent, "hi", session, stream=stream)
    with counted.counting() as requests:
        await run(agent, "go", session, stream=stream)
        return list(requests)


async def test_storing_each_call_adds_at_most_one_request_for_each(counted: Counted, stream: bool) -> None:
    each_call = await requests_of_a_run(counted, False, stream)
    at_end = await requests_of_a_run(counted, True, stream)
    assert len(each_call) - len(at_end) <= CALLS
    writes = [request for request in each_call if "events" in request and not request.startswith("GET")]
    assert writes == ["POST events/batch/", *["PATCH events/batch/"] * (CALLS - 1)]
    assert [request for request in at_end if "events" in request] == ["GET events/", "POST events/batch/"]


async def test_both_ways_read_the_history_once(counted: Counted, stream: bool) -> None:
    for at_end in (False, True):
        requests = await requests_of_a_run(counted, at_end, stream)
        assert [request for request in requests if request.startswith("GET")] == ["GET events/"]
