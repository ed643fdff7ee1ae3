"""Sessions as typed documents, on the real service."""

import asyncio
import copy
from datetime import UTC, datetime
from typing import ClassVar
from uuid import UUID

import pytest

from tests.persistence.declared import USER, Chat, ChatMessage, Day, Mood, Note, RatedChat, Tag
from threadkeep.persistence import (
    DEFAULT_SESSION_TTL_SECONDS,
    SYSTEM_PARTICIPANT,
    DRMemoryConflictError,
    DRMemoryNotFoundError,
    DRMemorySpace,
    DRMemoryVersionConflictError,
    DRSession,
)

OWNER = UUID("8f14e45f-ceea-467f-a8f2-0123456789ab")


async def post_chat(space: DRMemorySpace, chat_id: str = "c-1", *, tenant: str = "acme", topic: str = "x") -> Chat:
    return await Chat.post(space, tenant=tenant, topic=topic, chat_id=chat_id)


async def test_a_session_comes_back_with_every_field_typed(space: DRMemorySpace) -> None:
    due = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    posted = await RatedChat.post(
        space,
        participants=[USER],
        tenant="a/b",
        topic="100%",
        chat_id="c-1",
        title="x\x00\ud83d",
        mood=Mood.WILD,
        tags=[Tag(name="n")],
        owner=OWNER,
        due=due,
        extra={"deep": {"list": [1, 2.5, None, True]}},
        stars=5,
    )
    for chat in (posted, await RatedChat.get(space, posted.id), *await RatedChat.list(space)):
        assert (chat.tenant, chat.topic, chat.chat_id, chat.title) == ("a/b", "100%", "c-1", "x\x00\ud83d")
        assert (chat.mood, chat.tags, chat.owner, chat.due) == (Mood.WILD, [Tag(name="n")], OWNER, due)
        assert (chat.extra, chat.stars) == ({"deep": {"list": [1, 2.5, None, True]}}, 5)
        assert (chat.version, chat.rev, chat.participants) == (1, 1, [USER])
        assert chat.created_at.tzinfo is not None


async def test_a_session_without_markers_lives_two_years_and_belongs_to_the_system(space: DRMemorySpace) -> None:
    note = await Note.post(space, text="x")
    assert note.participants == [SYSTEM_PARTICIPANT] == ["0" * 24]
    (strategy,) = note.lifecycle_strategies
    assert (strategy["type"], strategy["trigger"]) == ("soft_delete", {"ttl": DEFAULT_SESSION_TTL_SECONDS})
    strategy["type"] = "changed"
    assert note.lifecycle_strategies[0]["type"] == "soft_delete"


async def test_the_same_key_adopts_the_session_as_it_is(space: DRMemorySpace) -> None:
    first = await Chat.post(space, tenant="acme", topic="x", chat_id="c-1", title="first")
    second = await Chat.post(space, tenant="acme", topic="y", chat_id="c-1", title="second")
    assert (second.id, second.title, second.topic) == (first.id, "first", "x")
    await first.delete()
    assert (await post_chat(space)).id != first.id


async def test_many_who_create_one_chat_at_once_all_write_to_it(space: DRMemorySpace) -> None:
    """Field case 137."""

    async def first_words(number: int) -> str:
        chat = await post_chat(space)
        await ChatMessage.post(chat, content=f"first {number}", emitter_type="agent")
        return chat.id

    ids = await asyncio.gather(*(first_words(number) for number in range(10)))
    assert len(set(ids)) == 1
    messages = await ChatMessage.list(await Chat.get(space, chat_id="c-1"))
    assert {message.content for message in messages} == {f"first {number}" for number in range(10)}
    assert [message.sequence_id for message in messages] == list(range(1, 11))


async def test_a_key_that_another_class_has_is_not_adopted(space: DRMemorySpace) -> None:
    day = await Day.post(space, number=1, owner=OWNER)
    with pytest.raises(DRMemoryConflictError, match="is no Chat") as raised:
        await post_chat(space, str(OWNER))
    assert raised.value.existing_id == day.id


