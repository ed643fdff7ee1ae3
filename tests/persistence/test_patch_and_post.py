"""Changes and appends in one request, and on a service that knows only changes."""

from typing import Any

import pytest

from tests.persistence.declared import Chat, ChatMessage
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace, DRMemoryVersionConflictError


@pytest.fixture
async def chat(space: DRMemorySpace) -> Chat:
    return await Chat.post(space, tenant="acme", topic="x", chat_id="c-1")


async def test_all_of_it_is_one_step(chat: Chat) -> None:
    one, two = await ChatMessage.post_batch(chat, [{"content": "1"}, {"content": "2"}])
    new = await ChatMessage.patch_and_post_batch(chat, [(two, {"score": 2})], [{"content": "3", "label": "c"}])
    assert [(event.sequence_id, event.content, event.label) for event in new] == [(3, "3", "c")]
    assert (two.score, [event.score for event in await ChatMessage.list(chat)][:2]) == (2.0, [one.score, 2.0])
    await new[0].patch(score=5)


async def test_where_one_has_changed_meanwhile_nothing_is_appended(chat: Chat) -> None:
    await ChatMessage.post(chat, content="1")
    (stale,), (fresh,) = await ChatMessage.list(chat), await ChatMessage.list(chat)
    await fresh.patch(score=1)
    with pytest.raises(DRMemoryVersionConflictError):
        await ChatMessage.patch_and_post_batch(chat, [(stale, {"score": 9})], [{"content": "2"}])
    assert [(event.content, event.score) for event in await ChatMessage.list(chat)] == [("1", 1.0)]


async def test_together_they_are_200_at_most(chat: Chat) -> None:
    message = await ChatMessage.post(chat, content="1")
    with pytest.raises(ValueError, match="201 events in one request; the limit is 200"):
        await ChatMessage.patch_and_post_batch(chat, [(message, {"score": 1})], [{"content": "x"}] * 200)


async def test_a_service_that_cannot_do_both_at_once_is_asked_twice(
    chat: Chat, client: DRMemoryServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await ChatMessage.post(chat, content="1")
    asked: list[tuple[str, bool]] = []
    send = client.send

    async def no_features() -> frozenset[str]:
        return frozenset()

    async def noting(call: Any) -> Any:
        asked.append((call.method, "append" in call.json))
        return await send(call)

    monkeypatch.setattr(client, "features", no_features)
    monkeypatch.setattr(client, "send", noting)
    new = await ChatMessage.patch_and_post_batch(chat, [(message, {"score": 1})], [{"content": "2"}])
    monkeypatch.undo()
    assert asked == [("PATCH", False), ("POST", False)]
    assert [event.sequence_id for event in new] == [2]
    assert [(event.content, event.score) for event in await ChatMessage.list(chat)] == [("1", 1.0), ("2", new[0].score)]
