"""A whole history: in one request from Threadkeep, by pages from a service that knows no more than those."""

from typing import Any

import httpx
import pytest

from tests.persistence.declared import Chat, ChatMessage
from threadkeep.persistence import DRMemoryNotFoundError, DRMemoryServiceClient, DRMemorySpace, DRMemoryUnavailableError

COUNT = 250


@pytest.fixture(params=["at once", "by pages"])
async def chat(client: DRMemoryServiceClient, space: DRMemorySpace, request: pytest.FixtureRequest) -> Chat:
    if request.param == "by pages":
        client._features = frozenset()
    chat = await Chat.post(space, tenant="acme", topic="x", chat_id="c-1")
    events: list[dict[str, Any]] = [{"content": f"\ud83d {n}\n"} for n in range(1, COUNT + 1)]
    for start in (0, 200):
        await ChatMessage.post_batch(chat, events[start : start + 200])
    return chat


async def test_all_events_come_in_order(chat: Chat) -> None:
    found = await ChatMessage.history(chat)

    assert [event.sequence_id for event in found] == list(range(1, COUNT + 1))
    assert [event.content for event in found] == [f"\ud83d {n}\n" for n in range(1, COUNT + 1)]
    await found[7].patch(score=1)
    assert (await ChatMessage.list(chat, offset=7, limit=1))[0].score == 1


async def test_only_what_is_asked_for_comes(chat: Chat) -> None:
    behind = await ChatMessage.history(chat, after=COUNT - 2)
    other = await ChatMessage.history(chat, type="other")

    assert [event.sequence_id for event in behind] == [COUNT - 1, COUNT]
    assert other == []


async def test_a_session_that_is_gone_has_no_empty_history(chat: Chat) -> None:
    await chat.delete()
    with pytest.raises(DRMemoryNotFoundError):
        await ChatMessage.history(chat)


@pytest.mark.parametrize("line", ['{"sequenceId": 2, "bo', '{"other": 1}', "<html>"])
async def test_a_line_that_is_no_event_is_said(line: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/version/"):
            return httpx.Response(
                200, json={"major": 1, "minor": 0, "versionString": "1.0", "features": ["wholeHistory"]}
            )
        if request.url.path.endswith("/history/"):
            return httpx.Response(200, content=f'{{"sequenceId":1}}\n{line}\n')
        return httpx.Response(200, json={"memorySpaceId": "s", "id": "s"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http_client:
        client = DRMemoryServiceClient(endpoint="http://t.test", api_token="t", http_client=http_client)
        session = Chat.at(await DRMemorySpace.get(client, "s"), "s")
        with pytest.raises(DRMemoryUnavailableError, match="history"):
            await ChatMessage.history(session)