async def test_a_session_is_found_by_id_or_by_key_and_only_by_its_own_class(space: DRMemorySpace) -> None:
    chat = await post_chat(space, "c+1&x=%\x00ü")
    day = await Day.post(space, number=7, owner=OWNER)
    assert (await Chat.get(space, chat.id)).chat_id == "c+1&x=%\x00ü"
    assert (await Chat.get(space, chat_id="c+1&x=%\x00ü")).id == chat.id
    assert (await Day.get(space, owner=OWNER)).id == day.id
    assert (await Day.get(space, owner=str(OWNER))).number == 7
    for missing in (Chat.get(space, day.id), Chat.get(space, chat_id=str(OWNER)), Chat.get(space, chat_id="c")):
        with pytest.raises(DRMemoryNotFoundError):
            await missing


@pytest.mark.parametrize(
    ("id", "key", "error"),
    [
        (None, {}, TypeError),
        ("x", {"chat_id": "y"}, TypeError),
        (None, {"chat_id": "y", "title": "z"}, TypeError),
        (None, {"nope": "y"}, TypeError),
        (None, {"title": "y"}, ValueError),
        (None, {"chat_id": ""}, ValueError),
        (None, {"chat_id": None}, ValueError),
        (None, {"chat_id": 5}, ValueError),
    ],
)
async def test_what_get_cannot_find_by_is_refused(
    space: DRMemorySpace, id: str | None, key: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await Chat.get(space, id, **key)


async def test_range_keys_find_their_equals_and_never_a_neighbour(space: DRMemorySpace) -> None:
    """Field case 133."""
    pairs = [("a", "c"), ("ab", "c"), ("A", "c"), ("a/b", "c"), ("a", "b/c"), ("ü", "%2F"), ("%2F", "ü"), ("x", "a")]
    for number, (tenant, topic) in enumerate(pairs):
        await post_chat(space, str(number), tenant=tenant, topic=topic)
    await Note.post(space, text="//chat/a/")

    async def found(**keys: str) -> list[tuple[str, str]]:
        return [(chat.tenant, chat.topic) for chat in await Chat.list(space, **keys)]

    assert await found() == pairs
    assert await found(tenant="a") == [("a", "c"), ("a", "b/c")]
    assert await found(tenant="a", topic="c") == [("a", "c")]
    assert await found(tenant="a/b") == [("a/b", "c")]
    assert await found(tenant="ü", topic="%2F") == [("ü", "%2F")]
    assert await found(tenant="%2F") == [("%2F", "ü")]
    assert await found(tenant="b") == []


async def test_a_list_pages_by_itself_and_filters_by_participant(space: DRMemorySpace) -> None:
    await asyncio.gather(*(Note.post(space, text=str(n), participants=[USER]) for n in range(101)))
    await Note.post(space, text="other", participants=["somebody"])
    assert len(await Note.list(space)) == 102
    assert {note.text for note in await Note.list(space, participant=USER)} == {str(n) for n in range(101)}
    assert [note.text for note in await Note.list(space, participant="somebody")] == ["other"]
    assert await Note.list(space, participant="nobody") == []


async def test_a_patch_changes_one_field_and_keeps_the_others(space: DRMemorySpace) -> None:
    chat = await Chat.post(space, tenant="acme", topic="x", chat_id="c-1", title="a", owner=OWNER, tags=[Tag(name="t")])
    assert await chat.patch(title="b") is chat
    assert (chat.title, chat.version, chat.rev) == ("b", 2, 2)
    await chat.patch(owner=None)
    again = await Chat.get(space, chat.id)
    assert (again.title, again.owner, again.tags, again.rev) == ("b", None, [Tag(name="t")], 3)


async def test_an_assigned_field_is_sent_with_the_next_patch(space: DRMemorySpace) -> None:
    chat = await post_chat(space)
    chat.tags.append(Tag(name="new"))
    chat.title = "assigned"
    await chat.patch(mood="wild")
    again = await Chat.get(space, chat.id)
    assert (again.title, again.tags, again.mood) == ("assigned", [Tag(name="new")], Mood.WILD)


async def test_a_patched_range_key_is_found_under_its_new_value(space: DRMemorySpace) -> None:
    chat = await post_chat(space)
    await chat.patch(topic="y")
    assert [found.id for found in await Chat.list(space, tenant="acme", topic="y")] == [chat.id]
    assert await Chat.list(space, tenant="acme", topic="x") == []


async def test_fields_that_a_class_does_not_know_survive_its_patch(space: DRMemorySpace) -> None:
    """Field case 134."""
    rated = await RatedChat.post(space, tenant="acme", topic="x", chat_id="c-1", stars=4)
    chat = await Chat.get(space, rated.id)
    await chat.patch(title="b")
    again = await RatedChat.get(space, rated.id)
    assert (again.title, again.stars) == ("b", 4)


async def test_of_two_writers_with_one_version_the_second_is_refused(space: DRMemorySpace) -> None:
    chat = await post_chat(space)
    other = await Chat.get(space, chat.id)
    await chat.patch(title="mine")
    with pytest.raises(DRMemoryVersionConflictError) as raised:
        await other.patch(title="theirs")
    assert (raised.value.status_code, other.title, other.version) == (409, "", 1)
    assert (await Chat.get(space, chat.id)).title == "mine"
    with pytest.raises(DRMemoryVersionConflictError):
        await other.patch_lifecycle_strategies([{"type": "soft_delete", "trigger": {"ttl": 60}}])


async def test_exactly_one_of_twenty_writers_with_one_version_wins(space: DRMemorySpace) -> None:
    """Field case 101, seen from the client."""
    chat = await post_chat(space)
    copies = [await Chat.get(space, chat.id) for _ in range(20)]
    results = await asyncio.gather(
        *(each.patch(title=str(number)) for number, each in enumerate(copies)), return_exceptions=True
    )
    won = [result for result in results if isinstance(result, Chat)]
    assert len(won) == 1
    assert sum(isinstance(result, DRMemoryVersionConflictError) for result in results) == 19
    assert (await Chat.get(space, chat.id)).title == won[0].title


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"rev": 5}, ValueError),
        ({"chat_id": "other"}, ValueError),
        ({"title": 5}, ValueError),
        ({"tenant": ""}, ValueError),
        ({"participants": ["x"]}, TypeError),
        ({"nope": 1}, TypeError),
    ],
)
async def test_what_cannot_be_patched_is_refused_and_changes_nothing(
    space: DRMemorySpace, fields: dict[str, object], error: type[Exception]
) -> None:
    chat = await post_chat(space)
    with pytest.raises(error, match=next(iter(fields))):
        await chat.patch(**fields)
    assert (chat.version, chat.title, chat.tenant) == (1, "", "acme")
    assert (await Chat.get(space, chat.id)).version == 1


