"""The clients against a server in a process of its own, as an application uses them."""

import asyncio

import pytest

from tests.conftest import Server
from tests.persistence.declared import USER, Chat, ChatMessage
from threadkeep.errors import ServerError
from threadkeep.models import client as connection
from threadkeep.models.memory import MemorySpace, Session
from threadkeep.persistence import (
    DRMemoryServiceClient,
    DRMemoryServiceError,
    DRMemorySpace,
    DRMemoryUnavailableError,
)


@pytest.fixture
def configured(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The variables that an application written for the hosted service sets."""
    for name in ("THREADKEEP_ENDPOINT", "THREADKEEP_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATAROBOT_ENDPOINT", f"{server.url}/api/v2")
    monkeypatch.setenv("DATAROBOT_API_TOKEN", server.token)
    return server


async def test_forty_writers_over_sockets_give_forty_numbers_without_a_gap(configured: Server) -> None:
    async with DRMemoryServiceClient() as client:
        space = await DRMemorySpace.post(client, deduplication_key="app")
        chat = await Chat.post(space, participants=[USER], tenant="acme", topic="x", chat_id="c-1")
        messages = await asyncio.gather(
            *(ChatMessage.post(chat, content=f"{n}", emitter_type="user", emitter_id=USER) for n in range(40))
        )
        assert sorted(message.sequence_id for message in messages) == list(range(1, 41))
        listed = await ChatMessage.list(chat)
    assert [message.sequence_id for message in listed] == list(range(1, 41))
    assert {message.content for message in listed} == {f"{n}" for n in range(40)}


async def test_a_killed_server_is_never_an_empty_history_and_loses_nothing(configured: Server) -> None:
    """Field case 128."""
    async with DRMemoryServiceClient() as client:
        space = await DRMemorySpace.post(client, deduplication_key="app")
        chat = await Chat.post(space, tenant="acme", topic="x", chat_id="c-1", title="Hello")
        message = await ChatMessage.post(chat, content="before\x00\ud83d", score=0.5)
        configured.kill()
        for read in (
            Chat.list(space),
            Chat.get(space, chat_id="c-1"),
            ChatMessage.list(chat),
            ChatMessage.post(chat, content="x"),
        ):
            with pytest.raises(DRMemoryUnavailableError) as raised:
                await read
            assert raised.value.__cause__ is not None
        configured.restart()
        again = await Chat.get(space, chat_id="c-1")
        assert (again.id, again.title) == (chat.id, "Hello")
        (kept,) = await ChatMessage.list(again)
        assert (kept.content, kept.created_at) == ("before\x00\ud83d", message.created_at)
        await message.patch(content="after")
        assert (await ChatMessage.post(chat, content="next")).sequence_id == 2


async def test_an_unknown_token_is_refused(configured: Server) -> None:
    async with DRMemoryServiceClient(api_token="somebody") as client:
        with pytest.raises(DRMemoryServiceError) as raised:
            await DRMemorySpace.list(client)
    assert raised.value.status_code == 401


def test_the_synchronous_sdk_takes_its_connection_from_the_environment(
    configured: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_default", None)
    space = MemorySpace.create(description="My app", deduplication_key="app")
    session = Session.create(space.id, participants=[USER], metadata={"someKey": 1})
    session.post_event(body={"content": "Hi"}, emitter={"type": "user", "id": USER}, event_type="message")
    try:
        assert [event.body for event in Session.get(space.id, session.id).events(last_n=5)] == [{"content": "Hi"}]
        configured.kill()
        with pytest.raises(ServerError):
            session.events()
    finally:
        connection.default_client().close()
