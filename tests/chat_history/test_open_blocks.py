"""What a stream has opened, and how a cancelled run ends for its client."""

import json
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from tests.chat_history.scripts import called, said, started, thought, wire_input
from threadkeep.chat_history.ag_ui.endings import as_events, cancelled, failure, speaks_1_x
from threadkeep.chat_history.ag_ui.open_blocks import OpenBlocks
from threadkeep.chat_history.ag_ui.wire import event_json


def blocks_after(*events: Any) -> OpenBlocks:
    blocks = OpenBlocks()
    for event in events:
        blocks.see(event["type"], event)
    return blocks


def test_what_is_open_is_closed_in_reverse() -> None:
    blocks = blocks_after(
        started(),
        {"type": "STEP_STARTED", "stepName": "s"},
        *thought("z1", "hm")[:3],
        *said("m1", "Hi")[:2],
        *called("c1")[:1],
    )
    assert blocks.started
    assert blocks.closing() == [
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "REASONING_MESSAGE_END", "messageId": "z1"},
        {"type": "REASONING_END", "messageId": "z1"},
        {"type": "STEP_FINISHED", "stepName": "s"},
    ]


def test_what_was_closed_is_not_closed_again() -> None:
    assert blocks_after(*thought("z1", "hm"), *said("m1", "Hi"), *called("c1")).closing() == []


def test_what_belongs_to_a_subagent_is_closed_in_its_name() -> None:
    subagent = {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"}
    step = {"type": "STEP_STARTED", "stepName": "x", "subagentRunId": "s1"}
    own = {"type": "STEP_STARTED", "stepName": "x"}
    assert blocks_after(subagent, step, own, {"type": "STEP_FINISHED", "stepName": "x"}).closing() == [
        {"type": "STEP_FINISHED", "stepName": "x", "subagentRunId": "s1"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"},
    ]
    assert blocks_after(subagent, {"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "no"}).closing() == []


@pytest.mark.parametrize("agui_id", [None, [1], {"a": 1}, 3])
def test_ids_that_are_none_do_no_harm(agui_id: Any) -> None:
    begin = {"type": "TEXT_MESSAGE_START", "messageId": agui_id}
    assert blocks_after(begin, {"type": "TEXT_MESSAGE_END", "messageId": agui_id}).closing() == []


def test_a_1_x_client_gets_everything_closed_and_the_outcome_cancelled() -> None:
    given = wire_input(protocolVersion="1.0")
    assert cancelled(given, blocks_after(started(), *said("m1", "Hi")[:2])) == [
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "cancelled"}},
    ]


def test_a_run_that_is_cancelled_before_it_began_begins_first() -> None:
    kinds = [fields["type"] for fields in cancelled(wire_input(protocolVersion="1.2"), OpenBlocks())]
    assert kinds == ["RUN_STARTED", "RUN_FINISHED"]


def test_an_older_client_gets_everything_closed_and_no_outcome_that_it_would_fail_on() -> None:
    assert cancelled(wire_input(), blocks_after(started(), *said("m1", "Hi")[:2])) == [
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"},
    ]


def test_what_the_installed_release_does_not_know_goes_out_as_it_would_on_the_wire() -> None:
    fields = [
        {"type": "THINKING_END"},
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "cancelled"}},
        {"type": "FUTURE_END", "id": "x"},
    ]

    assert [json.loads(event_json(event)) for event in as_events(fields)] == fields


@pytest.mark.parametrize(
    ("version", "is_1_x"), [("1.0", True), ("1", True), ("0.9", False), ("10.0", False), (None, False)]
)
def test_a_client_speaks_1_x_where_it_says_so(version: Any, is_1_x: bool) -> None:
    assert speaks_1_x(wire_input(protocolVersion=version)) is is_1_x


def test_an_input_of_objects_that_says_nothing_is_of_an_older_client() -> None:
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], tools=[], context=[], state={}, forwarded_props={})
    assert not speaks_1_x(given)


def test_endings_become_events_of_the_installed_release() -> None:
    events = as_events([{"type": "TEXT_MESSAGE_END", "messageId": "m1"}, {"type": "QUANTUM_END"}])
    assert [type(event).__name__ for event in events] == ["TextMessageEndEvent", "WireEvent"]
    assert (failure("no").message, failure("no").code) == ("no", "INTERNAL_ERROR")
