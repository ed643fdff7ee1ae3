"""Chat history: the repositories, the locators, and classes of one's own."""

from datetime import UTC, datetime
from uuid import UUID

import ag_ui.core as agui
import pytest
from pydantic import Field

from interop.names import Root
from interop.scenarios import chat_agents as a

AT = datetime(2026, 11, 30, 12, 0, 0, 123456, UTC)
NOBODY = UUID("00000000-0000-4000-8000-00000000dead")


async def a_chat_is_created_once_for_a_user_and_a_thread(root: Root) -> None:
    ChatCreate = root.chat_history.ChatCreate
    async with a.wired(root) as app:
        first = await app.chats.create_chat(ChatCreate(user_uuid=a.USER, thread_id="t-1", name="First"))
        again = await app.chats.create_chat(ChatCreate(user_uuid=a.USER, thread_id="t-1", name="Second"))
        assert (again.id, again.chat_uuid, again.name) == (first.id, first.chat_uuid, "First")
        assert first.participants == [root.chat_history.participant_id(a.USER)]
        other = await app.chats.create_chat(ChatCreate(user_uuid=a.OTHER_USER, thread_id="t-1"))
        assert (other.name, other.id == first.id) == ("New Chat", False)
        with pytest.raises(ValueError):
            await app.chats.create_chat(ChatCreate(thread_id="t-1"))
        with pytest.raises(ValueError):
            await app.chats.create_chat(ChatCreate(user_uuid=a.USER))


async def chats_are_found_renamed_and_deleted(root: Root) -> None:
    ChatCreate = root.chat_history.ChatCreate
    async with a.wired(root) as app:
        one = await app.chats.create_chat(ChatCreate(user_uuid=a.USER, thread_id="t-1", name="One"))
        two = await app.chats.create_chat(ChatCreate(user_uuid=a.USER, thread_id="t-10", name="Two"))
        await app.chats.create_chat(ChatCreate(user_uuid=a.OTHER_USER, thread_id="t-1", name="Other"))
        assert (await app.chats.get_chat_by_thread_id(a.USER, "t-1")).chat_uuid == one.chat_uuid
        assert await app.chats.get_chat_by_thread_id(a.USER, "t-2") is None
        assert [chat.name for chat in await app.chats.get_all_chats(a.USER)] == ["One", "Two"]
        assert [chat.name for chat in await app.chats.get_all_chats(None)] == ["One", "Two", "Other"]
        assert (await app.chats.update_chat_name(one.chat_uuid, "Uno")).name == "Uno"
        assert await app.chats.update_chat_name(NOBODY, "x") is None
        assert (await app.chats.delete_chat(two.chat_uuid)).chat_uuid == two.chat_uuid
        assert await app.chats.delete_chat(NOBODY) is None
        assert [chat.name for chat in await app.chats.get_all_chats(a.USER)] == ["Uno"]
        assert await app.chats.get_chat_by_thread_id(a.USER, "t-10") is None


async def messages_are_created_and_updated_with_what_is_in_them(root: Root) -> None:
    ch = root.chat_history
    async with a.wired(root) as app:
        chat = await app.chats.create_chat(ch.ChatCreate(user_uuid=a.USER, thread_id="t-1"))
        asked = await app.messages.create_message(
            ch.MessageCreate(chat_uuid=chat.chat_uuid, agui_id="m1", role="user", content="Hi", timestamp=AT)
        )
        answer = await app.messages.create_message(
            ch.MessageCreate(
                chat_uuid=chat.chat_uuid, agui_id="m2", role="assistant", name="bot", step="s", timestamp=AT
            )
        )
        assert (asked.content, answer.content, str(answer.role), str(answer.status)) == (
            "Hi",
            "",
            "assistant",
            "active",
        )
        assert (asked.emitter_type, answer.emitter_type) == ("user", "agent")
        call = await app.messages.create_message_tool_call(
            ch.MessageToolCallCreate(message_uuid=answer.message_uuid, agui_id="c1", name="weather", created_at=AT)
        )
        step = await app.messages.create_message_reasoning(
            ch.MessageReasoningCreate(message_uuid=answer.message_uuid, agui_id="r1", name="Thinking", created_at=AT)
        )
        assert (call.arguments, call.content, step.content) == ("", "", "")
        changed = await app.messages.update_message_tool_call(
            call.uuid, ch.MessageToolCallUpdate(arguments="{}", content="sunny", in_progress=False, status="complete")
        )
        assert (changed.name, changed.content, str(changed.status)) == ("weather", "sunny", "complete")
        thought = await app.messages.update_message_reasoning(
            step.uuid, ch.MessageReasoningUpdate(content="Hm.", error="lost the thread", status="errored")
        )
        assert (thought.content, thought.error, thought.in_progress) == ("Hm.", "lost the thread", True)
        told = await app.messages.update_message(
            answer.message_uuid, ch.MessageUpdate(content="Sunny.", in_progress=False, status="complete")
        )
        assert (told.content, str(told.status), told.error) == ("Sunny.", "complete", None)
        last = (await app.messages.get_chat_messages(chat.chat_uuid))[-1]
        assert [(each.agui_id, each.content) for each in last.tool_calls] == [("c1", "sunny")]
        assert [(each.agui_id, each.content, each.name) for each in last.reasonings] == [("r1", "Hm.", "Thinking")]
        assert (last.name, last.step, last.timestamp) == ("bot", "s", AT)


