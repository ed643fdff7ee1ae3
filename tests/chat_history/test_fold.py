"""The fold: its rules as examples. What it promises for all streams is in `test_fold_properties.py`."""

from datetime import timedelta
from typing import Any

import pytest

from tests.chat_history.folded import NOW, fold, row, rows
from tests.chat_history.scripts import called, finished, result, run_of, said, started, thought
from threadkeep.chat_history.ag_ui.fold import Fold
from threadkeep.chat_history.ag_ui.records import Call, Row
from threadkeep.chat_history.constants import MessageStatus, Role


def test_an_open_message_is_active_until_its_end() -> None:
    events = run_of(said("m1", "Hel", "lo"))
    assert rows(fold(events[:3])) == [row("m1", "Hel", "active")]
    assert rows(fold(events[:5])) == [row("m1", "Hello", "complete")]


def test_content_for_a_message_that_was_never_started_makes_one() -> None:
    folded = fold([started(), {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi"}, finished()])
    assert rows(folded) == [row("m1", "Hi")]


def test_a_call_without_a_known_parent_goes_to_the_last_message_as_long_as_that_has_no_result() -> None:
    folded = fold(run_of(said("m1", "Let me look"), called("c1"), called("c2", parent="ghost")))
    calls = [("c1", "{}", "", "complete"), ("c2", "{}", "", "complete")]
    assert rows(folded) == [row("m1", "Let me look", calls=calls)]


def test_a_call_after_a_result_without_a_known_parent_opens_a_row_that_answers_to_the_parent() -> None:
    folded = fold(run_of(said("m1", "One"), called("c1"), result("c1"), called("c2", parent="m2"), said("m2", "Two")))
    assert rows(folded) == [
        row("m1", "One", calls=[("c1", "{}", "ok", "complete")]),
        row("m2", "Two", calls=[("c2", "{}", "", "complete")]),
    ]


def test_text_that_goes_on_over_a_result_stays_in_its_row() -> None:
    begin, *_ = said("m1")
    middle = [
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hel"},
        *called("c1", parent="m1"),
        result("c1"),
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "lo"},
    ]
    assert [each["text"] for each in rows(fold(run_of(begin, middle)))] == ["Hello"]


def test_text_that_begins_again_after_a_result_opens_a_new_row() -> None:
    folded = fold(run_of(said("m1", "Before"), called("c1", parent="m1"), result("c1"), said("m1", "After")))
    assert [(each["id"], each["text"]) for each in rows(folded)] == [("m1", "Before"), ("m1", "After")]


def test_a_call_id_that_is_used_again_after_its_result_is_another_call() -> None:
    folded = fold(
        run_of(
            called("call_0", arguments='{"a":1}'),
            result("call_0", "r1"),
            called("call_0", arguments='{"a":2}'),
            result("call_0", "r2"),
        )
    )
    assert [each["calls"] for each in rows(folded)] == [
        [("call_0", '{"a":1}', "r1", "complete")],
        [("call_0", '{"a":2}', "r2", "complete")],
    ]


def test_the_first_result_of_a_call_stands_unless_it_was_empty() -> None:
    folded = fold(run_of(called("c1"), result("c1", ""), result("c1", "late"), result("c1", "later")))
    assert rows(folded)[0]["calls"] == [("c1", "{}", "late", "complete")]


def test_what_comes_before_its_call_waits_for_it() -> None:
    early = [
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"x":'},
        result("c1", "4C"),
        {"type": "TOOL_CALL_ARGS", "toolCallId": "other", "delta": "lost"},
    ]
    begin, _, end = called("c1")
    late = {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}"}
    folded = fold(run_of(said("m1", "Hi"), early, begin, late, end, said("m2", "So")))
    assert rows(folded) == [
        row("m1", "Hi", calls=[("c1", '{"x":1}', "4C", "complete")]),
        row("m2", "So"),
    ]
    assert folded.turn.stray == 1


def test_a_call_without_an_id_is_the_last_one() -> None:
    events = [
        {"type": "TOOL_CALL_START", "toolCallId": None, "toolCallName": "f"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "", "delta": "{}"},
        {"type": "TOOL_CALL_RESULT", "content": "ok"},
    ]
    assert rows(fold(run_of(events))) == [row(None, "", calls=[(None, "{}", "ok", "complete")])]
    assert fold(run_of(called("c1"), events[1:])).turn.stray == 2


def test_a_call_chunk_may_bring_the_name_later() -> None:
    chunks = [{"type": "TOOL_CALL_CHUNK", "toolCallId": "c1"}, {"type": "TOOL_CALL_CHUNK", "toolCallName": "f"}]
    assert [call.name for call in fold(run_of(chunks)).rows[0].calls] == ["f"]


def test_a_result_of_an_earlier_run_finds_its_call_though_nobody_awaits_it() -> None:
    call = _carried()
    call.awaiting, call.status = False, MessageStatus.INTERRUPTED
    folded = fold(run_of(result("c1", "late"), said("m2", "So")), carried=[call])
    assert (call.content, call.status) == ("late", MessageStatus.COMPLETE)
    assert rows(folded) == [row("m2", "So")]


def test_a_call_of_an_earlier_run_that_nobody_awaits_is_not_gone_on_with() -> None:
    call = _carried()
    call.awaiting = False
    folded = fold(run_of(called("c1", "pay"), result("c1", "new")), carried=[call])
    assert (call.content, rows(folded)[0]["calls"]) == ("", [("c1", "{}", "new", "complete")])


def test_a_call_chunk_goes_on_with_the_call_of_its_lane() -> None:
    chunks = [
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "f", "delta": '{"x"'},
        {"type": "TOOL_CALL_CHUNK", "delta": ":1}"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c2", "toolCallName": "g", "delta": "{"},
        {"type": "TOOL_CALL_CHUNK", "delta": "}"},
    ]
    calls = [("c1", '{"x":1}', "", "complete"), ("c2", "{}", "", "complete")]
    assert rows(fold(run_of(chunks))) == [row(None, "", calls=calls)]


def test_chunks_of_two_subagents_do_not_mix() -> None:
    chunks = [
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "a", "subagentRunId": "s1", "delta": "a1"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "b", "subagentRunId": "s2", "delta": "b1"},
        {"type": "TEXT_MESSAGE_CHUNK", "subagentRunId": "s1", "delta": "a2"},
        {"type": "TEXT_MESSAGE_CHUNK", "subagentRunId": "s2", "delta": "b2"},
    ]
    assert [each["text"] for each in rows(fold(run_of(chunks)))] == ["a1a2", "b1b2"]


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"type": "CUSTOM", "name": "n", "value": 1}, "complete"),
        ({"type": "RAW", "event": {}}, "active"),
        ({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"}, "active"),
    ],
)
def test_an_event_ends_a_chunked_message_unless_it_leaves_lanes_alone(event: dict[str, Any], status: str) -> None:
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "Hi"}
    assert rows(fold([started(), chunk, event])) == [row("m1", "Hi", status)]