async def test_lifecycle_strategies_are_replaced_and_never_cleared(space: DRMemorySpace) -> None:
    chat = await post_chat(space)
    await chat.patch_lifecycle_strategies([{"type": "soft_delete", "trigger": {"idle": 60}}])
    assert [strategy["trigger"] for strategy in chat.lifecycle_strategies] == [{"idle": 60}]
    assert (chat.version, chat.rev) == (2, 2)
    with pytest.raises(ValueError, match="cannot be cleared"):
        await chat.patch_lifecycle_strategies([])


async def test_a_class_says_which_strategies_its_sessions_get(space: DRMemorySpace) -> None:
    class Brief(DRSession):
        __lifecycle_strategies__: ClassVar = [{"type": "soft_delete", "trigger": {"idle": 5}}]

    class Unsaid(DRSession):
        __lifecycle_strategies__: ClassVar = []

    assert (await Brief.post(space)).lifecycle_strategies[0]["trigger"] == {"idle": 5}
    assert (await Unsaid.post(space)).lifecycle_strategies[0]["trigger"] == {"ttl": 180 * 86_400}


async def test_what_the_service_gives_cannot_be_set(space: DRMemorySpace) -> None:
    chat = await post_chat(space)
    for name in ("id", "created_at", "version", "lifecycle_strategies"):
        with pytest.raises(AttributeError):
            setattr(chat, name, "x")


async def test_a_deleted_session_is_gone(space: DRMemorySpace) -> None:
    chat = await post_chat(space)
    await chat.delete()
    for missing in (Chat.get(space, chat.id), Chat.get(space, chat_id="c-1"), chat.delete(), chat.patch(title="x")):
        with pytest.raises(DRMemoryNotFoundError):
            await missing
    assert await Chat.list(space) == []


async def test_an_object_made_by_hand_says_that_it_is_not_stored() -> None:
    with pytest.raises(ValueError, match=r"use Note\.post\(\)"):
        _ = Note(text="x").id
    with pytest.raises(ValueError, match=r"use Note\.post\(\)"):
        await Note(text="x").patch(text="y")


async def test_a_deep_copy_speaks_through_the_same_connection(space: DRMemorySpace) -> None:
    chat = copy.deepcopy(await post_chat(space))
    await chat.patch(title="copied")
    assert (await Chat.get(space, chat.id)).title == "copied"