async def what_is_unknown_is_none_or_an_error(root: Root) -> None:
    ch = root.chat_history
    async with a.wired(root) as app:
        chat = await app.chats.create_chat(ch.ChatCreate(user_uuid=a.USER, thread_id="t-1"))
        assert await app.messages.get_message(NOBODY) is None
        assert await app.messages.get_message_by_agui_id(chat.chat_uuid, "nobody") is None
        assert await app.messages.get_tool_call_by_agui_id(NOBODY, "nobody") is None
        assert list(await app.messages.get_chat_messages(NOBODY)) == []
        assert await app.messages.get_last_messages([NOBODY, chat.chat_uuid]) == {}
        assert await app.messages.update_message(NOBODY, ch.MessageUpdate(content="x")) is None
        assert await app.messages.update_message_tool_call(NOBODY, ch.MessageToolCallUpdate(content="x")) is None
        assert await app.messages.update_message_reasoning(NOBODY, ch.MessageReasoningUpdate(content="x")) is None
        assert await app.registry.resolve(NOBODY) is None
        with pytest.raises(ValueError):
            await app.messages.create_message(ch.MessageCreate(content="x"))
        with pytest.raises(ValueError):
            await app.messages.create_message_tool_call(ch.MessageToolCallCreate(message_uuid=NOBODY))
        with pytest.raises(ValueError):
            await app.messages.create_message_reasoning(ch.MessageReasoningCreate(message_uuid=NOBODY))


async def another_process_finds_everything_by_its_uuid(root: Root) -> None:
    ch = root.chat_history
    async with a.wired(root) as app:
        chat = await app.chats.create_chat(ch.ChatCreate(user_uuid=a.USER, thread_id="t-1"))
        message = await app.messages.create_message(
            ch.MessageCreate(chat_uuid=chat.chat_uuid, agui_id="m1", role="assistant", content="Hi")
        )
        call = await app.messages.create_message_tool_call(
            ch.MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1", name="f")
        )
        step = await app.messages.create_message_reasoning(ch.MessageReasoningCreate(message_uuid=message.message_uuid))

        def elsewhere() -> object:
            registry = ch.ChatSessionRegistry(app.space)
            assert registry.get_session_id(chat.chat_uuid) is None
            return ch.MessageRepository(app.space, registry)

        assert (await elsewhere().get_message(message.message_uuid)).content == "Hi"
        assert (await elsewhere().get_message_by_agui_id(chat.chat_uuid, "m1")).message_uuid == message.message_uuid
        assert (await elsewhere().get_tool_call_by_agui_id(message.message_uuid, "c1")).uuid == call.uuid
        await elsewhere().update_message_tool_call(call.uuid, ch.MessageToolCallUpdate(content="result"))
        await elsewhere().update_message_reasoning(step.uuid, ch.MessageReasoningUpdate(content="Hm."))
        await elsewhere().update_message(message.message_uuid, ch.MessageUpdate(content="Hi again"))
        latest = await elsewhere().get_last_messages([chat.chat_uuid])
        (found,) = latest.values()
        assert (found.content, found.tool_calls[0].content, found.reasonings[0].content) == (
            "Hi again",
            "result",
            "Hm.",
        )
        assert await ch.ChatSessionRegistry(app.space).resolve(chat.chat_uuid) == chat.id
        locator = await ch.LocatorIndex(app.space).get(ch.LOCATOR_KIND_TOOL_CALL, call.uuid)
        assert (locator.session_id, locator.message_uuid) == (chat.id, message.message_uuid)


