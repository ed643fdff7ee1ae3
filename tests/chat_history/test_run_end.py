"""What a run says at its end."""

from typing import Any

import pytest

from tests.chat_history.folded import fold
from tests.chat_history.scripts import called, finished, said, started

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
