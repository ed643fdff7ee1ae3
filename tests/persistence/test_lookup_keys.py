"""Lookup keys in the ORM, and what a service says that it has, on the real service."""

from collections.abc import Callable

import httpx
import pytest

from tests.persistence.declared import USER, Chat, ChatMessage, QuietMessage
from threadkeep.persistence import (
    DREvent,
    DRMemoryConflictError,
    DRMemoryServiceClient,
    DRMemoryServiceError,
    DRMemorySpace,
    DRMemoryUnavailableError,
)


@pytest.fixture
async def chat(space: DRMemorySpace) -> Chat:
    return await Chat.post(space, participants=[USER], tenant="acme", topic="x", chat_id="c-1")


async def test_an_event_is_found_by_its_keys_and_goes_on_as_if_it_was_listed(space: DRMemorySpace, chat: Chat) -> None:
    posted = await ChatMessage.post(chat, content="hi", lookup_keys=["a", "b"], score=0.5)
    batch = await ChatMessage.post_batch(chat, [{"content": "one", "lookup_keys": ("c",)}, {"content": "two"}])
    assert [each.event_lookup_keys for each in (posted, *batch)] == [("a", "b"), ("c",), ()]

    (found,) = await ChatMessage.find(space, "b", "x")

    assert (found.content, found.score, found.sequence_id) == ("hi", 0.5, 1)
    await found.patch(content="hello")
    assert [each.content for each in await ChatMessage.find(space, "c", "a")] == ["hello", "one"]
    assert await ChatMessage.find(space, "a", type="quiet") == []


async def test_a_patch_adds_keys_with_the_fields_or_alone(space: DRMemorySpace, chat: Chat) -> None:
    one, two = await ChatMessage.post_batch(chat, [{"content": "one"}, {"content": "two"}])

    await one.patch(content="first", lookup_keys=["a"])
    await one.patch(lookup_keys=["b"])
    await ChatMessage.patch_batch(chat, [(one, {"lookup_keys": ["c"]}), (two, {"score": 2.0, "lookup_keys": ["d"]})])

    found = await ChatMessage.find(space, "b", "d")
    assert [(each.content, each.score, each.event_lookup_keys) for each in found] == [
        ("first", 0.0, ("a", "b", "c")),
        ("two", 2.0, ("d",)),
    ]


async def test_keys_alone_send_no_body(chat: Chat) -> None:
    (message,) = await ChatMessage.post_batch(chat, [{"content": "one"}])
    assert message._changes({"lookup_keys": ["a"]}) == {"lookupKeys": ["a"]}
    assert set(message._changes({"lookup_keys": ["a"], "score": 1.0})) == {"body", "lookupKeys"}
    assert set(message._changes({"lookup_keys": []})) == {"body"}


async def test_a_key_that_is_taken_is_a_conflict_that_says_where(chat: Chat) -> None:
    await ChatMessage.post(chat, content="hi", lookup_keys=["a"])
    await QuietMessage.post(chat, content="", lookup_keys=["a"])

    with pytest.raises(DRMemoryConflictError) as refused:
        await ChatMessage.post(chat, content="again", lookup_keys=["a"])

    assert (refused.value.existing_id, refused.value.existing_sequence_id) == (chat.id, 1)


@pytest.mark.parametrize("keys", ["abc", [1], b"abc"])
async def test_keys_are_a_list_of_texts(chat: Chat, keys: object) -> None:
    with pytest.raises(TypeError, match="lookup_keys of ChatMessage is a list of texts"):
        await ChatMessage.post(chat, content="hi", lookup_keys=keys)


async def test_a_class_may_have_a_field_of_that_name(space: DRMemorySpace, chat: Chat) -> None:
    class Own(DREvent, session=Chat):
        lookup_keys: str = ""

    own = await Own.post(chat, content="hi", lookup_keys="mine")
    await own.patch(lookup_keys="ours")
    assert (own.lookup_keys, own.event_lookup_keys) == ("ours", ())


async def test_the_newest_of_many_sessions_come_in_one_request(space: DRMemorySpace, chat: Chat) -> None:
    other = await Chat.post(space, participants=[USER], tenant="acme", topic="x", chat_id="c-2")
    empty = await Chat.post(space, participants=[USER], tenant="acme", topic="x", chat_id="c-3")
    await ChatMessage.post_batch(chat, [{"content": "one"}, {"content": "two"}])
    await ChatMessage.post(other, content="three")
    await QuietMessage.post(other, content="")

    found = await ChatMessage.newest([other, empty, Chat.at(space, chat.id)], type="message")

    assert sorted(each.content for each in found) == ["three", "two"]
    await found[0].patch(score=1.0)
    with pytest.raises(ValueError, match="sessions of one space"):
        await ChatMessage.newest([])


async def test_a_session_at_an_id_is_not_read(space: DRMemorySpace, chat: Chat) -> None:
    there = Chat.at(space, chat.id)
    assert (there.id, there.memory_space) == (chat.id, space)
    await ChatMessage.post(there, content="hi")
    assert len(await ChatMessage.list(chat)) == 1


async def test_a_service_says_what_it_has_and_is_asked_once(client: DRMemoryServiceClient) -> None:
    assert {"lookupKeys", "newestEvents"} <= await client.features()
    await client.aclose()
    assert "lookupKeys" in await client.features()


def _answering(answer: Callable[[httpx.Request], httpx.Response]) -> DRMemoryServiceClient:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return DRMemoryServiceClient(endpoint="http://t.test/api/v2/", api_token="t", http_client=http)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, json={"major": 2, "minor": 49, "versionString": "2.49.0", "releasedVersion": "2.49.0"}),
        httpx.Response(200, json={"versionString": "1", "features": "lookupKeys"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(404, json={"detail": "Not Found"}),
        httpx.Response(401, json={"detail": "no"}),
    ],
)
async def test_a_service_that_says_nothing_of_features_has_none(answer: httpx.Response) -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return answer

    client = _answering(respond)
    assert await client.features() == await client.features() == frozenset()
    assert asked == ["http://t.test/api/v2/version/"]


async def test_a_service_that_fails_is_asked_again() -> None:
    answers = [
        httpx.Response(503, json={"detail": "later"}),
        httpx.Response(200, json={"versionString": "1", "features": ["lookupKeys"]}),
    ]
    client = _answering(lambda request: answers.pop(0))
    with pytest.raises(DRMemoryServiceError):
        await client.features()
    assert await client.features() == {"lookupKeys"}


async def test_a_service_that_is_not_there_is_not_one_without_features() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(DRMemoryUnavailableError, match="version/"):
        await _answering(refuse).features()
