"""What a MessageRepositoryLike must do with the tool calls and reasonings in messages."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from threadkeep.chat_history import (
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageStatus,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
)
from threadkeep.testing.conformance.store import Repositories, StoreUnderTest, new_chat, say

_WHEN = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


class NestedConformance(StoreUnderTest):
    """Tool calls and reasonings: appended to their message, in order, and changed where they are."""

    async def test_a_tool_call_is_stored_with_what_it_was_given(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "")
            data = MessageToolCallCreate(
                message_uuid=message.message_uuid,
                agui_id="c1",
                tool_call_id="res-c1",
                name="weather",
                arguments='{"city": "Øslo \ud83d"}',
                content="7 °C",
                in_progress=False,
                error="slow",
                status=MessageStatus.COMPLETE,
                created_at=_WHEN,
                encrypted_value="c2VjcmV0",
                awaiting=True,
            )
            made = await store.messages.create_message_tool_call(data)
            found = await self.elsewhere(store).messages.get_message(message.message_uuid)
            assert found is not None
            (call,) = found.tool_calls
            for name in MessageToolCallCreate.model_fields:
                if name != "message_uuid":
                    assert getattr(made, name) == getattr(call, name) == getattr(data, name), name

    async def test_a_reasoning_is_stored_with_what_it_was_given(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "")
            data = MessageReasoningCreate(
                message_uuid=message.message_uuid,
                agui_id="z1",
                name="Plan",
                content="hm\x00",
                in_progress=False,
                error="cut",
                status=MessageStatus.INTERRUPTED,
                created_at=_WHEN,
                encrypted_value="c2VjcmV0",
            )
            made = await store.messages.create_message_reasoning(data)
            found = await self.elsewhere(store).messages.get_message(message.message_uuid)
            assert found is not None
            (step,) = found.reasonings
            for name in MessageReasoningCreate.model_fields:
                if name != "message_uuid":
                    assert getattr(made, name) == getattr(step, name) == getattr(data, name), name

    async def test_nested_records_are_in_the_order_of_their_creation(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "Look")
            for n in range(5):
                await _call(store, message.message_uuid, f"c{n}")
                await _step(store, message.message_uuid, f"z{n}")
            found = await store.messages.get_message(message.message_uuid)
            assert found is not None
            assert [call.agui_id for call in found.tool_calls] == [f"c{n}" for n in range(5)]
            assert [step.agui_id for step in found.reasonings] == [f"z{n}" for n in range(5)]
            assert found.content == "Look"

    async def test_an_update_of_a_nested_record_changes_that_one_and_what_it_sets(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "Look")
            calls = [await _call(store, message.message_uuid, f"c{n}") for n in range(2)]
            steps = [await _step(store, message.message_uuid, f"z{n}") for n in range(2)]
            call_update = MessageToolCallUpdate(content="ok", status=MessageStatus.COMPLETE, name=None)
            step_update = MessageReasoningUpdate(content="done", in_progress=False)
            there = self.elsewhere(store)
            call = await there.messages.update_message_tool_call(calls[1], call_update)
            step = await there.messages.update_message_reasoning(steps[0], step_update)
            assert call is not None
            assert (call.uuid, call.name, call.content, call.status) == (calls[1], "f", "ok", "complete")
            assert step is not None
            assert (step.uuid, step.content, step.in_progress) == (steps[0], "done", False)
            found = await self.elsewhere(store).messages.get_message(message.message_uuid)
            assert found is not None
            assert [(each.content, each.status) for each in found.tool_calls] == [("", "active"), ("ok", "complete")]
            assert [(each.content, each.in_progress) for each in found.reasonings] == [("done", False), ("", True)]
            assert found.content == "Look"

    async def test_unknown_nested_records_are_none_and_an_unknown_message_takes_none(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "Look")
            call_update = MessageToolCallUpdate.model_validate({"content": "ok", "no_such_field": 1})
            assert await store.messages.update_message_tool_call(uuid4(), call_update) is None
            assert await store.messages.update_message_reasoning(uuid4(), MessageReasoningUpdate(content="x")) is None
            assert await store.messages.get_tool_call_by_agui_id(message.message_uuid, "c9") is None
            assert await store.messages.get_tool_call_by_agui_id(uuid4(), "c1") is None
            with pytest.raises(ValueError):
                await _call(store, uuid4(), "c1")
            with pytest.raises(ValueError):
                await _step(store, uuid4(), "z1")

    async def test_a_tool_call_is_found_by_its_ag_ui_id_in_its_message(self) -> None:
        async with self.open_store() as store:
            chat = await new_chat(store)
            one, other = await say(store, chat, "One"), await say(store, chat, "Other")
            mine = await _call(store, one.message_uuid, "c1")
            await _call(store, other.message_uuid, "c1")
            found = await store.messages.get_tool_call_by_agui_id(one.message_uuid, "c1")
            assert found is not None
            assert found.uuid == mine

    async def test_a_create_of_a_nested_record_that_is_repeated_stores_nothing_twice(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "")
            call = MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1", name="f")
            step = MessageReasoningCreate(message_uuid=message.message_uuid, agui_id="z1")
            for each in (store, store, self.elsewhere(store)):
                assert (await each.messages.create_message_tool_call(call)).uuid == call.uuid
                assert (await each.messages.create_message_reasoning(step)).uuid == step.uuid
            found = await store.messages.get_message(message.message_uuid)
            assert found is not None
            assert [each.uuid for each in found.tool_calls] == [call.uuid]
            assert [each.uuid for each in found.reasonings] == [step.uuid]

    async def test_writes_to_one_message_at_once_lose_nothing(self) -> None:
        async with self.open_store() as store:
            message = await say(store, await new_chat(store), "")
            calls = [await _call(store, message.message_uuid, f"c{n}") for n in range(4)]
            there = self.elsewhere(store)
            await asyncio.gather(
                store.messages.update_message(message.message_uuid, MessageUpdate(content="Look")),
                *(
                    each.messages.update_message_tool_call(call, MessageToolCallUpdate(content=f"result {n}"))
                    for n, (each, call) in enumerate(zip((store, there, store, there), calls, strict=True))
                ),
            )
            found = await self.elsewhere(store).messages.get_message(message.message_uuid)
            assert found is not None
            assert found.content == "Look"
            assert [call.content for call in found.tool_calls] == [f"result {n}" for n in range(4)]


async def _call(store: Repositories, message_uuid: UUID, agui_id: str) -> UUID:
    data = MessageToolCallCreate.model_validate({"message_uuid": message_uuid, "agui_id": agui_id, "name": "f"})
    return (await store.messages.create_message_tool_call(data)).uuid


async def _step(store: Repositories, message_uuid: UUID, agui_id: str) -> UUID:
    data = MessageReasoningCreate.model_validate({"message_uuid": message_uuid, "agui_id": agui_id})
    return (await store.messages.create_message_reasoning(data)).uuid
