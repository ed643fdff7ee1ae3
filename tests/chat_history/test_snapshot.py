"""Merging a snapshot of the conversation into what the stream brought."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chat_history.folded import NOW, fold, row, rows
from tests.chat_history.scripts import called, result, run_of, said, thought
from threadkeep.chat_history import Role
from threadkeep.chat_history.ag_ui.records import Call, Row
from threadkeep.chat_history.ag_ui.snapshot import Known, Question

USER = {"id": "u1", "role": "user", "content": "hi"}


def snapshot(*messages: Any) -> dict[str, Any]:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


def assistant(agui_id: str, content: str = "", *calls: tuple[str, str, str]) -> dict[str, Any]:
    whole = [{"id": each, "type": "function", "function": {"name": n, "arguments": a}} for each, n, a in calls]
    return {"id": agui_id, "role": "assistant", "content": content, "toolCalls": whole}


def test_what_was_streamed_is_not_added_again_under_its_id_its_calls_or_its_text() -> None:
    streamed = [said("m1", "Let me"), called("c1", parent="m1"), result("c1"), said("m2", "Done")]
    before = rows(fold(run_of(*streamed)))
    for one, two in (("m1", "m2"), ("db-1", "db-2")):
        again = snapshot(
            USER,
            assistant(one, "Let me", ("c1", "f", "{}")),
            {"id": "x", "role": "tool", "toolCallId": "c1", "content": "ok"},
            assistant(two, "Done"),
        )
        assert rows(fold(run_of(*streamed, again))) == before


def test_what_was_not_streamed_is_added() -> None:
    brought = snapshot(
        USER,
        {"id": "z1", "role": "reasoning", "content": "hm"},
        assistant("m1", "Let me", ("c1", "f", '{"a":1}')),
        {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "4C"},
        assistant("m2", "Done"),
    )
    assert rows(fold(run_of(brought))) == [
        row("m1", "Let me", calls=[("c1", '{"a":1}', "4C", "complete")], reasonings=[("hm", "complete")]),
        row("m2", "Done"),
    ]


def test_a_text_that_goes_on_in_the_snapshot_is_filled_up() -> None:
    assert rows(fold(run_of(said("m1", "Hel"), snapshot(USER, assistant("m1", "Hello"))))) == [row("m1", "Hello")]


@pytest.mark.parametrize("other", ["", "Something else", "He"])
def test_a_text_that_differs_in_the_snapshot_stays_as_it_was_streamed(other: str) -> None:
    assert rows(fold(run_of(said("m1", "Hello"), snapshot(USER, assistant("m1", other))))) == [row("m1", "Hello")]


def test_one_id_that_stands_for_two_rows_is_not_filled_up() -> None:
    streamed = [said("m1", "Before. "), called("c1", parent="m1"), result("c1"), said("m1", "After.")]
    joined = snapshot(USER, assistant("m1", "Before. After.", ("c1", "f", "{}")))
    assert [each["text"] for each in rows(fold(run_of(*streamed, joined)))] == ["Before. ", "After."]


def test_what_is_of_earlier_turns_is_not_of_this_run() -> None:
    whole = snapshot(USER, assistant("m0", "Earlier"), {"id": "u2", "role": "user"}, assistant("m1", "Now"))
    assert rows(fold(run_of(whole))) == [row("m1", "Now")]


def test_what_is_stored_already_is_not_added_under_its_id_or_its_text() -> None:
    known = Known(frozenset({"m0"}), frozenset({"Earlier", "hm"}))
    echo = snapshot(
        assistant("m0", "edited"),
        assistant("x", "Earlier"),
        {"id": "z", "role": "reasoning", "content": "hm"},
        assistant("m1", "Now"),
    )
    assert rows(fold(run_of(echo), known=known)) == [row("m1", "Now")]


def echo_of_two_turns(*answers: dict[str, Any], question: str = "u2") -> dict[str, Any]:
    asked = {"id": question, "role": "user", "content": "again"}
    return snapshot(USER, assistant("m0", "Done"), asked, *answers)


AGAIN = Known(
    frozenset({"m0", "default"}),
    frozenset({"Done", "Let me"}),
    Question(frozenset({"u2"}), "again", 2),
    Known(frozenset({"m1"}), frozenset({"Let me"})),
)


@pytest.mark.parametrize("question", ["u2", "db-u2"])
def test_the_same_words_and_ids_as_in_an_earlier_turn_are_new_in_this_one(question: str) -> None:
    said_again = echo_of_two_turns(
        assistant("db-1", "Let me"), assistant("m1", "edited"), assistant("default", "Done"), question=question
    )
    assert rows(fold(run_of(said_again), known=AGAIN)) == [row("default", "Done")]


def test_a_snapshot_that_ends_with_an_earlier_question_brings_nothing_of_that_turn() -> None:
    earlier = snapshot(USER, assistant("db-0", "Done"), assistant("default", "Bye"))
    assert rows(fold(run_of(earlier), known=AGAIN)) == []


@pytest.mark.parametrize("text", ["Completed f", "f was interrupted before it gave a result", "f gave no result"])
def test_what_a_replay_put_in_place_of_a_result_is_no_result(text: str) -> None:
    row = Row("m0", Role.ASSISTANT, datetime(2026, 11, 29, tzinfo=UTC))
    call = Call("c0", "f", row.timestamp, row, sealed=True)
    row.calls.append(call)
    echo = {"id": "c0-result", "role": "tool", "toolCallId": "c0", "content": text}
    fold(run_of(snapshot(USER, echo)), carried=[call])
    assert (call.answered, call.content) == (False, "")
    fold(run_of(snapshot(USER, {**echo, "content": "4C"})), carried=[call])
    assert (call.answered, call.content) == (True, "4C")


def test_a_reasoning_that_was_streamed_is_not_added_again() -> None:
    echo = snapshot(USER, {"id": "other", "role": "reasoning", "content": "hm"}, assistant("m1", "Hi"))
    folded = fold(run_of(thought("z1", "hm"), said("m1", "Hi"), echo))
    assert rows(folded) == [row("m1", "Hi", reasonings=[("hm", "complete")])]


def test_encrypted_values_come_with_a_snapshot_too() -> None:
    message = assistant("m1", "Hi", ("c1", "f", "{}"))
    message["toolCalls"][0]["encryptedValue"] = "call=="
    reasoning = {"id": "z1", "role": "reasoning", "content": "", "encryptedValue": "thought=="}
    (only,) = fold(run_of(snapshot(USER, reasoning, message))).rows
    assert (only.calls[0].encrypted_value, only.reasonings[0].encrypted_value) == ("call==", "thought==")


def test_an_empty_snapshot_takes_nothing_away() -> None:
    assert rows(fold(run_of(said("m1", "Hello"), snapshot()))) == [row("m1", "Hello")]


def with_metadata(event: Any, **metadata: Any) -> dict[str, Any]:
    return {**event, "metadata": metadata}


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed before", "brought"])
def test_metadata_of_everything_in_a_snapshot_is_added_to_what_was_streamed(is_streamed: bool) -> None:
    shown = {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"n": 1}}
    streamed = [thought("z1", "hm"), said("m1", "Let me"), called("c1", parent="m1"), result("c1"), shown]
    message = assistant("m1", "Let me", ("c1", "f", "{}"))
    message["toolCalls"] = [with_metadata(call, call=1) for call in message["toolCalls"]]
    brought = snapshot(
        USER,
        with_metadata({"id": "z1", "role": "reasoning", "content": "hm"}, reasoning=1),
        with_metadata(message, message=1),
        with_metadata({"id": "t1", "role": "tool", "toolCallId": "c1", "content": "ok"}, result=1),
        with_metadata({"id": "a1", "role": "activity", "activityType": "PLAN", "content": {"n": 1}}, activity=1),
    )
    folded = fold(run_of(*(streamed if is_streamed else []))[:-1])
    folded.turn.dirty.clear()
    folded.apply("MESSAGES_SNAPSHOT", brought, NOW)
    one, two = folded.rows
    assert [one.metadata, *(each.metadata for each in (*one.reasonings, *one.calls)), two.metadata] == [
        {"message": 1},
        {"reasoning": 1},
        {"call": 1, "result": 1},
        {"activity": 1},
    ]
    assert {one, two} <= folded.turn.dirty.keys()


def test_the_stream_s_word_counts_where_a_snapshot_says_something_else_of_the_same_key() -> None:
    streamed = [*said("m1", "a", metadata={"a": 1})]
    folded = fold(run_of(streamed, snapshot(USER, with_metadata(assistant("m1", "a"), a=2, b=2))))
    assert folded.rows[0].metadata == {"a": 1, "b": 2}


def test_a_snapshot_without_a_user_s_message_is_all_of_this_run() -> None:
    assert rows(fold(run_of(snapshot(assistant("m1", "Hi"), assistant("m2", "there"))))) == [
        row("m1", "Hi"),
        row("m2", "there"),
    ]


def test_a_message_is_found_again_under_the_id_that_a_snapshot_gave_it() -> None:
    later = {"type": "TEXT_MESSAGE_END", "messageId": "db-1", "metadata": {"stored": True}}
    folded = fold(run_of(said("m1", "Hi"), snapshot(USER, assistant("db-1", "Hi")), later))
    assert [(each.agui_id, each.metadata) for each in folded.rows] == [("m1", {"stored": True})]
