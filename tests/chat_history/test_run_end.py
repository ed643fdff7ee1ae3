"""What a run says at its end."""

from typing import Any

import pytest

from tests.chat_history.folded import fold
from tests.chat_history.scripts import called, finished, said, started
from threadkeep.chat_history.ag_ui.run_end import ending_of
from threadkeep.streams.run_log import RunEnding

USAGE = [{"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 4, "cacheWriteInputTokens": 0}]


def test_outcome_result_usage_and_metadata_stand_on_the_last_message() -> None:
    end = finished(outcome={"type": "success"}, result={"answer": 42}, usage=USAGE, metadata={"trace": "t"})
    folded = fold([started(), *said("m1", "a"), *said("m2", "b", metadata={"lang": "en"}), end])
    assert [(each.outcome, each.result, each.usage) for each in folded.rows] == [
        (None, None, None),
        ({"type": "success"}, {"answer": 42}, USAGE),
    ]
    assert folded.rows[1].metadata == {"lang": "en", "trace": "t"}


def test_a_failed_run_keeps_what_it_used() -> None:
    folded = fold([started(), *said("m1", "a"), {"type": "RUN_ERROR", "message": "boom", "usage": USAGE[0]}])
    assert (folded.rows[0].status, folded.rows[0].usage) == ("errored", USAGE)


def test_a_cancelled_run_keeps_its_outcome() -> None:
    folded = fold([started(), *said("m1", "a"), finished(outcome={"type": "cancelled"}, usage=USAGE)])
    assert (folded.rows[0].status, folded.rows[0].outcome, folded.rows[0].usage) == (
        "interrupted",
        {"type": "cancelled"},
        USAGE,
    )


def test_a_result_of_a_run_that_said_nothing_has_a_row() -> None:
    assert [(each.result, each.status) for each in fold([started(), finished(result=[1])]).rows] == [([1], "complete")]
    assert fold([started(), finished(usage=USAGE)]).rows == []


@pytest.mark.parametrize(
    ("fields", "status", "call"),
    [
        ({"outcome": "cancelled"}, "interrupted", "interrupted"),
        ({"outcome": "success"}, "complete", "complete"),
        ({"outcome": {"type": "paused"}}, "complete", "complete"),
        ({"outcome": {"type": "interrupt", "interrupts": []}}, "complete", "complete"),
        ({"outcome": {"type": "interrupt", "interrupts": None}}, "complete", "complete"),
        ({"outcome": {"type": ["interrupt"]}}, "complete", "complete"),
        ({"outcome": 7}, "complete", "complete"),
        ({"outcome": "interrupt", "interrupt": {"id": "i1", "reason": "human"}}, "complete", "active"),
        ({"outcome": {"type": "success", "pendingToolCallIds": "c1"}}, "complete", "complete"),
    ],
)
def test_an_outcome_is_read_leniently(fields: dict[str, Any], status: str, call: str) -> None:
    folded = fold([started(), *called("c1"), finished(**fields)])
    assert (folded.rows[0].status, folded.rows[0].calls[0].status) == (status, call)


def test_the_interrupt_of_a_draft_of_the_protocol_is_kept() -> None:
    interrupt = {"id": "i1", "reason": "human"}
    folded = fold([started(), *called("c1"), finished(outcome="interrupt", interrupt=interrupt)])
    assert folded.rows[0].interrupts == [interrupt]


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        ({}, RunEnding("finished")),
        ({"outcome": {"type": "success"}, "usage": USAGE}, RunEnding("finished", {"type": "success"}, USAGE)),
        ({"outcome": {"type": "cancelled"}}, RunEnding("interrupted", {"type": "cancelled"})),
        ({"outcome": "cancelled"}, RunEnding("interrupted", "cancelled")),
        ({"outcome": {"type": "paused"}}, RunEnding("finished", {"type": "paused"})),
        ({"outcome": 7}, RunEnding("finished", 7)),
        (
            {"outcome": {"type": "interrupt", "interrupts": [{"id": "i1"}]}},
            RunEnding("finished", {"type": "interrupt", "interrupts": [{"id": "i1"}]}, interrupts=[{"id": "i1"}]),
        ),
        (
            {"outcome": "interrupt", "interrupt": {"id": "i1"}},
            RunEnding("finished", "interrupt", interrupts=[{"id": "i1"}]),
        ),
    ],
    ids=str,
)
def test_a_run_is_listed_as_its_messages_say_that_it_ended(fields: dict[str, Any], ending: RunEnding) -> None:
    assert ending_of("RUN_FINISHED", finished(**fields)) == ending


def test_a_run_that_failed_is_listed_with_its_reason_and_what_it_used() -> None:
    failed = {"type": "RUN_ERROR", "message": "boom", "usage": USAGE}
    assert ending_of("RUN_ERROR", failed) == RunEnding("errored", usage=USAGE, error="boom")
    assert ending_of("RUN_ERROR", {"type": "RUN_ERROR"}).error == "The agent gave no reason"


def test_the_calls_that_an_outcome_names_wait_and_no_others() -> None:
    outcome = {"type": "success", "pendingToolCallIds": ["c1"]}
    folded = fold([started(), *called("c1"), *called("c2"), finished(outcome=outcome)])
    assert [call.status for call in folded.rows[0].calls] == ["active", "complete"]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"message": "boom", "code": "E1"}, "[E1] boom"),
        ({"message": "boom", "code": ""}, "boom"),
        ({"code": "E1"}, "[E1] the run failed"),
        ({}, "the run failed"),
    ],
    ids=str,
)
def test_a_message_that_a_failed_run_cut_short_says_why(fields: dict[str, Any], error: str) -> None:
    folded = fold([started(), *said("m1", "a")[:2], {"type": "RUN_ERROR", **fields}])
    assert (folded.rows[0].status, folded.rows[0].error) == ("errored", error)


def test_usage_of_no_model_is_no_usage() -> None:
    for usage in ([], "much", None):
        assert fold([started(), *said("m1", "a"), finished(usage=usage)]).rows[0].usage is None
