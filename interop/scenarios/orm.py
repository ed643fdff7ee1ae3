"""The async ORM: spaces, typed sessions and typed events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from interop.names import Root
from interop.scenarios.orm_classes import ANN, BOB, Mood, Tag, declared

OWNER = UUID("00000000-0000-4000-8000-000000000001")


@asynccontextmanager
async def _space(root: Root) -> AsyncIterator[Any]:
    async with root.persistence.DRMemoryServiceClient() as client:
        yield await root.persistence.DRMemorySpace.post(client, description="my-space")


async def the_quick_start_of_the_orm(root: Root) -> None:
    orm, classes = root.persistence, declared(root)
    async with orm.DRMemoryServiceClient() as client:
        space = await orm.DRMemorySpace.post(client, description="my-space")
        session = await classes.ChatSession.post(space, tenant="acme", topic="billing", chat_id="c1", title="Hello")
        message = await classes.ChatMessage.post(session=session, content="Hi", emitter_type="agent", score=0.9)
        assert message.sequence_id == 1
        assert (session.tenant, session.topic, session.chat_id, session.title) == ("acme", "billing", "c1", "Hello")
        assert session.participants == [orm.SYSTEM_PARTICIPANT]
        assert session.rev == session.version == 1


async def a_space_is_posted_found_patched_and_deleted(root: Root) -> None:
    orm = root.persistence
    async with orm.DRMemoryServiceClient() as client:
        space = await orm.DRMemorySpace.post(
            client,
            description="a",
            deduplication_key="app",
            llm_model_name="m",
            llm_base_url="https://llm.example.com",
            custom_instructions="i",
        )
        again = await orm.DRMemorySpace.post(client, description="b", deduplication_key="app")
        assert again.id == space.id
        assert (await orm.DRMemorySpace.get(client, space.id)).user_id == space.user_id
        assert len(space.tenant_id) == 36
        await space.patch(description="c", custom_instructions="j")
        with pytest.raises(ValueError):
            await space.patch()
        other = await orm.DRMemorySpace.post(client)
        assert [found.id for found in await orm.DRMemorySpace.list(client)] == [other.id, space.id]
        assert [found.id for found in await orm.DRMemorySpace.list(client, offset=1, limit=1)] == [space.id]
        assert [found.id for found in await orm.DRMemorySpace.list(client, deduplication_key="app")] == [space.id]
        doomed = await orm.DRMemorySpace.post(client, description="doomed")
        await doomed.delete()
        with pytest.raises(orm.DRMemoryNotFoundError):
            await orm.DRMemorySpace.get(client, doomed.id)


async def a_session_keeps_typed_values(root: Root) -> None:
    ChatSession = declared(root).ChatSession
    async with _space(root) as space:
        posted = await ChatSession.post(
            space,
            participants=[ANN, BOB],
            tenant="a/c%me",
            topic="ü ~*'()",
            chat_id="c-1",
            title="Hello",
            mood=Mood.WILD,
            tags=[Tag(name="x"), Tag(name="y", weight=0.5)],
            owner=OWNER,
            due=datetime(2026, 11, 30, 12, 0, 0, 123456, UTC),
            extra={"someKey": [1, None, {"a_b": "\u0000"}]},
        )
        for session in (posted, await ChatSession.get(space, posted.id), await ChatSession.get(space, chat_id="c-1")):
            assert session.id == posted.id
            assert (session.tenant, session.topic, session.chat_id) == ("a/c%me", "ü ~*'()", "c-1")
            assert (session.mood, session.owner) == (Mood.WILD, OWNER)
            assert session.tags == [Tag(name="x"), Tag(name="y", weight=0.5)]
            assert session.due == datetime(2026, 11, 30, 12, 0, 0, 123456, UTC)
            assert session.extra == {"someKey": [1, None, {"a_b": "\u0000"}]}
            assert session.participants == [ANN, BOB]
            (strategy,) = session.lifecycle_strategies
            assert strategy["trigger"] == {"ttl": root.persistence.DEFAULT_SESSION_TTL_SECONDS}


async def a_session_is_adopted_by_its_key(root: Root) -> None:
    orm, ChatSession = root.persistence, declared(root).ChatSession
    async with _space(root) as space:
        first = await ChatSession.post(space, tenant="acme", topic="x", chat_id="c-1", title="first")
        second = await ChatSession.post(space, tenant="acme", topic="x", chat_id="c-1", title="second")
        assert (second.id, second.title) == (first.id, "first")
        await first.delete()
        with pytest.raises(orm.DRMemoryNotFoundError):
            await ChatSession.get(space, chat_id="c-1")
        third = await ChatSession.post(space, tenant="acme", topic="x", chat_id="c-1", title="third")
        assert (third.title, third.id == first.id) == ("third", False)


async def sessions_are_listed_by_leading_range_keys_and_participant(root: Root) -> None:
    classes = declared(root)
    ChatSession = classes.ChatSession
    async with _space(root) as space:
        for number, (tenant, topic, who) in enumerate(
            [("acme", "billing", ANN), ("acme", "billing/2", ANN), ("acme", "support", BOB), ("acme2", "billing", BOB)]
        ):
            await ChatSession.post(space, participants=[who], tenant=tenant, topic=topic, chat_id=f"{number}")
        await classes.Note.post(space, text="//chat/acme/")

        async def listed(**filters: Any) -> list[str]:
            return [session.chat_id for session in await ChatSession.list(space, **filters)]

        assert await listed() == ["0", "1", "2", "3"]
        assert await listed(tenant="acme") == ["0", "1", "2"]
        assert await listed(tenant="acme", topic="billing") == ["0"]
        assert await listed(participant=BOB) == ["2", "3"]
        assert await listed(participant=ANN, tenant="acme", topic="billing/2") == ["1"]
        assert await listed(tenant="nobody") == []
        with pytest.raises(ValueError):
            await listed(topic="billing")
        assert [note.text for note in await classes.Note.list(space)] == ["//chat/acme/"]


async def a_list_reads_all_pages(root: Root) -> None:
    Note = declared(root).Note
    async with _space(root) as space:
        for number in range(101):
            await Note.post(space, text=f"{number}")
        assert [note.text for note in await Note.list(space)] == [f"{number}" for number in range(101)]


async def a_patch_is_guarded_by_the_version(root: Root) -> None:
    orm, ChatSession = root.persistence, declared(root).ChatSession
    async with _space(root) as space:
        session = await ChatSession.post(space, tenant="acme", topic="x", chat_id="c-1", title="a", owner=OWNER)
        stale = await ChatSession.get(space, session.id)
        await session.patch(title="b")
        assert (session.version, session.rev, session.title, session.owner) == (2, 2, "b", OWNER)
        with pytest.raises(orm.DRMemoryVersionConflictError) as raised:
            await stale.patch(title="lost")
        assert raised.value.status_code == 409
        await session.patch(topic="support", title="Re: billing")
        await session.patch(owner=None, tags=[Tag(name="z")])
        seen = await ChatSession.get(space, chat_id="c-1")
        assert (seen.version, seen.topic, seen.title, seen.owner) == (4, "support", "Re: billing", None)
        assert [found.id for found in await ChatSession.list(space, tenant="acme", topic="support")] == [session.id]


async def strategies_of_a_session_are_replaced(root: Root) -> None:
    classes = declared(root)
    async with _space(root) as space:
        day = await classes.Day.post(space, number=7, owner=OWNER)
        assert day.lifecycle_strategies[0]["trigger"] == {"idle": 3600}
        await day.patch_lifecycle_strategies([{"type": "soft_delete", "trigger": {"idle": 63_072_000}}])
        seen = await classes.Day.get(space, owner=OWNER)
        # The published package shows the text that a key is stored as.
        assert (int(seen.number), seen.version) == (7, 2)
        assert seen.lifecycle_strategies[0]["trigger"] == {"idle": 63_072_000}
        with pytest.raises(ValueError):
            await day.patch_lifecycle_strategies([])
        with pytest.raises(root.persistence.DRMemoryValidationError):
            await day.patch_lifecycle_strategies([{"type": "soft_delete", "trigger": {"ttl": 0}}])


async def events_keep_typed_values_and_their_order(root: Root) -> None:
    classes = declared(root)
    ChatMessage, Status = classes.ChatMessage, classes.Status
    async with _space(root) as space:
        session = await classes.ChatSession.post(space, participants=[ANN], tenant="acme", topic="x", chat_id="c-1")
        first = await ChatMessage.post(
            session,
            content="Hi",
            emitter_type="user",
            emitter_id=ANN,
            score=0.5,
            label="l",
            tags=[Tag(name="x")],
            at=datetime(2026, 11, 30, 12, tzinfo=UTC),
        )
        await Status.post(session, content="working", emitter_type="agent", percent=50)
        batch = await ChatMessage.post_batch(
            session=session,
            events=[
                {"content": "one", "emitter_type": "user", "emitter_id": ANN},
                {"content": "two", "emitter_type": "agent", "score": 0.9},
            ],
        )
        assert [message.sequence_id for message in (first, *batch)] == [1, 3, 4]
        listed = await ChatMessage.list(session, type="message")
        assert [message.content for message in listed] == ["Hi", "one", "two"]
        assert (listed[0].score, listed[0].label, listed[0].tags) == (0.5, "l", [Tag(name="x")])
        assert listed[0].at == datetime(2026, 11, 30, 12, tzinfo=UTC)
        assert (listed[0].emitter_type, listed[0].emitter_id) == ("user", ANN)
        assert [event.sequence_id for event in await ChatMessage.list(session)] == [1, 2, 3, 4]
        assert [event.sequence_id for event in await ChatMessage.list(session, type=None, offset=1, limit=2)] == [2, 3]
        assert [event.sequence_id for event in await ChatMessage.last(session, n=3)] == [2, 3, 4]
        assert [event.sequence_id for event in await ChatMessage.last(session, n=1, type="status")] == [2]
        assert [event.percent for event in await Status.list(session, type="status")] == [50]


async def a_change_of_an_event_is_guarded_by_its_token(root: Root) -> None:
    orm, classes = root.persistence, declared(root)
    async with _space(root) as space:
        session = await classes.ChatSession.post(space, participants=[ANN, BOB], tenant="a", topic="x", chat_id="c")
        message = await classes.ChatMessage.post(session, content="a", emitter_type="agent", score=0.5, label="l")
        (stale,) = await classes.ChatMessage.list(session)
        await message.patch(score=0.9)
        assert (message.content, message.score, message.label) == ("a", 0.9, "l")
        with pytest.raises(orm.DRMemoryVersionConflictError) as raised:
            await stale.patch(content="lost")
        assert raised.value.status_code == 422
        await message.patch(content="b", emitter_type="user", emitter_id=BOB)
        await message.patch(label=None)
        (seen,) = await classes.ChatMessage.list(session)
        assert (seen.content, seen.score, seen.label, seen.emitter_id) == ("b", 0.9, None, BOB)


async def a_batch_of_changes_is_guarded_by_each_token(root: Root) -> None:
    orm, classes = root.persistence, declared(root)
    ChatMessage = classes.ChatMessage
    async with _space(root) as space:
        session = await classes.ChatSession.post(space, tenant="a", topic="x", chat_id="c")
        one, two = await ChatMessage.post_batch(
            session, [{"content": text, "emitter_type": "agent"} for text in ("one", "two")]
        )
        _, stale_two = await ChatMessage.list(session)
        updated = await ChatMessage.patch_batch(
            session=session, updates=[(two, {"score": 0.9}), (one, {"content": "Updated text"})]
        )
        assert [message.sequence_id for message in updated] == [2, 1]
        with pytest.raises(orm.DRMemoryVersionConflictError):
            await ChatMessage.patch_batch(session, [(one, {"label": "lost"}), (stale_two, {"label": "lost"})])
        with pytest.raises(ValueError):
            await ChatMessage.post_batch(session, [{"content": "x", "emitter_type": "agent"}] * 201)


async def a_deleted_event_leaves_its_number(root: Root) -> None:
    classes = declared(root)
    async with _space(root) as space:
        session = await classes.ChatSession.post(space, tenant="a", topic="x", chat_id="c")
        for text in ("one", "two"):
            await classes.ChatMessage.post(session, content=text, emitter_type="agent")
        await (await classes.ChatMessage.last(session, n=1))[0].delete()
        assert (await classes.ChatMessage.post(session, content="three", emitter_type="agent")).sequence_id == 3
        assert [message.content for message in await classes.ChatMessage.list(session)] == ["one", "three"]


async def a_subclass_of_a_subclass_has_both_their_fields(root: Root) -> None:
    RatedChat = declared(root).RatedChat
    async with _space(root) as space:
        await RatedChat.post(space, tenant="acme", topic="x", chat_id="c-1", title="t", stars=5)
        seen = await RatedChat.get(space, chat_id="c-1")
        assert (seen.title, seen.stars, seen.tenant) == ("t", 5, "acme")


async def mistakes_are_refused_before_anything_is_sent(root: Root) -> None:
    classes = declared(root)
    keys = {"tenant": "acme", "topic": "x", "chat_id": "c-1"}
    async with _space(root) as space:
        for fields in ({**keys, "unknown": 1}, {**keys, "tenant": ""}, {**keys, "rev": 3}):
            with pytest.raises((ValueError, TypeError)):
                await classes.ChatSession.post(space, **fields)
        session = await classes.ChatSession.post(space, **keys)
        for changes in ({"unknown": 1}, {"chat_id": "c-2"}, {"participants": [ANN]}, {"rev": 3}, {"topic": ""}):
            with pytest.raises((ValueError, TypeError)):
                await session.patch(**changes)
        with pytest.raises((ValueError, TypeError)):
            await classes.ChatMessage.post(session, content="x", emitter_type="agent", unknown=1)
        with pytest.raises((ValueError, TypeError)):
            await classes.ChatSession.get(space, title="t")


async def what_the_service_refuses_has_its_own_error(root: Root) -> None:
    orm, classes = root.persistence, declared(root)
    async with _space(root) as space:
        session = await classes.ChatSession.post(space, tenant="a", topic="x", chat_id="c")
        with pytest.raises(orm.DRMemoryBadRequestError):
            await classes.ChatMessage.post(session, content="x", emitter_type="user", emitter_id=BOB)
        with pytest.raises(orm.DRMemoryValidationError) as invalid:
            await classes.ChatMessage.post(session, content="", emitter_type="agent")
        assert invalid.value.status_code == 422
        await session.delete()
        with pytest.raises(orm.DRMemoryNotFoundError) as gone:
            await classes.ChatMessage.post(session, content="x", emitter_type="agent")
        assert gone.value.status_code == 404
        assert isinstance(gone.value, orm.DRMemoryServiceError)
    async with orm.DRMemoryServiceClient(endpoint="http://127.0.0.1:9/api/v2", api_token="t") as nobody:
        with pytest.raises(orm.DRMemoryUnavailableError):
            await orm.DRMemorySpace.list(nobody)


async def the_client_sends_requests_of_your_own(root: Root) -> None:
    async with root.persistence.DRMemoryServiceClient() as client:
        assert client.base_url.endswith("/api/v2/memory")
        made = (await client.request("POST", "new/", json={"description": "raw", "deduplicationKey": "r"})).json()
        listed = await client.request("GET", "", params={"deduplicationKey": "r"})
        assert [space["memorySpaceId"] for space in listed.json()["items"]] == [made["memorySpaceId"]]
        with pytest.raises(root.persistence.DRMemoryConflictError) as taken:
            await client.request("POST", "new/", json={"deduplicationKey": "r"})
        assert taken.value.existing_id == made["memorySpaceId"]


SCENARIOS = (
    the_quick_start_of_the_orm,
    a_space_is_posted_found_patched_and_deleted,
    a_session_keeps_typed_values,
    a_session_is_adopted_by_its_key,
    sessions_are_listed_by_leading_range_keys_and_participant,
    a_list_reads_all_pages,
    a_patch_is_guarded_by_the_version,
    strategies_of_a_session_are_replaced,
    events_keep_typed_values_and_their_order,
    a_change_of_an_event_is_guarded_by_its_token,
    a_batch_of_changes_is_guarded_by_each_token,
    a_deleted_event_leaves_its_number,
    a_subclass_of_a_subclass_has_both_their_fields,
    mistakes_are_refused_before_anything_is_sent,
    what_the_service_refuses_has_its_own_error,
    the_client_sends_requests_of_your_own,
)
