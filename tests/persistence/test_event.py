"""Events as typed log entries, on the real service."""

import asyncio

import pytest

from tests.persistence.declared import USER, Chat, ChatMessage, Note, QuietMessage, Tag
from threadkeep.persistence import (
    DREvent,
    DRMemoryBadRequestError,
    DRMemoryNotFoundError,
    DRMemoryServiceClient,
    DRMemorySpace,
    DRMemoryValidationError,
    DRMemoryVersionConflictError,
)


@pytest.fixture
async def chat(space: DRMemorySpace) -> Chat:
    return await Chat.post(space, participants=[USER], tenant="acme", topic="x", chat_id="c-1")


class Everything(DREvent, session=Chat):
    __event_type__ = None


async def test_an_event_comes_back_with_every_field_typed(chat: Chat) -> None:
    posted = await ChatMessage.post(
        chat, content="hi\x00\ud83d", emitter_type="user", emitter_id=USER, score=1, tags=[Tag(name="t")]
    )
    for message in (posted, *await ChatMessage.list(chat), *await ChatMessage.last(chat, n=1)):
        assert (message.content, message.score, message.label) == ("hi\x00\ud83d", 1.0, None)
        assert (message.tags, message.emitter_type, message.emitter_id) == ([Tag(name="t")], "user", USER)
        assert (message.sequence_id, message.event_type) == (1, "message")
        assert message.created_at.tzinfo is not None


async def test_events_are_listed_by_their_label(chat: Chat) -> None:
    await ChatMessage.post(chat, content="one")
    await QuietMessage.post(chat, content="")
    await ChatMessage.post(chat, content="two")
    await Everything.post(chat, content="three")
    assert [event.content for event in await ChatMessage.list(chat, type="message")] == ["one", "two"]
    assert [event.content for event in await QuietMessage.list(chat, type="quiet")] == [""]
    assert [event.content for event in await ChatMessage.list(chat, type="quiet")] == ["\u200b"]
    assert [event.content for event in await ChatMessage.last(chat, n=1, type="message")] == ["two"]


async def test_without_a_label_all_events_are_listed(chat: Chat) -> None:
    await ChatMessage.post(chat, content="one")
    await QuietMessage.post(chat, content="")
    await Everything.post(chat, content="three")
    assert [event.event_type for event in await ChatMessage.list(chat)] == ["message", "quiet", None]
    assert [event.sequence_id for event in await ChatMessage.last(chat, n=2)] == [2, 3]


async def test_a_list_is_one_page(chat: Chat) -> None:
    await ChatMessage.post_batch(chat, [{"content": str(number)} for number in range(5)])
    assert [event.content for event in await ChatMessage.list(chat, offset=1, limit=2)] == ["1", "2"]
    with pytest.raises(DRMemoryValidationError, match="limit"):
        await ChatMessage.list(chat, limit=101)


async def test_a_patch_of_one_body_field_keeps_the_others(chat: Chat) -> None:
    """Field case 109."""
    message = await ChatMessage.post(chat, content="hi", score=0.5, label="x")
    before = message.created_at
    assert await message.patch(score=0.9) is message
    assert (message.content, message.score, message.label) == ("hi", 0.9, "x")
    assert message.created_at > before
    await message.patch(label=None)
    (again,) = await ChatMessage.list(chat)
    assert (again.content, again.score, again.label) == ("hi", 0.9, None)
    assert again.created_at == message.created_at


async def test_fields_that_a_class_does_not_know_survive_its_patch(chat: Chat, client: DRMemoryServiceClient) -> None:
    """Field case 134."""
    path = f"{chat.memory_space.id}/sessions/{chat.id}/events/"
    body = {"content": "hi", "later": {"x": [1]}, "label": 5}
    await client.request("POST", path, json={"body": body, "emitter": {"type": "agent"}, "type": "message"})
    (message,) = await ChatMessage.list(chat)
    assert message.label == 5
    await message.patch(score=2.0)
    stored = (await client.request("GET", path)).json()["items"][0]["body"]
    assert stored == {"content": "hi", "later": {"x": [1]}, "label": 5, "score": 2.0, "tags": []}


async def test_an_event_takes_many_patches_in_a_row_since_it_follows_its_own_token(chat: Chat) -> None:
    """Field case 110."""
    message = await ChatMessage.post(chat, content="0")
    tokens = [message.created_at]
    for number in range(1, 6):
        await message.patch(content=str(number))
        tokens.append(message.created_at)
    assert tokens == sorted(set(tokens))
    assert [event.content for event in await ChatMessage.list(chat)] == ["5"]


async def test_a_late_write_never_overwrites_a_newer_one(chat: Chat) -> None:
    """Field cases 110 and 136."""
    newer = await ChatMessage.post(chat, content="draft")
    (late,) = await ChatMessage.list(chat)
    await newer.patch(content="done")
    with pytest.raises(DRMemoryVersionConflictError) as raised:
        await late.patch(content="late")
    assert (raised.value.status_code, late.content) == (422, "draft")
    assert [event.content for event in await ChatMessage.list(chat)] == ["done"]


async def test_exactly_one_of_ten_writers_with_one_token_wins(chat: Chat) -> None:
    await ChatMessage.post(chat, content="0")
    copies = [(await ChatMessage.list(chat))[0] for _ in range(10)]
    results = await asyncio.gather(
        *(each.patch(content=f"by {number}") for number, each in enumerate(copies)), return_exceptions=True
    )
    assert sum(isinstance(result, ChatMessage) for result in results) == 1
    assert sum(isinstance(result, DRMemoryVersionConflictError) for result in results) == 9


