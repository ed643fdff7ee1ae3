"""Every field case of the AG-UI layer, as raw JSON and, where the installed release knows the events, as objects."""

import asyncio
import copy
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from tests.chat_history.cases import history_of, load_cases, pick
from tests.chat_history.memory_store import MemoryChats, MemoryMessages
from tests.chat_history.scripts import Crash, ScriptedAgent, as_object, until, wire_input
from threadkeep.chat_history import AGUIStorageAgent, RunHandle, StreamPersistenceManager
from threadkeep.chat_history.ag_ui.wire import event_fields, event_type

CASES = load_cases()
USER = UUID(int=7)
TERMINALS = {"RUN_FINISHED", "RUN_ERROR"}
FAULTS = ("070-store-down-during-run", "098-message-deleted-chat-while-running")

# Where the notes of a case allow another reading than the one it spells out, ours.
OUR_READING: dict[str, Any] = {
    # The failure is visible in history.
    "031-run-error-is-first-event": lambda expected: [
        *expected,
        {"role": "assistant", "content": "", "status": "errored", "tool_calls": [], "reasonings": []},
    ],
    # A process that died interrupted its runs.
    "038-disconnect-then-server-restart": lambda expected: _with_status(expected, "errored", "interrupted"),
}


def _with_status(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_with_status(each, old, new) for each in value]
    if isinstance(value, dict):
        return {key: _with_status(each, old, new) for key, each in value.items()}
    return new if value == old else value


def _as_objects(case: dict[str, Any]) -> bool:
    try:
        for event in case["input"]["events"] + _second(case).get("events", []):
            as_object(event)
    except (AttributeError, TypeError, ValidationError):
        return False
    return True


def _second(case: dict[str, Any]) -> dict[str, Any]:
    then = case["input"].get("then")
    return then.get("second_run", {}) if isinstance(then, dict) else {}


FORMS = [(name, False) for name in CASES if name not in FAULTS] + [
    (name, True) for name, case in CASES.items() if name not in FAULTS and _as_objects(case)
]


class House:
    """A store, and the runs of the cases on it."""

    def __init__(self, objects: bool = False) -> None:
        self.chats = MemoryChats()
        self.messages = MemoryMessages()
        self.objects = objects
        self.agents: list[ScriptedAgent] = []

    async def begin(self, run_input: dict[str, Any], script: Sequence[Any], user: UUID = USER) -> RunHandle:
        agent = ScriptedAgent(script, objects=self.objects)
        self.agents.append(agent)
        manager = StreamPersistenceManager(lambda: AGUIStorageAgent("case", user, self.chats, self.messages, agent))
        return await manager.run(wire_input(**run_input))

    async def history(self, thread_id: str, user: UUID = USER) -> list[dict[str, Any]]:
        chat = await self.chats.get_chat_by_thread_id(user, thread_id)
        assert chat is not None
        return history_of(await self.messages.get_chat_messages(chat.chat_uuid))


async def play(case: dict[str, Any], house: House) -> list[tuple[RunHandle, list[Any], list[Any]]]:
    """Play a case to its end; each run with the events that its agent emitted and those that its client got."""
    given, then = case["input"], case["input"].get("then")
    script, gate = list(given["events"]), asyncio.Event()
    cancels = then == "cancel" or (isinstance(then, dict) and then.get("cancel"))
    if then == "crash":
        script.append(Crash("the process died"))
    if cancels or (isinstance(then, str) and "kill -9" in then):
        script.append(gate)
    second = _second(case)
    if second.get("interleave"):
        return await _play_both(given, second, house)
    first = await house.begin(given["run_input"], script)
    if cancels:
        await _read(first, len(given["events"]))
        assert first.cancel()
    elif isinstance(then, str) and "kill -9" in then:
        await _kill(first, len(given["events"]), house)
    elif isinstance(then, dict) and "disconnect" in then:
        await _read(first, then["disconnect"]["after"] + 1)
    await first.wait()
    if then == "cancel after the terminal event":
        assert not first.cancel()
    runs = [(first, given["events"], await _read(first))]
    if "after_first" in (then if isinstance(then, dict) else {}):
        now = await house.history(given["run_input"]["threadId"])
        assert pick(now, then["after_first"]) == then["after_first"]
    if second:
        again = await house.begin(second["run_input"], second["events"])
        await again.wait()
        runs.append((again, second["events"], await _read(again)))
    return runs


async def _play_both(given: dict[str, Any], second: dict[str, Any], house: House) -> list[Any]:
    """Two runs whose events come alternately."""
    turns = [asyncio.Event(), asyncio.Event()]

    def alternating(events: list[Any], mine: asyncio.Event, other: asyncio.Event) -> list[Any]:
        async def pass_on() -> None:
            mine.clear()
            other.set()

        return [step for event in events for step in (mine, event, pass_on)]

    handles = [
        await house.begin(given["run_input"], alternating(given["events"], *turns)),
        await house.begin(second["run_input"], alternating(second["events"], *reversed(turns))),
    ]
    turns[0].set()
    for handle in handles:
        await handle.wait()
    emitted = (given["events"], second["events"])
    return [(handle, events, await _read(handle)) for handle, events in zip(handles, emitted, strict=True)]


