"""The prelude of a stream that somebody joins: with the rest of it, what the whole stream would have been."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ag_ui_validate import create_validator
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat_history.client_rules import refusals
from tests.chat_history.cuts import distinct_cuts
from tests.chat_history.odd_events import EVENTS
from tests.chat_history.scripts import called, finished, said, started, thought
from threadkeep.chat_history.ag_ui.chunk_streams import ChunkStreams
from threadkeep.chat_history.ag_ui.client_view import ClientView
from threadkeep.chat_history.ag_ui.older_clients import message_for
from threadkeep.chat_history.ag_ui.prelude import Prelude

Event = Mapping[str, Any]
CASES = distinct_cuts()
CUT_ARGUMENTS = "AGUI204"
"""The validator joins deltas only, and so sees half of the arguments where the other half is in the snapshot."""
TERMINALS = ("RUN_FINISHED", "RUN_ERROR")
ASKED = {"id": "u1", "role": "user", "content": "hi"}
HELPER = {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"}
# Lanes of two speakers side by side, and a subagent whose parent has ended.
TWO_SPEAKERS: list[Event] = [
    started(),
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s0", "name": "root"},
    {**HELPER, "parentSubagentRunId": "s0"},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "A"},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m2", "subagentRunId": "s1", "delta": "S"},
    {"type": "TEXT_MESSAGE_CHUNK", "delta": "B"},
    {"type": "TEXT_MESSAGE_CHUNK", "subagentRunId": "s1", "delta": "T"},
    {"type": "STEP_STARTED", "stepName": "x", "subagentRunId": "s1"},
    {"type": "TEXT_MESSAGE_CHUNK", "delta": "C"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s0", "result": 1},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s2", "name": "late", "parentSubagentRunId": "s0"},
    {
        "type": "TOOL_CALL_CHUNK",
        "toolCallId": "c1",
        "toolCallName": "f",
        "parentMessageId": "m2",
        "subagentRunId": "s1",
    },
    {"type": "TOOL_CALL_CHUNK", "subagentRunId": "s1", "delta": "{}"},
    {"type": "STEP_FINISHED", "stepName": "x", "subagentRunId": "s1"},
    {"type": "SUBAGENT_ERROR", "subagentRunId": "s2", "message": "no"},
    {"type": "REASONING_MESSAGE_CHUNK", "messageId": "z1", "subagentRunId": "s1", "delta": "hm"},
    {"type": "REASONING_MESSAGE_CHUNK", "subagentRunId": "s1", "delta": "mm"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"},
    {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "ok"},
    finished(),
]


def prelude_after(events: Sequence[Event], messages: Sequence[Event] = (ASKED,), state: Any = None) -> Prelude:
    prelude = Prelude(messages, state)
    for event in events:
        prelude.see(event["type"], event)
    return prelude


def joined_at(
    events: Sequence[Event], count: int, messages: Sequence[Event], state: Any = None, *, speaks_1_x: bool = True
) -> list[Event]:
    """What a reader gets who joins after so many events."""
    prelude, rest = prelude_after(events[:count], messages, state), events[count:]
    if not prelude.has_started and rest and rest[0]["type"] == "RUN_STARTED":
        rest = rest[1:]
    return [*prelude.events("t1", "r1", speaks_1_x=speaks_1_x), *rest]


def seen(events: Sequence[Event], messages: Sequence[Event] = (), state: Any = None) -> tuple[list[Any], Any]:
    """What a client shows after a stream. Ids that clients make up are left out."""
    chunks, view = ChunkStreams(), ClientView(messages, state)
    for event in events:
        for kind, fields in chunks.expand(event["type"], event):
            view.see(kind, fields)
    shown = view.messages()
    state = {} if view.state.value is None else view.state.value
    return [{**each, "id": "-"} if each["id"].startswith("thinking-") else each for each in shown], state


def complaints(events: Sequence[Event]) -> list[str]:
    """The rules that an independent validator sees broken."""
    validator = create_validator()
    for event in events:
        validator.feed(json.loads(json.dumps(event)))
    validator.finalize()
    return sorted({each.rule for each in validator.report().diagnostics if each.severity == "error"} - {CUT_ARGUMENTS})


def cuts_of(events: Sequence[Event]) -> range:
    end = next((place for place, event in enumerate(events) if event["type"] in TERMINALS), len(events) - 1)
    return range(end + 1)


@pytest.mark.parametrize("name", CASES)
def test_whoever_joins_a_field_case_at_any_place_sees_what_the_others_see(name: str) -> None:
    run_input, cuts = CASES[name]
    events = cuts[-1][1]
    messages = [message_for(each, speaks_1_x=True) for each in run_input["messages"]]
    state = run_input.get("state")
    whole, refused, complained = seen(events, messages, state), refusals(events), complaints(events)
    for count in cuts_of(events):
        joined = joined_at(events, count, messages, state)
        assert seen(joined) == whole, count
        assert set(refusals(joined)) <= set(refused), count
        assert set(complaints(joined)) <= set(complained), count


@pytest.mark.parametrize("count", cuts_of(TWO_SPEAKERS))
def test_whoever_joins_two_speakers_that_talk_in_chunks_sees_what_the_others_see(count: int) -> None:
    assert refusals(TWO_SPEAKERS) == []
    joined = joined_at(TWO_SPEAKERS, count, [ASKED])
    assert refusals(joined) == []
    messages, _ = seen(joined)
    assert [message.get("content") for message in messages] == ["hi", "ABC", "ST", "ok", "hmmm"]
    assert seen(joined) == seen(TWO_SPEAKERS, [ASKED])


@settings(max_examples=50)
@given(st.lists(EVENTS, max_size=12), st.integers(0, 12))
def test_no_stream_whatever_breaks_a_prelude(events: list[Event], count: int) -> None:
    whole = [started(), *events]
    joined = joined_at(whole, min(count, len(whole)), [ASKED])
    assert json.loads(json.dumps(joined[:2]))[0] == {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
    assert [message["id"] for message in seen(joined)[0]][:1] == [message["id"] for message in seen(whole, [ASKED])[0]][
        :1
    ]


def test_a_message_in_flight_is_shown_with_its_text_so_far_and_opened_again() -> None:
    start = {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "name": "Bo", "metadata": {"k": 1}}
    half = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hel"}
    assert prelude_after([started(), start, half]).events("t1", "r1", speaks_1_x=True) == [
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [
                ASKED,
                {"id": "m1", "role": "assistant", "content": "Hel", "name": "Bo", "metadata": {"k": 1}},
            ],
        },
        {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "name": "Bo"},
    ]


def test_all_kinds_of_open_blocks_are_opened_again_in_their_order() -> None:
    events = [
        started(),
        {"type": "STEP_STARTED", "stepName": "s"},
        HELPER,
        *thought("z1", "hm")[:3],
        *called("c1")[:2],
        *said("m0", "done"),
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "Hi"},
    ]
    again = prelude_after(events).events("t1", "r1", speaks_1_x=True)[2:]
    assert [(event["type"], event.get("delta")) for event in again] == [
        ("SUBAGENT_STARTED", None),
        ("STEP_STARTED", None),
        ("REASONING_START", None),
        ("REASONING_MESSAGE_START", None),
        ("TOOL_CALL_START", None),
        ("TEXT_MESSAGE_CHUNK", None),
    ]
    assert again[-1] == {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant"}


def test_a_call_that_waits_for_its_result_is_begun_and_ended_again() -> None:
    events = [
        started(),
        *called("c1"),
        *called("c2"),
        {"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c2"},
    ]
    again = prelude_after(events).events("t1", "r1", speaks_1_x=True)[2:]
    assert [(event["type"], event["toolCallId"]) for event in again] == [
        ("TOOL_CALL_START", "c1"),
        ("TOOL_CALL_END", "c1"),
    ]


def test_older_thinking_that_is_open_is_told_with_its_text_since_clients_make_up_its_id() -> None:
    events = [
        started(),
        {"type": "THINKING_START", "title": "Plan"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hm"},
    ]
    snapshot, *again = prelude_after(events).events("t1", "r1", speaks_1_x=True)[1:]
    assert snapshot["messages"] == [ASKED]
    assert again == [
        {"type": "THINKING_START", "title": "Plan"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hm"},
    ]
    closed = [*events, {"type": "THINKING_TEXT_MESSAGE_END"}, {"type": "THINKING_END"}]
    snapshot, *again = prelude_after(closed).events("t1", "r1", speaks_1_x=True)[1:]
    assert (snapshot["messages"][1]["content"], again) == ("Hm", [])


@pytest.mark.parametrize(
    ("events", "state", "told"),
    [
        ([], None, None),
        ([], {}, None),
        ([], {"a": 1}, {"a": 1}),
        ([{"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/b", "value": 2}]}], {"a": 1}, {"a": 1, "b": 2}),
        ([{"type": "STATE_SNAPSHOT", "snapshot": {}}], {"a": 1}, {}),
    ],
)
def test_the_state_is_told_where_there_is_one(events: list[Event], state: Any, told: Any) -> None:
    prelude = prelude_after([started(), *events], state=state).events("t1", "r1", speaks_1_x=True)
    assert [event["snapshot"] for event in prelude if event["type"] == "STATE_SNAPSHOT"] == (
        [] if told is None else [told]
    )


def test_a_result_that_is_in_the_record_already_does_not_come_twice() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    before = [ASKED, {"id": "m1", "role": "assistant", "toolCalls": [call]}]
    result = {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "ok"}
    answered = [*before, {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "ok"}]
    for messages in (before, answered):
        prelude = prelude_after([started(), result], messages).events("t1", "r1", speaks_1_x=True)
        assert prelude[1]["messages"] == answered


def test_older_clients_get_no_parts_in_results_no_file_sources_and_no_version() -> None:
    parts = [{"type": "text", "text": "two "}, {"type": "image", "source": {"type": "url", "value": "http://x/y"}}]
    file = {"type": "document", "source": {"type": "file", "value": "file-7"}}
    asked = {"id": "u1", "role": "user", "content": [{"type": "text", "text": "see"}, file]}
    result = {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": parts}
    prelude = prelude_after([{**started(), "protocolVersion": "1.0"}, *called("c1"), result], [asked])
    begin, snapshot = prelude.events("t1", "r1", speaks_1_x=False)
    assert begin == {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
    contents = [message.get("content") for message in snapshot["messages"]]
    assert contents[0] == [{"type": "text", "text": "see"}, {"type": "text", "text": "[document file-7]"}]
    assert contents[-1] == "two "
    begin, snapshot = prelude.events("t1", "r1", speaks_1_x=True)
    assert begin["protocolVersion"] == "1.0"
    assert [message.get("content") for message in snapshot["messages"]][-1] == parts
    assert snapshot["messages"][0]["content"][1] == file


def test_newer_clients_get_the_parts_that_took_the_place_of_binary_ones() -> None:
    binary = {"type": "binary", "mimeType": "image/png", "data": "iVBO", "filename": "a.png"}
    asked = {"id": "u1", "role": "user", "content": [binary, {"type": "binary", "mimeType": "text/csv", "id": "f1"}]}
    (_, snapshot) = prelude_after([], [asked]).events("t1", "r1", speaks_1_x=True)
    assert snapshot["messages"][0]["content"] == [
        {
            "type": "image",
            "source": {"type": "data", "value": "iVBO", "mimeType": "image/png"},
            "metadata": {"filename": "a.png"},
        },
        {"type": "document", "source": {"type": "file", "value": "f1", "mimeType": "text/csv"}},
    ]
    (_, snapshot) = prelude_after([], [asked]).events("t1", "r1", speaks_1_x=False)
    assert snapshot["messages"][0]["content"][0] == binary


def test_where_older_messages_are_is_said_before_anything_is_opened_again() -> None:
    prelude = prelude_after([started(), *said("m1", "Hi")[:2]])
    events = prelude.events("t1", "r1", speaks_1_x=False, before="12", total=40)
    assert events[2] == {"type": "CUSTOM", "name": "threadkeep.history", "value": {"before": "12", "total": 40}}
    assert events[3]["type"] == "TEXT_MESSAGE_START"