async def test_the_emitter_is_changed_only_where_it_is_named(chat: Chat) -> None:
    message = await ChatMessage.post(chat, content="hi", emitter_type="user", emitter_id=USER)
    await message.patch(content="ho")
    assert (message.emitter_type, message.emitter_id) == ("user", USER)
    await message.patch(emitter_type="agent", emitter_id="bot")
    (again,) = await ChatMessage.list(chat)
    assert (again.emitter_type, again.emitter_id, again.content) == ("agent", "bot", "ho")


async def test_a_batch_is_appended_in_order(chat: Chat) -> None:
    events = await ChatMessage.post_batch(chat, [{"content": str(number), "score": number} for number in range(200)])
    assert [event.sequence_id for event in events] == list(range(1, 201))
    assert (events[199].content, events[199].score) == ("199", 199.0)


async def test_a_batch_with_one_bad_event_appends_none(chat: Chat) -> None:
    """Field case 106, seen from the client."""
    bad = {"content": "x", "emitter_type": "user", "emitter_id": "65f0000000000000000000ff"}
    with pytest.raises(DRMemoryBadRequestError):
        await ChatMessage.post_batch(chat, [{"content": "1"}, bad, {"content": "3"}])
    assert await ChatMessage.list(chat) == []
    assert (await ChatMessage.post(chat, content="first")).sequence_id == 1


async def test_a_batch_holds_1_to_200_events_and_is_never_split(chat: Chat) -> None:
    """Field case 107, seen from the client."""
    with pytest.raises(ValueError, match="201 events in one request; the limit is 200"):
        await ChatMessage.post_batch(chat, [{"content": "x"}] * 201)
    with pytest.raises(ValueError, match="at least one"):
        await ChatMessage.post_batch(chat, [])
    with pytest.raises(ValueError, match="at least one"):
        await ChatMessage.patch_batch(chat, [])
    assert await ChatMessage.list(chat) == []


async def test_a_batch_of_patches_changes_all_or_none(chat: Chat) -> None:
    one, two = await ChatMessage.post_batch(chat, [{"content": "1", "label": "a"}, {"content": "2", "label": "b"}])
    (stale, _) = await ChatMessage.list(chat)
    assert await ChatMessage.patch_batch(chat, [(two, {"score": 2}), (one, {"score": 1})]) == [two, one]
    assert [(event.label, event.score) for event in await ChatMessage.list(chat)] == [("a", 1.0), ("b", 2.0)]
    await two.patch(score=3)
    with pytest.raises(DRMemoryVersionConflictError):
        await ChatMessage.patch_batch(chat, [(two, {"score": 9}), (stale, {"score": 9})])
    assert [event.score for event in await ChatMessage.list(chat)] == [1.0, 3.0]


async def test_a_batch_of_patches_takes_each_event_of_the_session_once(chat: Chat, space: DRMemorySpace) -> None:
    message = await ChatMessage.post(chat, content="1")
    with pytest.raises(ValueError, match="Event 1 comes twice"):
        await ChatMessage.patch_batch(chat, [(message, {"score": 1}), (message, {"score": 2})])
    other = await Chat.post(space, tenant="acme", topic="x", chat_id="c-2")
    with pytest.raises(ValueError, match="Event 1 belongs to another session"):
        await ChatMessage.patch_batch(other, [(message, {"score": 1})])


async def test_a_deleted_event_is_gone_and_its_number_is_not_given_again(chat: Chat) -> None:
    message = await ChatMessage.post(chat, content="1")
    await message.delete()
    assert await ChatMessage.list(chat) == []
    for missing in (message.delete(), message.patch(content="x")):
        with pytest.raises(DRMemoryNotFoundError):
            await missing
    assert (await ChatMessage.post(chat, content="2")).sequence_id == 2


async def test_a_user_who_takes_no_part_emits_nothing(chat: Chat) -> None:
    with pytest.raises(DRMemoryBadRequestError):
        await ChatMessage.post(chat, content="x", emitter_type="user", emitter_id="somebody")


async def test_content_over_the_limit_is_an_error_that_says_so(chat: Chat) -> None:
    """Field case 113, seen from the client."""
    assert (await ChatMessage.post(chat, content="€" * 1_000_000)).content == "€" * 1_000_000
    with pytest.raises(DRMemoryValidationError, match=r"1,000,000|1000000"):
        await ChatMessage.post(chat, content="€" * 1_000_001)


async def test_a_deleted_session_takes_no_events(chat: Chat) -> None:
    await chat.delete()
    for refused in (ChatMessage.post(chat, content="x"), ChatMessage.list(chat), ChatMessage.last(chat, n=1)):
        with pytest.raises(DRMemoryNotFoundError):
            await refused


async def test_events_belong_to_sessions_of_the_class_they_are_bound_to(space: DRMemorySpace) -> None:
    note = await Note.post(space)
    with pytest.raises(TypeError, match="ChatMessage belongs to Chat sessions, not to a Note"):
        await ChatMessage.post(note, content="x")

    class Unbound(DREvent):
        pass

    with pytest.raises(TypeError, match="Unbound is bound to no session class"):
        await Unbound.list(note)


async def test_what_the_service_gives_cannot_be_set(chat: Chat) -> None:
    message = await ChatMessage.post(chat, content="x")
    for name in ("sequence_id", "created_at", "event_type"):
        with pytest.raises(AttributeError):
            setattr(message, name, 1)
    with pytest.raises(TypeError, match="cannot set 'sequence_id'"):
        await message.patch(sequence_id=4)


async def test_an_event_made_by_hand_says_that_it_is_not_stored() -> None:
    with pytest.raises(ValueError, match=r"use ChatMessage\.post\(\)"):
        _ = ChatMessage(content="x").sequence_id
