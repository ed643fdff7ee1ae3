"""The examples of `docs/extending.md`, run on the real service on both engines; the suite in a project of its own."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from ag_ui.core import CustomEvent

from tests.chat_history.scripts import (
    ScriptedAgent,
    called,
    finished,
    result,
    run_of,
    said,
    started,
    thought,
    wire_input,
)
from tests.chat_history.stores import Store
from tests.test_docs import ROOT, execute, snippet
from threadkeep.chat_history import Message, MessageRepository
from threadkeep.chat_history.ag_ui.wire import event_fields

PAGE = "docs/extending.md"
HELLO = [{"id": "u1", "role": "user", "content": "Hello!"}]


def example(marker: str) -> dict[str, Any]:
    return execute(snippet(PAGE, marker))


async def play(
    store: Store, user: UUID, agent_class: Any, script: list[Any], messages: MessageRepository | None = None
) -> list[Message]:
    """Run an agent of the class; what another process reads of it, with the classes of the repository."""
    messages = messages or store.messages
    agent = agent_class("assistant", user, store.chats, messages, ScriptedAgent(script))
    passed = [event async for event in agent.run(wire_input(messages=HELLO))]
    assert [event_fields(each) for each in passed] == [
        each if isinstance(each, dict) else event_fields(each) for each in script
    ]
    chat = await store.chats.get_chat_by_thread_id(user, "t1")
    assert chat is not None
    elsewhere = MessageRepository(store.space, message_cls=messages._message_class)
    return [*await elsewhere.get_chat_messages(chat.chat_uuid)]


async def test_events_of_ones_own_are_kept_whether_they_are_objects_or_json(store: Store, user_uuid: UUID) -> None:
    module = example("events of your own")
    messages = MessageRepository(store.space, store.registry, message_cls=module["CitedMessage"])

    class Louder(CustomEvent):
        """Goes where its base class goes."""

    text = said("m1", "Oslo", "It is 7 °C.")
    script = [
        started(),
        *text[:2],
        CustomEvent(name="source", value="https://a.example"),
        Louder(name="source", value="https://b.example"),
        CustomEvent(name="something else", value=1),
        {"type": "CUSTOM", "name": "source", "value": "https://c.example"},
        {"type": "SOURCE_FOUND", "url": "https://d.example"},
        *text[2:],
        *said("m2", "Bye"),
        finished(),
    ]
    _, first, second = await play(store, user_uuid, module["CitingAgent"], script, messages)
    assert first.sources == [f"https://{name}.example" for name in "abcd"]
    assert second.sources == []
    assert first.content == "OsloIt is 7 °C."


async def test_a_family_of_events_is_stored_in_another_way(store: Store, user_uuid: UUID) -> None:
    agent_class = example("a family of events")["StructuredTextAgent"]
    script = run_of(said("m1", '{"answer": "It is', ' 7 °C.", "confi', 'dence": 0.9}'))
    _, message = await play(store, user_uuid, agent_class, script)
    assert (message.content, message.status.value) == ("It is 7 °C.", "complete")


async def test_a_family_that_cannot_be_read_costs_its_own_event_and_says_so(store: Store, user_uuid: UUID) -> None:
    agent_class = example("a family of events")["StructuredTextAgent"]
    _, broken, fine = await play(
        store, user_uuid, agent_class, run_of(said("m1", "no JSON"), said("m2", '{"answer": "Fine"}'))
    )
    assert broken.content == ""
    assert broken.status.value == "errored"
    assert "could not be recorded" in (broken.error or "")
    assert fine.content == "Fine"


async def test_records_have_fields_of_ones_own(store: Store, user_uuid: UUID) -> None:
    module = example("records with fields of your own")
    messages = module["team_messages"](store.space, store.registry)
    script = run_of(thought("z1", "hm"), said("m1", "Hi"), called("c1"), result("c1"))
    _, message = await play(store, user_uuid, module["TeamAgent"], script, messages)
    assert type(message) is module["TeamMessage"]
    assert (message.content, message.team) == ("Hi", "research")
    assert message.finished_at.startswith("20")
    assert [(call.name, call.content, call.cost_center) for call in message.tool_calls] == [("f", "ok", "4711")]
    assert [(step.content, step.model) for step in message.reasonings] == [("hm", "large")]


def test_the_suite_runs_in_a_project_that_has_nothing_of_ours_but_the_package(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(snippet(PAGE, "the suite for a store of your own"))
    shutil.copy(ROOT / "docs/examples/memory_store.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "-W", "error"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "failed" not in ran.stdout
    assert " passed" in ran.stdout


def test_the_suite_tells_a_store_that_forgets_things_what_it_lacks(tmp_path: Path) -> None:
    code = snippet(PAGE, "the suite for a store of your own")
    (tmp_path / "test_mine.py").write_text(code)
    source = (ROOT / "docs/examples/memory_store.py").read_text()
    forgetful = source.replace(
        "    present = next((each for each in records if each.uuid == record.uuid), None)", "    present = None"
    )
    assert forgetful != source
    (tmp_path / "memory_store.py").write_text(forgetful)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "test_a_create_of_a_nested_record_that_is_repeated_stores_nothing_twice" in ran.stdout
