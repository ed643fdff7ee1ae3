"""What a MessageRepositoryLike must do with messages themselves."""

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from threadkeep.chat_history import MessageCreate, MessageRepositoryLike, MessageStatus, MessageUpdate, Role
from threadkeep.testing.conformance.store import StoreUnderTest, contents, new_chat, say

_ODD_TEXTS = [
    "",
    " leading and trailing \n",
    "nul \x00 and bell \x07",
    "half \ud83d a pair",
    "🙂 e\u0301 日本",
    "x" * 300_000,
]


class MessageConformance(StoreUnderTest):
    """Messages: whole, in order, changed in part, and stored once however often they are sent."""

    async def test_the_message_repository_has_every_method(self) -> None:
        async with self.open_store() as store:
            assert isinstance(store.messages, MessageRepositoryLike)

    async def test_a_message_is_stored_with_what_it_was_given(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            data = MessageCreate(
                chat_uuid=chat.chat_uuid,
                agui_id="m1",
                role=Role.ASSISTANT,
                name="assistant",
                content="Look",
                step="plan",
                in_progress=False,
                error="it broke",
                status=MessageStatus.ERRORED,
                timestamp=datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC),
                run_id="r1",
                encrypted_value="c2VjcmV0",
                parts=[{"type": "text", "text": "Look"}, {"type": "image", "source": {"value": None, "n": 1.5}}],
                interrupts=[{"id": "i1"}],
            )
            made = await store.messages.create_message(data)
            (found,) = await self.elsewhere(store).messages.get_chat_messages(chat.chat_uuid)
            for name in MessageCreate.model_fields:
                if name != "emitter_type":
                    assert getattr(made, name) == getattr(found, name) == getattr(data, name), name
            assert (found.tool_calls, found.reasonings) == ([], [])

    async def test_a_message_without_a_chat_is_an_error(self) -> None:
        async with self.open_store() as store:
            with pytest.raises(ValueError):
                await store.messages.create_message(MessageCreate(content="Whose?"))

    async def test_text_is_kept_to_the_letter(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            for text in _ODD_TEXTS:
                await say(store, chat, text)
            assert await contents(self.elsewhere(store), chat) == _ODD_TEXTS
            last = await say(store, chat, "plain")
            await store.messages.update_message(last.message_uuid, MessageUpdate(content=_ODD_TEXTS[3]))
            assert (await contents(store, chat))[-1] == _ODD_TEXTS[3]

    async def test_messages_are_in_the_order_of_their_creation(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            # Not in the order of their times, and more than a page of any store.
            said = [await say(store, chat, str(n), timestamp=datetime(2026, 1, 1, tzinfo=UTC)) for n in range(120)]
            assert await contents(store, chat) == [str(n) for n in range(120)]
            await store.messages.update_message(said[3].message_uuid, MessageUpdate(content="changed"))
            assert (await contents(store, chat))[:5] == ["0", "1", "2", "changed", "4"]

    async def test_a_chat_without_messages_and_an_unknown_one_are_empty(self) -> None:
        async with self.open_store() as store:
            assert await contents(store, await new_chat(store)) == []
            assert list(await store.messages.get_chat_messages(uuid4())) == []

    async def test_an_update_changes_what_it_sets_and_nothing_else(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            said = await say(store, chat, "Hel", agui_id="m1", name="assistant", step="plan")
            update = MessageUpdate(content="Hello", status=MessageStatus.COMPLETE, in_progress=False, name=None)
            changed = await store.messages.update_message(said.message_uuid, update)
            (found,) = await store.messages.get_chat_messages(chat.chat_uuid)
            for message in (changed, found):
                assert message is not None
                assert (message.content, message.status, message.in_progress) == ("Hello", "complete", False)
                assert (message.agui_id, message.name, message.step) == ("m1", "assistant", "plan")

    async def test_an_update_may_carry_fields_that_the_store_does_not_have(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            said = await say(store, chat, "Hel")
            update = MessageUpdate.model_validate({"content": "Hello", "no_such_field": 1})
            assert await store.messages.update_message(said.message_uuid, update) is not None
            assert await contents(store, chat) == ["Hello"]

    async def test_an_unknown_message_is_none(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            await say(store, chat, "Hello", agui_id="m1")
            assert await store.messages.update_message(uuid4(), MessageUpdate(content="?")) is None
            assert await store.messages.get_message(uuid4()) is None
            assert await store.messages.get_message_by_agui_id(chat.chat_uuid, "m2") is None
            assert await store.messages.get_message_by_agui_id(uuid4(), "m1") is None

    async def test_a_message_is_found_by_its_own_id(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            said = await say(store, chat, "Hello")
            found = await self.elsewhere(store).messages.get_message(said.message_uuid)
            assert found is not None
            assert (found.message_uuid, found.content) == (said.message_uuid, "Hello")

    async def test_of_messages_with_the_same_ag_ui_id_the_newest_of_the_chat_is_found(self) -> None:
        async with self.open_store() as store:
            chat, other = await new_chat(store), await new_chat(store)
            await say(store, chat, "First run", agui_id="m1")
            await say(store, chat, "Second run", agui_id="m1")
            await say(store, other, "Another chat", agui_id="m1")
            found = await store.messages.get_message_by_agui_id(chat.chat_uuid, "m1")
            assert found is not None
            assert found.content == "Second run"

    async def test_a_create_that_is_repeated_stores_nothing_twice(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            data = MessageCreate(chat_uuid=chat.chat_uuid, role=Role.ASSISTANT, content="Hello")
            for _ in range(3):
                made = await store.messages.create_message(data)
                assert made.message_uuid == data.message_uuid
            assert await contents(store, chat) == ["Hello"]
            await store.messages.update_message(data.message_uuid, MessageUpdate(content="Hello you"))
            assert await contents(store, chat) == ["Hello you"]

    async def test_the_last_messages_are_the_newest_of_each_chat_that_has_one(self) -> None:
        async with self.open_store() as store:
            chats = [await new_chat(store) for _ in range(3)]
            for chat in chats[:2]:
                await say(store, chat, "First")
            last = [await say(store, chat, f"Last {n}") for n, chat in enumerate(chats[:2])]
            uuids = [chat.chat_uuid for chat in chats]
            found = await store.messages.get_last_messages([*uuids, uuid4()])
            assert {uuid: message.message_uuid for uuid, message in found.items()} == {
                chat.chat_uuid: message.message_uuid for chat, message in zip(chats[:2], last, strict=True)
            }
            assert await store.messages.get_last_messages([]) == {}

    async def test_what_is_done_in_a_transaction_is_there_after_it(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            async with store.messages.transaction():
                one = await say(store, chat, "One")
                await store.messages.update_message(one.message_uuid, MessageUpdate(content="One!"))
                await say(store, chat, "Two")
            assert await contents(self.elsewhere(store), chat) == ["One!", "Two"]

    async def test_an_exception_in_a_transaction_comes_out_and_the_store_goes_on(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            with pytest.raises(ZeroDivisionError):
                async with store.messages.transaction():
                    raise ZeroDivisionError
            await say(store, chat, "After")
            assert await contents(store, chat) == ["After"]

    async def test_transactions_of_several_runs_at_once_keep_out_of_each_others_way(self) -> None:
        async with self.open_store() as store:
            chats = [await new_chat(store) for _ in range(4)]

            async def talk(place: int) -> None:
                for turn in range(3):
                    async with store.messages.transaction():
                        made = await say(store, chats[place], f"{turn}")
                        await asyncio.sleep(0)
                        await store.messages.update_message(made.message_uuid, MessageUpdate(name=f"{place}"))

            await asyncio.gather(*(talk(place) for place in range(4)))
            for place, chat in enumerate(chats):
                found = await store.messages.get_chat_messages(chat.chat_uuid)
                assert [(each.content, each.name) for each in found] == [(f"{turn}", f"{place}") for turn in range(3)]
