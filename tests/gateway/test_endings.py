"""What is open in a run, and how the gateway ends one."""

from typing import Any

import pytest

from threadkeep.gateway.endings import OpenParts, cancelled, run_error, understands_outcomes


def parts(*events: dict[str, Any]) -> OpenParts:
    seen = OpenParts()
    for event in events:
        seen.see(event)
    return seen


STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}


def test_what_is_open_is_closed_the_last_opened_first() -> None:
    seen = parts(
        STARTED,
        {"type": "STEP_STARTED", "stepName": "plan"},
        {"type": "REASONING_START", "messageId": "x"},
        {"type": "REASONING_MESSAGE_START", "messageId": "x", "role": "reasoning"},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "a"},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
    )
    assert seen.closing() == [
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "REASONING_MESSAGE_END", "messageId": "x"},
        {"type": "REASONING_END", "messageId": "x"},
        {"type": "STEP_FINISHED", "stepName": "plan"},
    ]


def test_what_was_closed_is_not_closed_again() -> None:
    seen = parts(
        STARTED,
        {"type": "TEXT_MESSAGE_START", "messageId": "m"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "TOOL_CALL_START", "toolCallId": "c"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_END", "toolCallId": "never started"},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "s", "message": "no"},
    )
    assert seen.closing() == []


def test_chunks_open_nothing() -> None:
    assert parts(STARTED, {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"}).closing() == []


def test_thinking_of_older_agents_is_closed_too() -> None:
    seen = parts({"type": "THINKING_START", "title": "t"}, {"type": "THINKING_TEXT_MESSAGE_START"})
    assert seen.closing() == [{"type": "THINKING_TEXT_MESSAGE_END"}, {"type": "THINKING_END"}]


def test_a_step_of_a_subagent_is_closed_in_its_name() -> None:
    seen = parts(
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "helper"},
        {"type": "STEP_STARTED", "stepName": "plan"},
        {"type": "STEP_STARTED", "stepName": "plan", "subagentRunId": "s"},
        {"type": "STEP_FINISHED", "stepName": "plan"},
    )
    assert seen.closing() == [
        {"type": "STEP_FINISHED", "stepName": "plan", "subagentRunId": "s"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s"},
    ]


def test_events_that_make_no_sense_change_nothing() -> None:
    seen = parts(
        {},
        {"type": None},
        {"type": ["RUN_STARTED"]},
        {"type": "TEXT_MESSAGE_START"},
        {"type": "TEXT_MESSAGE_START", "messageId": {"a": 1}},
        {"type": "TOOL_CALL_END", "toolCallId": 4},
        {"type": "QUANTUM_FOAM"},
    )
    assert seen.closing() == []
    assert not seen.started


def test_a_cancelled_run_is_finished_and_not_failed() -> None:
    seen = parts(STARTED, {"type": "TEXT_MESSAGE_START", "messageId": "m"})
    assert cancelled(seen, "t", "r", "1.0") == [
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "cancelled"}},
    ]


def test_a_client_from_before_1_0_gets_no_outcome_that_it_cannot_read() -> None:
    assert cancelled(parts(STARTED), "t", "r", None) == [{"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}]
    assert cancelled(parts(STARTED), "t", "r", "0.1.22") == [{"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}]


def test_a_run_cancelled_before_its_first_event_is_started_first() -> None:
    assert cancelled(parts(), "t", "r", None) == [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
    ]


@pytest.mark.parametrize(
    ("version", "answer"),
    [(None, False), ("", False), ("0.0.59", False), ("1", True), ("1.0", True), ("2.3", True), ("one", False)],
)
def test_only_a_client_that_says_1_x_understands_outcomes(version: str | None, answer: bool) -> None:
    assert understands_outcomes(version) is answer


def test_a_run_error_says_what_and_why() -> None:
    assert run_error("It broke", "AGENT_ERROR") == {"type": "RUN_ERROR", "message": "It broke", "code": "AGENT_ERROR"}