def test_reasoning_at_the_beginning_is_kept_at_once_and_becomes_the_first_message() -> None:
    assert rows(fold([started(), *thought("z1", "hm")])) == [row(None, "", "active", reasonings=[("hm", "complete")])]
    folded = fold(run_of(thought("z1", "hm"), said("m1", "Hi")))
    assert rows(folded) == [row("m1", "Hi", reasonings=[("hm", "complete")])]


def test_reasoning_goes_to_the_call_that_comes_next() -> None:
    folded = fold(
        run_of(
            said("m1", "First"),
            called("c1", parent="m1"),
            result("c1"),
            thought("z1", "hm"),
            called("c2", parent="m1"),
            result("c2"),
        )
    )
    assert [each["reasonings"] for each in rows(folded)] == [[("hm", "complete")]]


def test_reasoning_after_the_last_message_gets_a_row_of_its_own() -> None:
    folded = fold(run_of(said("m1", "Done"), thought("z1", "was that right?")))
    assert rows(folded) == [row("m1", "Done"), row(None, "", reasonings=[("was that right?", "complete")])]


def test_reasoning_inside_a_message_that_has_not_spoken_yet_is_of_that_message() -> None:
    begin, *rest = said("m1", "Hi")
    assert rows(fold(run_of(begin, thought("z1", "hm"), rest))) == [row("m1", "Hi", reasonings=[("hm", "complete")])]


def test_an_encrypted_value_finds_its_call() -> None:
    value = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c1", "encryptedValue": "x=="}
    assert fold(run_of(called("c1"), value)).rows[0].calls[0].encrypted_value == "x=="


