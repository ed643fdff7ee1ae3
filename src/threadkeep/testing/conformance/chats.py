"""What a ChatRepositoryLike must do."""

import asyncio
from uuid import uuid4

import pytest

from threadkeep.chat_history import ChatCreate, ChatRepositoryLike
from threadkeep.testing.conformance.store import StoreUnderTest, assert_says_gone, contents, new_chat, say

_ODD_THREADS = ["a/b%2F c", "Straße 🧵 日本", "t'; --", 'q"u\\ote', "x" * 200, "0", " "]


class ChatConformance(StoreUnderTest):
    """Chats: one per user and thread, found, renamed, deleted for good."""

    async def test_the_chat_repository_has_every_method(self) -> None:
        async with self.open_store() as store:
            assert isinstance(store.chats, ChatRepositoryLike)

    async def test_a_chat_is_stored_with_what_it_was_given(self) -> None:
        async with self.open_store() as store:
            data = ChatCreate(user_uuid=uuid4(), thread_id="thread-1", name="Weather")
            made = await store.chats.create_chat(data)
            assert (made.chat_uuid, made.user_uuid) == (data.chat_uuid, data.user_uuid)
            assert (made.thread_id, made.name) == ("thread-1", "Weather")
            assert data.user_uuid is not None
            found = await self.elsewhere(store).chats.get_chat_by_thread_id(data.user_uuid, "thread-1")
            assert found is not None
            assert (found.chat_uuid, found.user_uuid) == (data.chat_uuid, data.user_uuid)
            assert (found.thread_id, found.name) == ("thread-1", "Weather")

    async def test_a_chat_that_is_there_is_returned_as_it_is(self) -> None:
        async with self.open_store() as store:
            user = uuid4()
            first = await store.chats.create_chat(ChatCreate(user_uuid=user, thread_id="t", name="First"))
            again = await store.chats.create_chat(ChatCreate(user_uuid=user, thread_id="t", name="Second"))
            assert (again.chat_uuid, again.name) == (first.chat_uuid, "First")
            assert len(await store.chats.get_all_chats(user)) == 1

    async def test_chats_that_are_created_at_once_are_one(self) -> None:
        async with self.open_store() as store:
            user = uuid4()
            made = await asyncio.gather(*(new_chat(store, user) for _ in range(8)))
            assert len({chat.chat_uuid for chat in made}) == 1
            assert len(await store.chats.get_all_chats(user)) == 1

    async def test_a_create_that_is_repeated_while_it_goes_on_is_one_chat(self) -> None:
        async with self.open_store() as store:
            data = ChatCreate(user_uuid=uuid4(), thread_id="thread-1")
            made = await asyncio.gather(*(store.chats.create_chat(data) for _ in range(3)))
            assert {chat.chat_uuid for chat in made} == {data.chat_uuid}
            assert len(await store.chats.get_all_chats(data.user_uuid)) == 1
            assert (await say(store, made[0], "Hello")).content == "Hello"

    async def test_two_users_may_have_the_same_thread_id(self) -> None:
        async with self.open_store() as store:
            one, other = await new_chat(store), await new_chat(store)
            assert one.chat_uuid != other.chat_uuid
            assert one.user_uuid is not None
            found = await store.chats.get_chat_by_thread_id(one.user_uuid, "thread-1")
            assert found is not None
            assert found.chat_uuid == one.chat_uuid

    async def test_thread_ids_are_any_text(self) -> None:
        async with self.open_store() as store:
            user = uuid4()
            made = {thread: (await new_chat(store, user, thread)).chat_uuid for thread in [*_ODD_THREADS, "T", "t"]}
            assert len(set(made.values())) == len(made)
            for thread, chat_uuid in made.items():
                found = await store.chats.get_chat_by_thread_id(user, thread)
                assert found is not None, thread
                assert (found.thread_id, found.chat_uuid) == (thread, chat_uuid)

    async def test_an_unknown_chat_is_none(self) -> None:
        async with self.open_store() as store:
            await new_chat(store)
            assert await store.chats.get_chat_by_thread_id(uuid4(), "thread-1") is None
            assert await store.chats.update_chat_name(uuid4(), "Nothing") is None
            assert await store.chats.delete_chat(uuid4()) is None

    async def test_all_chats_are_those_of_a_user_or_of_everybody(self) -> None:
        async with self.open_store() as store:
            user = uuid4()
            mine = {(await new_chat(store, user, thread)).chat_uuid for thread in ("a", "b", "c")}
            other = (await new_chat(store)).chat_uuid
            assert {chat.chat_uuid for chat in await store.chats.get_all_chats(user)} == mine
            assert {chat.chat_uuid for chat in await store.chats.get_all_chats(None)} >= {*mine, other}
            assert not await store.chats.get_all_chats(uuid4())

    async def test_a_chat_is_renamed(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            renamed = await store.chats.update_chat_name(chat.chat_uuid, "Wetter in Øslo")
            assert renamed is not None
            assert (renamed.chat_uuid, renamed.name) == (chat.chat_uuid, "Wetter in Øslo")
            assert chat.user_uuid is not None
            found = await self.elsewhere(store).chats.get_chat_by_thread_id(chat.user_uuid, "thread-1")
            assert found is not None
            assert found.name == "Wetter in Øslo"

    async def test_a_deleted_chat_is_gone_with_its_messages_and_takes_no_more(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            said = await say(store, chat, "Hello")
            deleted = await store.chats.delete_chat(chat.chat_uuid)
            assert deleted is not None
            assert deleted.chat_uuid == chat.chat_uuid
            assert chat.user_uuid is not None
            assert await store.chats.get_chat_by_thread_id(chat.user_uuid, "thread-1") is None
            assert not await store.chats.get_all_chats(chat.user_uuid)
            assert await contents(store, chat) == []
            assert await store.messages.get_message(said.message_uuid) is None
            assert await store.messages.get_last_messages([chat.chat_uuid]) == {}
            assert await store.chats.update_chat_name(chat.chat_uuid, "Again") is None
            assert await store.chats.delete_chat(chat.chat_uuid) is None
            with pytest.raises(Exception) as caught:
                await say(store, chat, "Late")
            assert_says_gone(caught.value)

    async def test_a_thread_whose_chat_was_deleted_may_begin_anew(self) -> None:
        async with self.open_store() as store:
            first = await new_chat(store)
            await say(store, first, "Old")
            await store.chats.delete_chat(first.chat_uuid)
            second = await new_chat(store, first.user_uuid)
            assert second.chat_uuid != first.chat_uuid
            await say(store, second, "New")
            assert await contents(store, second) == ["New"]
