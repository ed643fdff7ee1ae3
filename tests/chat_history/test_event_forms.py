"""Every type of event, as an object of the installed release and as JSON: the same history, live or replayed."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.chat_history.all_types import TYPES
from tests.chat_history.folded import NOW, fold
from tests.chat_history.odd_events import ENDINGS, EVENTS
from tests.chat_history.scripts import as_object, finished, started
from threadkeep.chat_history.ag_ui.fold import Fold
from threadkeep.chat_history.ag_ui.stored_rows import values_of
from threadkeep.chat_history.ag_ui.wire import WireEvent, event_fields, event_json, event_type

# One stream with every type in it; the classes that one of the lines has not are left out there.
STREAM: list[dict[str, Any]] = [
    {"type": "STEP_STARTED", "stepName": "plan"},
    {"type": "THINKING_START", "title": "Plan"},
    {"type": "THINKING_TEXT_MESSAGE_START"},
    {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "older"},
    {"type": "THINKING_TEXT_MESSAGE_END"},
    {"type": "THINKING_END"},
    {"type": "REASONING_START", "messageId": "z1"},
    {"type": "REASONING_MESSAGE_START", "messageId": "z1", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z1", "delta": "newer"},
    {"type": "REASONING_MESSAGE_END", "messageId": "z1"},
    {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "z1", "encryptedValue": "g=="},
    {"type": "REASONING_END", "messageId": "z1"},
    {"type": "REASONING_MESSAGE_CHUNK", "messageId": "z2", "delta": "chunk"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "metadata": {"k": [1, None]}},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Let me "},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look", "parentMessageId": "m1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "scout", "parentToolCallId": "c1"},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m2", "role": "assistant", "delta": "seen", "subagentRunId": "s1"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "result": {"n": 1}},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s2", "name": "lost"},
    {"type": "SUBAGENT_ERROR", "subagentRunId": "s2", "message": "no"},
    {"type": "TOOL_CALL_RESULT", "toolCallId": "c1", "messageId": "t1", "content": "4C", "role": "tool"},
    {"type": "TOOL_CALL_CHUNK", "toolCallId": "c2", "toolCallName": "ask", "delta": "{}"},
    {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"n": 1}, "replace": True},
    {
        "type": "ACTIVITY_DELTA",
        "messageId": "a1",
        "activityType": "PLAN",
        "patch": [{"op": "replace", "path": "/n", "value": 2}],
    },
    {"type": "STATE_SNAPSHOT", "snapshot": {"a": {"b": [1]}}},
    {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a/b/-", "value": {"c": None}}]},
    {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m9", "role": "assistant", "content": "from the snapshot"}]},
    {"type": "CUSTOM", "name": "n", "value": 1},
    {"type": "RAW", "event": {"x": 1}},
    {"type": "STEP_FINISHED", "stepName": "plan"},
]


def told(folded: Fold) -> Any:
    """All that is kept of a run, without the objects that hold it."""
    rows = [
        (values, [each for _, each in calls], [each for _, each in steps])
        for values, calls, steps in map(values_of, folded.rows)
    ]
    return repr((rows, folded.state.value, folded.status))


def apply_all(events: list[Any]) -> Fold:
    return fold([{**event_fields(event), "type": event_type(event)} for event in events])


def known(event: Mapping[str, Any]) -> Any:
    try:
        return as_object(event)
    except (AttributeError, ValidationError):
        return None


def test_the_stream_has_every_type() -> None:
    assert {event["type"] for event in STREAM} == TYPES - {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"}


def test_objects_and_json_make_the_same_history() -> None:
    stream = [started(), *STREAM, finished(outcome={"type": "success"}, usage=[{"model": "m", "inputTokens": 3}])]
    objects = [(event, found) for event in stream if (found := known(event)) is not None]
    # Both lines know at least these.
    assert len(objects) >= 27
    from_objects = apply_all([found for _, found in objects])
    assert told(from_objects) == told(apply_all([event for event, _ in objects]))
    assert told(from_objects) == told(apply_all([WireEvent.of(event) for event, _ in objects]))


def test_every_type_leaves_its_mark_as_json() -> None:
    folded = apply_all([WireEvent.of(event) for event in [started(), *STREAM, finished()]])
    assert [(each.agui_id, str(each.content), each.step) for each in folded.rows] == [
        ("m1", "Let me ", "plan"),
        ("m2", "seen", None),
        (None, "", "plan"),
        ("a1", '{"n":2}', "plan"),
        ("m9", "from the snapshot", "plan"),
    ]
    first = folded.rows[0]
    assert [(str(step.content), step.name, step.encrypted_value) for step in first.reasonings] == [
        ("older", "Plan", None),
        ("newer", None, "g=="),
        ("chunk", None, None),
    ]
    assert [(call.name, call.content) for call in first.calls] == [("look", "4C")]
    assert [(agent.name, agent.status) for agent in first.subagents] == [("scout", "complete"), ("lost", "errored")]
    assert [call.name for call in folded.rows[2].calls] == ["ask"]
    assert folded.state.value == {"a": {"b": [1, {"c": None}]}}


@given(st.lists(EVENTS, max_size=20), ENDINGS)
def test_a_run_that_is_read_from_its_log_is_the_run_that_was_seen(events: list[Any], ending: Any) -> None:
    stream = [WireEvent.of(event) for event in [*events, ending]]
    log = [event_json(event) for event in stream]
    assert told(apply_all([WireEvent(raw) for raw in log])) == told(apply_all(stream))
    assert told(apply_all([json.loads(raw) for raw in log])) == told(apply_all(stream))


def test_an_object_that_its_agent_goes_on_changing_is_kept_as_it_was() -> None:
    state = {"steps": [1]}
    folded = Fold(NOW)
    event = as_object({"type": "STATE_SNAPSHOT", "snapshot": state})
    folded.apply("STATE_SNAPSHOT", event_fields(event), NOW)
    state["steps"].append(2)
    assert folded.state.value == {"steps": [1]}


@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("fields", [{}, {"messageId": None, "toolCallId": None, "delta": None, "content": None}])
def test_an_event_of_any_type_may_lack_everything(kind: str, fields: dict[str, Any]) -> None:
    folded = fold([started(), {"type": kind, **fields}])
    folded.finish("complete", NOW)  # type: ignore[arg-type]
