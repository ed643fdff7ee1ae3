"""Runs on a real service that fails in the middle of them: by what it answers, by silence, by a full disk."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from starlette.applications import Starlette

from tests.chat_history.cases import history_of
from tests.chat_history.passing_clock import PassingClock
from tests.chat_history.scripts import ScriptedAgent, called, result, run_of, said, thought, until, wire_input
from tests.chat_history.stores import Store
from tests.full_disk import fill_disk, free_disk
from threadkeep.api.app import create_app
from threadkeep.chat_history import AGUIStorageAgent, RunHandle, StreamPersistenceManager
from threadkeep.persistence import DRMemoryServiceClient, DRMemoryServiceError, DRMemorySpace
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.transport.in_process import InProcessTransport

HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]
LONG = "word " * 20_000
SCRIPT = run_of(thought("z1", "hm"), said("m1", "Let me look"), called("c1"), result("c1", "4C"), said("m2", LONG))
WHOLE = [("Hello!", "complete"), ("Let me look", "complete"), (LONG, "complete")]
Fault = Callable[[httpx.Request], httpx.Response | Exception | None]


class FaultyService(httpx.AsyncBaseTransport):
    """The service, behind something that answers some of its requests in its place.

    A fault is an answer, or an error; a ReadTimeout means that the request was carried out all the same.
    """

    def __init__(self, app: Starlette) -> None:
        self._inner = InProcessTransport(app)
        self.fault: Fault = lambda request: None
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault = self.fault(request)
        if fault is not None:
            self.refused += 1
        if isinstance(fault, httpx.ReadTimeout):
            await (await self._inner.handle_async_request(request)).aread()
        if isinstance(fault, Exception):
            raise fault
        return fault or await self._inner.handle_async_request(request)


class Stand:
    """Chats on a service that may fail, on a clock that takes no time."""

    def __init__(self, service: FaultyService, store: Store, user: UUID) -> None:
        self.service, self.store, self.user = service, store, user
        self.clock = PassingClock()
        self.gate = asyncio.Event()

    async def begin(self, before: int = 12) -> RunHandle:
        """Begin a run that waits after so many events for the gate."""
        agent = ScriptedAgent([*SCRIPT[:before], self.gate, *SCRIPT[before:]])

        def make() -> AGUIStorageAgent:
            storing = AGUIStorageAgent("a", self.user, self.store.chats, self.store.messages, agent)
            storing.clock = self.clock
            return storing

        handle = await StreamPersistenceManager(make).run(wire_input(messages=HELLO))
        count = 0
        async for _ in handle.events():
            count += 1
            if count == before:
                break
        return handle

    async def go_on(self, handle: RunHandle) -> None:
        self.gate.set()
        assert len([event async for event in handle.events()]) == len(SCRIPT)
        await handle.wait()

    async def rows(self) -> list[dict[str, Any]]:
        self.service.fault = lambda request: None
        store = self.store.elsewhere()
        chat = await store.chats.get_chat_by_thread_id(self.user, "t1")
        assert chat is not None
        return history_of(await store.messages.get_chat_messages(chat.chat_uuid))

    async def brief(self) -> list[tuple[str, str]]:
        return [(row["content"], row["status"]) for row in await self.rows()]


@asynccontextmanager
async def open_stand(app: Starlette, token: str, user: UUID) -> AsyncIterator[Stand]:
    service = FaultyService(app)
    async with (
        httpx.AsyncClient(transport=service) as http,
        DRMemoryServiceClient(endpoint="http://threadkeep.test/api/v2", api_token=token, http_client=http) as client,
    ):
        yield Stand(service, Store(await DRMemorySpace.post(client, deduplication_key="chats")), user)


@pytest.fixture
async def stand(app: Starlette, token: str, user_uuid: UUID) -> AsyncIterator[Stand]:
    async with open_stand(app, token, user_uuid) as opened:
        yield opened


def answer(status: int, **headers: str) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(status, json={"detail": "not now"}, headers=headers)


FAULTS: dict[str, Callable[[], httpx.Response | Exception]] = {
    "429": answer(429, **{"Retry-After": "7"}),
    "500": answer(500),
    "503": answer(503),
    "401": answer(401),
    "no JSON": lambda: httpx.Response(502, text="<html>Bad gateway</html>"),
    "refused": lambda: httpx.ConnectError("refused"),
    "cut": lambda: httpx.ReadError("reset by peer"),
    "timed out before": lambda: httpx.ConnectTimeout("nobody answers"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_service_that_fails_for_a_minute_ends_with_the_whole_history(stand: Stand, fault: str) -> None:
    handle = await stand.begin()
    back = stand.clock.time + 60

    def fails(request: httpx.Request) -> httpx.Response | Exception | None:
        return FAULTS[fault]() if stand.clock.time < back else None

    stand.service.fault = fails
    await stand.go_on(handle)
    assert stand.service.refused > 5
    assert await stand.brief() == WHOLE
    (call,) = (await stand.rows())[1]["tool_calls"]
    assert (call["content"], call["status"]) == ("4C", "complete")


async def test_writes_that_were_carried_out_and_not_answered_are_not_stored_twice(stand: Stand) -> None:
    handle = await stand.begin()
    lost = iter([httpx.ReadTimeout("too late")] * 3)
    stand.service.fault = lambda request: next(lost, None) if "/events/" in request.url.path else None
    await stand.go_on(handle)
    assert stand.service.refused == 3
    assert await stand.brief() == WHOLE
    rows = await stand.rows()
    assert [len(row["tool_calls"]) for row in rows] == [0, 1, 0]
    assert [len(row["reasonings"]) for row in rows] == [0, 1, 0]


async def test_a_message_that_the_service_refuses_says_so_and_the_others_are_whole(stand: Stand) -> None:
    handle = await stand.begin()

    def refuse(request: httpx.Request) -> httpx.Response | None:
        return answer(413)() if b"word word" in request.content else None

    stand.service.fault = refuse
    await stand.go_on(handle)
    assert await stand.brief() == [*WHOLE[:2], ("", "errored")]
    store = stand.store.elsewhere()
    chat = await store.chats.get_chat_by_thread_id(stand.user, "t1")
    assert chat is not None
    *_, last = await store.messages.get_chat_messages(chat.chat_uuid)
    assert last.error == "The store refused this message: not now (HTTP 413)"


async def test_a_chat_that_is_deleted_while_its_run_goes_on_stays_deleted(stand: Stand) -> None:
    handle = await stand.begin()
    store = stand.store.elsewhere()
    chat = await store.chats.get_chat_by_thread_id(stand.user, "t1")
    assert chat is not None
    await store.chats.delete_chat(chat.chat_uuid)
    await stand.go_on(handle)
    assert await store.chats.get_chat_by_thread_id(stand.user, "t1") is None
    assert await store.messages.get_chat_messages(chat.chat_uuid) == []


async def test_a_service_that_cannot_be_read_refuses_the_run_and_is_never_an_empty_history(stand: Stand) -> None:
    """Field case 128."""
    handle = await stand.begin()
    await stand.go_on(handle)
    before = await stand.brief()
    chat = await stand.store.chats.get_chat_by_thread_id(stand.user, "t1")
    assert chat is not None
    stand.service.fault = lambda request: answer(503)() if request.method == "GET" else None
    with pytest.raises(DRMemoryServiceError):
        await stand.store.messages.get_chat_messages(chat.chat_uuid)
    agent = ScriptedAgent(SCRIPT)
    refused = AGUIStorageAgent("a", stand.user, stand.store.chats, stand.store.messages, agent)
    with pytest.raises(DRMemoryServiceError):
        async for _ in refused.run(wire_input(runId="r2", messages=[{"id": "u2", "role": "user", "content": "And?"}])):
            pass
    assert agent.seen == []
    assert await stand.brief() == before


async def test_a_full_disk_that_has_room_again_ends_with_the_whole_history(
    sqlite_template: Path, tmp_path: Path, user_uuid: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "threadkeep.db"
    path.write_bytes(sqlite_template.read_bytes())
    container = await Container.open(Settings(database=f"sqlite:///{path}"))
    try:
        _, token = await container.tokens.create(user="alice", name="test")
        async with open_stand(create_app(container), token, user_uuid) as stand:
            handle = await stand.begin()
            await fill_disk(container)
            stand.gate.set()
            await until(lambda: caplog.text.count("storing failed") > 3)
            assert "database or disk is full" in caplog.text
            # What is there can be read.
            assert (await stand.brief())[0] == WHOLE[0]
            assert (await stand.brief())[-1] != WHOLE[-1]
            await free_disk(container)
            await handle.wait()
            assert await stand.brief() == WHOLE
    finally:
        await container.close()