TEXT, CALL, THOUGHT = {"messageId": "m1", "delta": "hm"}, {"toolCallId": "c1"}, {"messageId": "z1", "delta": "hm"}
ACTIVITY = {"messageId": "a1", "activityType": "PLAN"}


@pytest.mark.parametrize(
    "events",
    [
        [{"type": f"TEXT_MESSAGE_{kind}", **TEXT} for kind in ("START", "CONTENT", "END")],
        [{"type": "TEXT_MESSAGE_CHUNK", **TEXT}] * 3,
        [
            {"type": "TOOL_CALL_START", **CALL, "toolCallName": "f"},
            *({"type": f"TOOL_CALL_{kind}", **CALL} for kind in ("ARGS", "END", "RESULT")),
        ],
        [{"type": "TOOL_CALL_CHUNK", **CALL, "toolCallName": "f"}] * 3,
        [{"type": f"REASONING_MESSAGE_{kind}", **THOUGHT} for kind in ("START", "CONTENT", "END")],
        [{"type": "REASONING_MESSAGE_CHUNK", **THOUGHT}] * 3,
        [{"type": "ACTIVITY_SNAPSHOT", **ACTIVITY, "content": {}}, {"type": "ACTIVITY_DELTA", **ACTIVITY, "patch": []}],
    ],
    ids=lambda events: events[0]["type"],
)
def test_every_event_of_a_record_may_bring_metadata_and_the_last_word_counts(events: list[dict[str, Any]]) -> None:
    folded = fold([{**event, "metadata": {"last": place, f"{place}": place}} for place, event in enumerate(events)])
    (row,) = folded.rows
    (record,) = [*row.calls, *row.reasonings] or [row]
    assert record.metadata == {"last": len(events) - 1, **{f"{place}": place for place in range(len(events))}}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "TEXT_MESSAGE_END", "messageId": "ghost"},
        {"type": "TOOL_CALL_END", "toolCallId": "ghost"},
        {"type": "TOOL_CALL_CHUNK", "delta": "x"},
        {"type": "REASONING_MESSAGE_END", "messageId": "ghost"},
        {"type": "ACTIVITY_DELTA", "messageId": "ghost", "activityType": "PLAN", "patch": []},
        {"type": "STEP_FINISHED", "stepName": "ghost"},
    ],
    ids=lambda event: event["type"],
)
def test_what_is_of_nothing_changes_nothing(event: dict[str, Any]) -> None:
    events = run_of(said("m1", "a"), {**event, "metadata": {"a": 1}}, said("m2", "b"))
    folded = fold(events)
    assert rows(folded) == [row("m1", "a"), row("m2", "b")]
    assert [(each.metadata, each.step) for each in folded.rows] == [(None, None)] * 2


def test_a_message_keeps_the_step_in_which_it_began() -> None:
    folded = fold(
        run_of(
            {"type": "STEP_STARTED", "stepName": "outer"},
            {"type": "STEP_STARTED", "stepName": "inner"},
            said("m1", "a"),
            {"type": "STEP_FINISHED", "stepName": "inner"},
            said("m2", "b"),
            {"type": "STEP_FINISHED", "stepName": "outer"},
            said("m3", "c"),
        )
    )
    assert [each.step for each in folded.rows] == ["inner", "outer", None]


def test_rows_have_rising_timestamps_even_where_the_clock_stands_still() -> None:
    folded = Fold(NOW)
    for event in run_of(said("m1", "a"), said("m2", "b")):
        folded.apply(event["type"], event, NOW)
    assert [each.timestamp for each in folded.rows] == [NOW, NOW + timedelta(microseconds=1)]


def test_an_earlier_message_that_is_still_open_is_kept_before_a_later_one() -> None:
    begin_a, content_a, end_a = said("a", "later")
    begin_b, content_b, end_b = said("b", "sooner")
    folded = fold([started(), begin_a, begin_b, content_b])
    assert [each["id"] for each in rows(folded)] == ["a", "b"]
    assert [each["text"] for each in rows(fold(run_of(begin_a, begin_b, content_b, content_a, end_a, end_b)))] == [
        "later",
        "sooner",
    ]


