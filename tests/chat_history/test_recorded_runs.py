"""Whole runs on the service, on both engines: outcomes, restarts, several runs and users, odd text."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.chat_history.cases import history_of, load_cases, pick
from tests.chat_history.scripts import (
    Crash,
    ScriptedAgent,
    called,
    finished,
    result,
    run_of,
    said,
    started,
    thought,
    until,
    wire_input,
)
from tests.chat_history.stores import Store
from threadkeep.chat_history import AGUIStorageAgent, Message, RunHandle, StreamPersistenceManager
from threadkeep.chat_history.ag_ui import opening
from threadkeep.chat_history.ag_ui.wire import event_type

CASES = load_cases()
HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]


async def begin(store: Store, user: UUID, script: list[Any], **run_input: Any) -> tuple[RunHandle, ScriptedAgent]:
    inner = ScriptedAgent(script)
    manager = StreamPersistenceManager(lambda: AGUIStorageAgent("assistant", user, store.chats, store.messages, inner))
    return await manager.run(wire_input(**{"messages": HELLO, **run_input})), inner


async def history(store: Store, user: UUID, thread_id: str = "t1") -> list[dict[str, Any]]:
    chat = await store.chats.get_chat_by_thread_id(user, thread_id)
    return history_of(await store.messages.get_chat_messages(chat.chat_uuid))


def brief(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["role"], row["content"], row["status"]) for row in rows]


async def read(handle: RunHandle, count: int | None = None) -> list[str]:
    kinds: list[str] = []
    async for event in handle.events():
        kinds.append(event_type(event))
        if len(kinds) == count:
            break
    return kinds


async def test_a_run_that_finishes_is_complete(store: Store, user_uuid: UUID) -> None:
    script = run_of(thought("z1", "hm"), said("m1", "Let me look"), called("c1"), result("c1", "4C"), said("m2", "4C"))
    handle, _ = await begin(store, user_uuid, script)
    await handle.wait()
    user, first, second = await history(store.elsewhere(), user_uuid)
    assert brief([user, first, second]) == [
        ("user", "Hello!", "complete"),
        ("assistant", "Let me look", "complete"),
        ("assistant", "4C", "complete"),
    ]
    assert pick(first["tool_calls"], [{"content": "", "status": ""}]) == [{"content": "4C", "status": "complete"}]
    assert pick(first["reasonings"], [{"content": "", "status": ""}]) == [{"content": "hm", "status": "complete"}]


async def test_a_run_that_is_cancelled_is_interrupted(store: Store, user_uuid: UUID) -> None:
    script = [started(), *said("m1", "One, two")[:2], *called("c1")[:2], asyncio.Event()]
    handle, _ = await begin(store, user_uuid, script)
    await read(handle, 5)
    assert handle.cancel()
    await handle.wait()
    rows = await history(store.elsewhere(), user_uuid)
    assert brief(rows)[1:] == [("assistant", "One, two", "interrupted")]
    assert [call["status"] for call in rows[1]["tool_calls"]] == ["interrupted"]


async def test_a_run_whose_agent_raises_is_errored(store: Store, user_uuid: UUID) -> None:
    handle, _ = await begin(store, user_uuid, [started(), *said("m1", "Half")[:2], Crash("it broke")])
    assert (await read(handle))[-1] == "RUN_ERROR"
    await handle.wait()
    assert brief(await history(store.elsewhere(), user_uuid))[1:] == [("assistant", "Half", "errored")]


async def test_a_run_whose_reader_leaves_is_complete(store: Store, user_uuid: UUID) -> None:
    handle, _ = await begin(store, user_uuid, run_of(said("m1", "One ", "two")))
    await read(handle, 2)
    await handle.wait()
    assert brief(await history(store.elsewhere(), user_uuid))[1:] == [("assistant", "One two", "complete")]


async def test_a_conversation_goes_on_after_a_restart(store: Store, user_uuid: UUID) -> None:
    script = [started(), *called("c1", "map"), finished()]
    handle, _ = await begin(store, user_uuid, script, tools=[{"name": "map", "description": "", "parameters": {}}])
    await handle.wait()
    after = store.elsewhere()
    answer = [{"id": "t1", "role": "tool", "toolCallId": "c1", "content": "51.4,-1.3"}]
    handle, inner = await begin(
        after, user_uuid, run_of(said("m2", "You are in X"), run_id="r2"), messages=answer, runId="r2"
    )
    await handle.wait()
    assert [(message["role"], message.get("content")) for message in inner.seen[0]] == [
        ("user", "Hello!"),
        ("assistant", None),
        ("tool", "51.4,-1.3"),
    ]
    rows = await history(store.elsewhere(), user_uuid)
    assert brief(rows) == [
        ("user", "Hello!", "complete"),
        ("assistant", "", "complete"),
        ("assistant", "You are in X", "complete"),
    ]
    assert rows[1]["tool_calls"][0]["content"] == "51.4,-1.3"


async def test_two_runs_on_one_thread_do_not_mix(store: Store, user_uuid: UUID) -> None:
    other_process = store.elsewhere()
    turns = [asyncio.Event(), asyncio.Event()]

    def alternating(events: list[Any], mine: asyncio.Event, other: asyncio.Event) -> list[Any]:
        async def pass_on() -> None:
            mine.clear()
            other.set()

        return [step for event in events for step in (mine, event, pass_on)]

    first = run_of(thought("z", "a?"), said("m", *["A1", "A2"] * 20), called("c"), result("c", "ra"), run_id="rA")
    second = run_of(thought("z", "b?"), said("m", *["B1", "B2"] * 20), called("c"), result("c", "rb"), run_id="rB")
    handles = [
        (await begin(store, user_uuid, alternating(first, *turns), runId="rA"))[0],
        (
            await begin(
                other_process,
                user_uuid,
                alternating(second, *reversed(turns)),
                runId="rB",
                messages=[{"id": "u9", "role": "user", "content": "other"}],
            )
        )[0],
    ]
    turns[0].set()
    for handle in handles:
        await handle.wait()
    rows = sorted(await history(store.elsewhere(), user_uuid), key=lambda row: row["content"])
    assert brief(rows) == [
        ("assistant", "A1A2" * 20, "complete"),
        ("assistant", "B1B2" * 20, "complete"),
        ("user", "Hello!", "complete"),
        ("user", "other", "complete"),
    ]
    assert [row["tool_calls"][0]["content"] for row in rows[:2]] == ["ra", "rb"]
    assert [row["reasonings"][0]["content"] for row in rows[:2]] == ["a?", "b?"]


async def test_a_run_that_another_process_takes_for_dead_is_whole_in_the_end(
    store: Store, user_uuid: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    flushed: list[bool] = []
    patch = Message.post

    async def post(session: Any, **fields: Any) -> Message:
        message = await patch(session, **fields)
        if fields["role"] == "assistant":
            flushed.append(True)
        return message

    monkeypatch.setattr(Message, "post", post)
    monkeypatch.setattr("threadkeep.chat_history.ag_ui.policy.FlushPolicy.wait", lambda self, **_: 0.0)
    first, last = said("m1", "One ", "two")[:2], said("m1", "One ", "two")[2:]
    slow, _ = await begin(store, user_uuid, [started(), *first, gate, *last, finished()])
    await read(slow, 3)
    await until(lambda: bool(flushed))

    # The other process knows nothing of the runs of this one.
    here = opening.live_runs
    monkeypatch.setattr(opening, "live_runs", opening.LiveRuns())
    fast, _ = await begin(store.elsewhere(), user_uuid, [], runId="r2", messages=[])
    await read(fast)
    monkeypatch.setattr(opening, "live_runs", here)
    assert ("assistant", "One ", "interrupted") in brief(await history(store.elsewhere(), user_uuid))
    gate.set()
    await slow.wait()
    assert ("assistant", "One two", "complete") in brief(await history(store.elsewhere(), user_uuid))


async def test_two_users_with_one_thread_id_have_two_histories(store: Store, user_uuid: UUID) -> None:
    other = uuid4()
    for user, text in ((user_uuid, "mine"), (other, "theirs")):
        handle, inner = await begin(store, user, run_of(said("m1", text)))
        await handle.wait()
        assert len(inner.seen[0]) == 1
    assert brief(await history(store, user_uuid))[1:] == [("assistant", "mine", "complete")]
    assert brief(await history(store, other))[1:] == [("assistant", "theirs", "complete")]


async def test_a_run_costs_few_requests(store: Store, user_uuid: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    http = store.space.client._http
    send = http.send

    async def count(request: Any, **options: Any) -> Any:
        # Locators are counted apart; they go when the service can look events up by key.
        if b"//loc/" not in request.content:
            sent.append(f"{request.method} {request.url.path}")
        return await send(request, **options)

    monkeypatch.setattr(http, "send", count)
    events = run_of(
        thought("z1", *["think "] * 200),
        called("c1"),
        called("c2"),
        result("c1"),
        result("c2"),
        said("m1", *["word "] * 1_800),
    )
    assert len(events) > 2_000
    handle, _ = await begin(store, user_uuid, events)
    await handle.wait()
    assert len(sent) <= 12
    assert brief(await history(store, user_uuid))[1:] == [
        ("assistant", "", "complete"),
        ("assistant", "word " * 1_800, "complete"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "026-encrypted-only-reasoning",
        "061-multimodal-user-content",
        "064-emoji-and-combining-text",
        "065-surrogate-pair-split-across-deltas",
        "067-nul-characters",
        "097-agent-ids-that-look-hostile",
    ],
)
async def test_odd_text_is_the_same_on_both_engines(store: Store, user_uuid: UUID, name: str) -> None:
    case = CASES[name]
    handle, _ = await begin(store, user_uuid, case["input"]["events"], **case["input"]["run_input"])
    await handle.wait()
    expected = case["expect"]["messages"]
    actual = await history(store.elsewhere(), user_uuid, case["input"]["run_input"]["threadId"])
    assert pick(actual, expected) == expected


async def test_a_megabyte_is_forwarded_whole_and_stored_whole(store: Store, user_uuid: UUID) -> None:
    case = CASES["068-one-megabyte-message"]
    handle, _ = await begin(store, user_uuid, case["input"]["events"], **case["input"]["run_input"])
    await handle.wait()
    assert await read(handle) == [event["type"] for event in case["input"]["events"]]
    chat = await store.chats.get_chat_by_thread_id(user_uuid, "t1")
    _, message = await store.elsewhere().messages.get_chat_messages(chat.chat_uuid)
    assert (message.role.value, message.status.value, message.agui_id) == ("assistant", "complete", "m1")
    assert (len(message.content), message.error) == (1_048_576, None)
    assert message.content == "x" * 1_048_576
    assert message.tool_calls[0].content == "é" * 1_048_576


async def test_a_chat_that_is_deleted_in_the_middle_of_a_run_stays_deleted(store: Store, user_uuid: UUID) -> None:
    deleted = asyncio.Event()
    begin_text, first, *rest = said("m1", "still ", "writing")
    handle, _ = await begin(store, user_uuid, [started(), begin_text, first, deleted, *rest, finished()])
    await read(handle, 3)
    chat = await store.chats.get_chat_by_thread_id(user_uuid, "t1")
    await store.elsewhere().chats.delete_chat(chat.chat_uuid)
    deleted.set()
    assert (await read(handle))[-1] == "RUN_FINISHED"
    await handle.wait()
    assert await store.elsewhere().chats.get_chat_by_thread_id(user_uuid, "t1") is None