async def _kill(run: RunHandle, count: int, house: House) -> None:
    """The process dies when the events are out: only what was written by then is left, and another run comes."""
    await _read(run, count)
    writers = [task for task in asyncio.all_tasks() if task.get_name().startswith("fold ")]
    assert len(writers) == 1
    await until(lambda: any(message.tool_calls for message in house.messages.messages.values()))
    left = copy.deepcopy(house.messages.messages)
    run.cancel()
    await run.wait()
    house.messages.messages = left
    again = await house.begin({"threadId": run.thread_id, "runId": "after-the-restart"}, [])
    await again.wait()
    house.messages.messages = {
        uuid: message for uuid, message in house.messages.messages.items() if message.run_id != "after-the-restart"
    }


async def _read(run: RunHandle, count: int | None = None) -> list[Any]:
    events: list[Any] = []
    if count == 0:
        return events
    async for event in run.events():
        events.append(event)
        if len(events) == count:
            break
    return events


@pytest.mark.parametrize(("name", "objects"), FORMS, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_field_case_leaves_the_history_that_a_user_wants(name: str, objects: bool, monkeypatch: Any) -> None:
    # The killed process of a case has written all it had.
    monkeypatch.setattr("threadkeep.chat_history.ag_ui.policy.FlushPolicy.wait", lambda self, **_: 0.0)
    case = CASES[name]
    house = House(objects)
    runs = await play(case, house)

    expected = OUR_READING.get(name, lambda same: same)(case["expect"]["messages"])
    actual = await house.history(case["input"]["run_input"]["threadId"])
    if _second(case).get("interleave"):
        # The order of two turns that happen at once is open; each row is whole.
        expected = sorted(expected, key=lambda row: row["content"])
        actual = sorted(actual, key=lambda row: row["content"])
    assert pick(actual, expected) == expected

    for run, emitted, received in runs:
        through = received[: len(emitted)]
        if objects:
            assert through == [as_object(event) for event in emitted]
        else:
            assert [event_fields(event) for event in through] == emitted
        added = [event_type(event) for event in received[len(emitted) :]]
        ended_by_itself = bool(emitted) and emitted[-1]["type"] in TERMINALS
        # A cancelled run is closed and finishes; one that fails or just stops ends with an error.
        cancelled = any(row.get("status") == "interrupted" for row in expected)
        terminals = [] if ended_by_itself else ["RUN_FINISHED" if cancelled else "RUN_ERROR"]
        assert [kind for kind in added if kind in TERMINALS] == terminals == added[-1:], run.run_id


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "next_model_input" in case["expect"]])
async def test_a_field_case_leads_to_an_input_that_a_model_accepts(name: str) -> None:
    case = CASES[name]
    house = House()
    await play(case, house)
    expected = case["expect"]["next_model_input"]
    seen = house.agents[-1].seen[0]
    assert [message["role"] for message in seen] == [message["role"] for message in expected]
    for message, wanted in zip(seen, expected, strict=True):
        if "tool_calls" in wanted:
            assert [call["id"] for call in message["toolCalls"]] == wanted["tool_calls"]
        elif wanted["role"] == "tool":
            assert message["toolCallId"] == wanted["tool_call_id"]
            assert message["content"] == "slow was interrupted before it gave a result"
        else:
            assert message["content"] == wanted["content"]


async def test_a_store_that_is_down_refuses_the_run_before_the_agent_is_asked_and_a_retry_stores_the_turn() -> None:
    case = CASES["070-store-down-during-run"]
    house = House()

    async def down() -> None:
        raise ConnectionError("503")

    house.messages.before_write = down
    run = await house.begin(case["input"]["run_input"], case["input"]["events"])
    await run.wait()
    (event,) = await _read(run)
    assert (event.type.value, event.code) == ("RUN_ERROR", "INTERNAL_ERROR")
    assert house.agents[0].seen == []

    house.messages.before_write = None
    again = await house.begin(case["input"]["run_input"], case["input"]["events"])
    await again.wait()
    assert [(row["role"], row["content"]) for row in await house.history("t1")] == [
        ("user", "hi"),
        ("assistant", "Hello"),
    ]


async def test_a_chat_that_is_deleted_in_the_middle_of_a_run_stays_deleted_and_the_stream_goes_on() -> None:
    case = CASES["098-message-deleted-chat-while-running"]
    house = House()
    deleted = asyncio.Event()
    events = case["input"]["events"]
    run = await house.begin(case["input"]["run_input"], [*events[:3], deleted, *events[3:]])
    await _read(run, 3)
    chat = next(iter(house.chats.chats.values()))
    await house.chats.delete_chat(chat.chat_uuid)
    house.messages.messages.clear()

    async def refuse() -> None:
        from threadkeep.persistence import DRMemoryNotFoundError

        raise DRMemoryNotFoundError("gone", 404)

    house.messages.before_write = refuse
    deleted.set()
    await run.wait()
    assert [event_fields(event) for event in await _read(run)] == events
    assert house.messages.messages == {}


async def test_two_users_may_have_the_same_thread_id() -> None:
    case = CASES["016-start-end-without-content"]
    house = House()
    other = uuid4()
    for user in (USER, other):
        await (await house.begin(case["input"]["run_input"], case["input"]["events"], user)).wait()
    assert len(house.chats.chats) == 2
    assert len(await house.history("t1", USER)) == len(await house.history("t1", other)) == 2