def test_client_calls_and_pending_calls_outlive_the_run_and_others_do_not() -> None:
    folded = fold(
        [
            started(),
            *called("c1", "map"),
            *called("c2", "search"),
            *called("c3", "pay"),
            finished(outcome={"type": "success", "pendingToolCallIds": ["c3"]}),
        ],
        client_tools=["map"],
    )
    calls = folded.rows[0].calls
    assert [(call.status.value, call.awaiting) for call in calls] == [
        ("active", True),
        ("complete", False),
        ("active", True),
    ]


def test_interrupts_are_kept_on_the_last_message() -> None:
    interrupts = [{"id": "i1", "reason": "tool_call", "toolCallId": "c1"}]
    folded = fold([started(), *called("c1"), finished(outcome={"type": "interrupt", "interrupts": interrupts})])
    assert folded.rows[0].interrupts == interrupts
    assert (folded.rows[0].status, folded.rows[0].calls[0].status) == (MessageStatus.COMPLETE, MessageStatus.ACTIVE)


def test_an_interrupt_without_any_message_still_has_a_row() -> None:
    folded = fold([started(), finished(outcome={"type": "interrupt", "interrupts": [{"id": "i1"}]})])
    assert [each.interrupts for each in folded.rows] == [[{"id": "i1"}]]


def test_the_first_terminal_decides_and_nothing_comes_after_it() -> None:
    folded = fold([*run_of(said("m1", "Hi")), {"type": "RUN_ERROR", "message": "late"}, *said("m2", "late")])
    folded.finish(MessageStatus.INTERRUPTED, NOW)
    assert rows(folded) == [row("m1", "Hi")]


def test_a_failed_run_says_why_on_what_it_left_open() -> None:
    folded = fold([started(), *said("m1", "Hi"), *called("c1"), {"type": "RUN_ERROR", "message": "503"}])
    assert [(each.status.value, each.error) for each in (folded.rows[0], folded.rows[0].calls[0])] == [
        ("errored", "503"),
        ("errored", "503"),
    ]


def test_the_code_of_an_error_stands_before_its_message() -> None:
    folded = fold([started(), *said("m1", "Hi"), {"type": "RUN_ERROR", "message": "too many", "code": "429"}])
    assert folded.turn.rows[-1].error == "[429] too many"


def test_a_cancelled_run_leaves_finished_rows_as_they_are_except_the_last() -> None:
    folded = fold([started(), *said("m1", "One"), *said("m2", "Two")])
    folded.finish(MessageStatus.INTERRUPTED, NOW)
    assert [each["status"] for each in rows(folded)] == ["complete", "interrupted"]


def test_a_result_that_comes_in_a_later_run_finds_the_call_that_waits() -> None:
    waiting = _carried()
    folded = fold(run_of(result("c1", "approved"), said("m2", "Done")), carried=[waiting])
    assert (waiting.content, waiting.status.value, waiting.awaiting) == ("approved", "complete", False)
    assert waiting.row in folded.turn.dirty
    assert [each["text"] for each in rows(folded)] == ["Done"]


def test_a_waiting_call_that_is_streamed_again_is_not_a_second_call() -> None:
    waiting = _carried()
    folded = fold(run_of(called("c1", "pay", '{"again":1}'), result("c1", "paid")), carried=[waiting])
    assert rows(folded) == []
    assert (str(waiting.arguments), waiting.content) == ("{}", "paid")


def test_another_tool_under_the_id_of_a_waiting_call_is_another_call() -> None:
    folded = fold(run_of(called("c1", "search")), carried=[_carried()])
    assert rows(folded) == [row(None, "", calls=[("c1", "{}", "", "complete")])]


def test_a_growing_text_is_not_joined_for_each_delta() -> None:
    folded = Fold(NOW)
    folded.apply("TEXT_MESSAGE_START", {"messageId": "m"}, NOW)
    parts = folded.turn.rows[0].content
    for _ in range(1_000):
        folded.apply("TEXT_MESSAGE_CONTENT", {"messageId": "m", "delta": "ab"}, NOW)
    assert (parts.length, len(parts._parts)) == (2_000, 1_000)
    assert str(parts) == "ab" * 1_000
    assert len(parts._parts) == 1


def _carried() -> Call:
    row = Row("m1", Role.ASSISTANT, NOW, kept=True)
    call = Call("c1", "pay", NOW, row, sealed=True, awaiting=True)
    call.arguments.append("{}")
    row.calls.append(call)
    return call
