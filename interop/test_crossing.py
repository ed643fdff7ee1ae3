"""A thread that one package began goes on with the other: both read and change what the other has stored."""

import asyncio
from typing import Any

import ag_ui.core as agui
import pytest

from interop import names
from interop.names import Root
from interop.rows import Account
from interop.scenarios import chat_agents as a

ROOTS = {"published": names.published, "ours": names.ours}


def first() -> list[Any]:
    """New events for each run: the published package writes its time into those that pass."""
    return [
        a.started(),
        *a.text("m2", "One moment."),
        *a.reasoning("r1", "Hm."),
        *a.called("c1", "weather", '{"city":"Rome"}', parent="m2"),
        a.result("c1", "sunny"),
        *a.text("m3", "It is sunny."),
        a.finished(),
    ]


def second() -> list[Any]:
    return [a.started("run-2"), *a.text("m5", "You asked."), a.finished("run-2")]


@pytest.fixture(params=[("published", "ours"), ("ours", "published")], ids=" then ".join)
def roots(request: pytest.FixtureRequest, account: Account) -> list[Root]:
    account.empty()
    return [ROOTS[name]() for name in request.param]


def test_the_next_run_sees_the_history_and_adds_to_it(roots: list[Root]) -> None:
    asyncio.run(_go_on(*roots))


async def _go_on(begins: Root, goes_on: Root) -> None:
    async with a.wired(begins) as app:
        await a.read((await app.play(first(), a.user("Weather?"))).handle)
    async with a.wired(goes_on) as app:
        run = await app.play(second(), a.user("Why?", "m4"), run_id="run-2")
        await a.read(run.handle)
        (seen,) = run.agent.seen
    history = [
        ("user", "Weather?"),
        ("assistant", "One moment."),
        ("tool", "sunny"),
        ("reasoning", "Hm."),
        ("assistant", "It is sunny."),
        ("user", "Why?"),
    ]
    if hasattr(goes_on.chat_history, "repair_messages"):
        # No provider can verify it.
        history.remove(("reasoning", "Hm."))
    assert [(str(message.role), message.content) for message in seen] == history
    assert seen[1].tool_calls[0].id == seen[2].tool_call_id == "c1"
    for root in (begins, goes_on):
        async with a.wired(root) as app:
            assert [(str(each.role), each.content, str(each.status)) for each in await app.history()] == [
                ("user", "Weather?", "complete"),
                ("assistant", "One moment.", "complete"),
                ("assistant", "It is sunny.", "complete"),
                ("user", "Why?", "complete"),
                ("assistant", "You asked.", "complete"),
            ]


def test_what_one_has_stored_the_other_finds_by_its_uuid_and_changes(roots: list[Root]) -> None:
    asyncio.run(_change(*roots))


async def _change(begins: Root, goes_on: Root) -> None:
    async with a.wired(begins) as app:
        await a.read((await app.play(first(), a.user("Weather?"))).handle)
        _, message, _ = await app.history()
    call, step = message.tool_calls[0].uuid, message.reasonings[0].uuid
    ch = goes_on.chat_history
    async with a.wired(goes_on) as app:
        chat = await app.chats.get_chat_by_thread_id(a.USER, "thread-1")
        assert (chat.name, chat.chat_uuid) == ("Weather?", message.chat_uuid)
        assert (await app.messages.get_message(message.message_uuid)).content == "One moment."
        await app.messages.update_message(message.message_uuid, ch.MessageUpdate(content="Two moments."))
        await app.messages.update_message_tool_call(call, ch.MessageToolCallUpdate(content="rain"))
        await app.messages.update_message_reasoning(step, ch.MessageReasoningUpdate(content="Oh."))
        assert (await app.chats.update_chat_name(chat.chat_uuid, "Rain")).name == "Rain"
    async with a.wired(begins) as app:
        chat = await app.chats.get_chat_by_thread_id(a.USER, "thread-1")
        _, message, _ = await app.history()
    assert (chat.name, message.content) == ("Rain", "Two moments.")
    assert (message.tool_calls[0].content, message.tool_calls[0].arguments) == ("rain", '{"city":"Rome"}')
    assert message.reasonings[0].content == "Oh."


def test_a_client_that_echoes_all_may_change_the_package_too(roots: list[Root]) -> None:
    asyncio.run(_echo(*roots))


async def _echo(begins: Root, goes_on: Root) -> None:
    async with a.wired(begins) as app:
        run = await app.play(first(), a.user("Weather?"))
        await a.read(run.handle)
        again = await app.play(second(), a.user("Why?", "m4"), run_id="run-2")
        await a.read(again.handle)
        (echoed,) = again.agent.seen
    third = [a.started("run-3"), *a.text("m7", "Indeed."), a.finished("run-3")]
    # Over HTTP they are JSON, and back they come as the protocol's own classes.
    said: list[Any] = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in echoed]
    said.append(a.user("And now?", "m6"))
    async with a.wired(goes_on) as app:
        events = await a.read((await app.play(third, *said, run_id="run-3")).handle)
        assert a.types(events)[-1] == "RUN_FINISHED"
        contents = [message.content for message in await app.history()]
    assert contents == ["Weather?", "One moment.", "It is sunny.", "Why?", "You asked.", "And now?", "Indeed."]


def test_a_call_that_the_published_package_left_unanswered_is_answered_with_ours(account: Account) -> None:
    account.empty()
    asyncio.run(_answer(names.published(), names.ours()))


async def _answer(begins: Root, goes_on: Root) -> None:
    script = [a.started(), *a.called("c1", "confirm", "{}", parent="m2"), a.finished()]
    answer = agui.ToolMessage(id="t1", role="tool", content="yes", tool_call_id="c1")
    async with a.wired(begins) as app:
        await a.read((await app.play(script, a.user("Do it"))).handle)
    async with a.wired(goes_on) as app:
        run = await app.play(second(), answer, run_id="run-2")
        await a.read(run.handle)
        assert [(str(message.role), message.content) for message in run.agent.seen[0]][-1] == ("tool", "yes")
        _, message, _ = await app.history()
        assert [(call.agui_id, call.content) for call in message.tool_calls] == [("c1", "yes")]