async def the_helpers_derive_the_same(root: Root) -> None:
    """Nothing is stored but a note of what they say, so that the rows compare it."""
    ch = root.chat_history

    class Noted(root.persistence.DRSession):  # type: ignore[name-defined]
        said: list[object] = Field(default_factory=list)

    said = [
        ch.chat_deduplication_key(a.USER, "thread-1"),
        ch.session_deduplication_key("chat", "ü", ""),
        ch.participant_id(a.USER),
        ch.participant_id(a.USER, override="A" * 24),
        ch.participant_id(a.USER, override="no id"),
        ch.normalize_participant_id("ABCDEF0123456789abcdef01"),
        ch.normalize_participant_id("short"),
        ch.normalize_participant_id(None),
        ch.locator_key(ch.LOCATOR_KIND_CHAT, a.USER),
        list(ch.emitter_for_role("user", "p")),
        list(ch.emitter_for_role("assistant", "p")),
        list(ch.emitter_for_role("tool", None)),
        ch.wire_non_empty_str(""),
        ch.wire_non_empty_str("x"),
        ch.wire_non_empty_str(None),
        ch.app_str("\u200b"),
        ch.app_str("x"),
        ch.app_str(None),
        [str(role) for role in ch.Role],
        [str(status) for status in ch.MessageStatus],
        [str(code) for code in ch.ErrorCodes],
        [ch.PAYLOAD_VERSION, ch.MEMORY_CHAT_MESSAGE_EVENT_TYPE],
    ]
    async with a.wired(root) as app:
        await Noted.post(app.space, said=said)


async def classes_of_ones_own_keep_their_fields(root: Root) -> None:
    ch = root.chat_history

    class MyToolCall(ch.ToolCall):  # type: ignore[name-defined]
        cost: float = 0.0

    class MyMessage(ch.Message, session=ch.Chat):  # type: ignore[name-defined, call-arg]
        team: str = ""
        finished_at: datetime | None = None
        tool_calls: list[MyToolCall] = Field(default_factory=list)

    class MyMessageCreate(ch.MessageCreate):  # type: ignore[name-defined]
        team: str = ""

    class MyMessageUpdate(ch.MessageUpdate):  # type: ignore[name-defined]
        finished_at: datetime | None = None

    class MyAgent(ch.AGUIStorageAgent):  # type: ignore[name-defined]
        @classmethod
        def event_handlers(cls) -> dict[type, str]:
            return {**super().event_handlers(), agui.CustomEvent: "handle_custom"}

        async def handle_custom(self, state: object, chat: object, event: agui.CustomEvent) -> None:
            noticed.append(event.value)

        def build_message_create(self, state: object, chat: object, agui_id: str, role: str) -> object:
            base = super().build_message_create(state, chat, agui_id, role)
            return MyMessageCreate(**base.model_dump(), team="research")

    noticed: list[object] = []
    async with a.wired(root) as app:
        messages = ch.MessageRepository(app.space, app.registry, message_cls=MyMessage)
        script = [a.started(), *a.text("m2", "Hi"), agui.CustomEvent(name="n", value=7), a.finished()]
        manager = ch.StreamPersistenceManager(
            lambda: MyAgent("assistant", a.USER, app.chats, messages, a.scripted(root, script))
        )
        assert await a.read(await manager.run(a.run_input(a.user("Hello!")))) == script
        chat = await app.chats.get_chat_by_thread_id(a.USER, "thread-1")
        _, message = await messages.get_chat_messages(chat.chat_uuid)
        assert (message.content, noticed) == ("Hi", [7])
        changed = await messages.update_message(message.message_uuid, MyMessageUpdate(finished_at=AT))
        assert (changed.finished_at, changed.content) == (AT, "Hi")


async def stored_messages_become_history(root: Root) -> None:
    ch = root.chat_history
    async with a.wired(root) as app:
        chat = await app.chats.create_chat(ch.ChatCreate(user_uuid=a.USER, thread_id="t-1"))
        message = await app.messages.create_message(
            ch.MessageCreate(chat_uuid=chat.chat_uuid, agui_id="m1", role="assistant", content="One moment.")
        )
        await app.messages.create_message_tool_call(
            ch.MessageToolCallCreate(message_uuid=message.message_uuid, agui_id="c1", name="f", arguments="{}")
        )
        await app.messages.create_message_reasoning(
            ch.MessageReasoningCreate(message_uuid=message.message_uuid, agui_id="r1", content="Hm.")
        )
        history = list(ch.translate_messages(await app.messages.get_chat_messages(chat.chat_uuid)))
        assert [(each.role, each.content) for each in history] == [
            ("assistant", "One moment."),
            ("tool", "Completed f"),
            ("reasoning", "Hm."),
        ]
        assert history[0].tool_calls[0].id == history[1].tool_call_id == "c1"
        public = ch.MessagePublic.from_message((await app.messages.get_chat_messages(chat.chat_uuid))[0])
        assert (public.content, public.agui_id, public.tool_calls[0].name) == ("One moment.", "m1", "f")


SCENARIOS = (
    a_chat_is_created_once_for_a_user_and_a_thread,
    chats_are_found_renamed_and_deleted,
    messages_are_created_and_updated_with_what_is_in_them,
    what_is_unknown_is_none_or_an_error,
    another_process_finds_everything_by_its_uuid,
    the_helpers_derive_the_same,
    classes_of_ones_own_keep_their_fields,
    stored_messages_become_history,
)
