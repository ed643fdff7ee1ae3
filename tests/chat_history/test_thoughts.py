"""Reasonings, the older THINKING_* events, and encrypted values."""

from typing import Any

import pytest

from tests.chat_history.folded import fold, row, rows
from tests.chat_history.scripts import called, finished, result, run_of, said, started, thought


def sealed(entity: Any, value: Any = "gAAA==", subtype: Any = "message") -> dict[str, Any]:
    return {"type": "REASONING_ENCRYPTED_VALUE", "entityId": entity, "subtype": subtype, "encryptedValue": value}


def steps_of(events: list[Any]) -> list[list[tuple[str, str | None]]]:
    return [[(str(step.content), step.encrypted_value) for step in each.reasonings] for each in fold(events).rows]


@pytest.mark.parametrize("place", [0, 1, 3, 4, 5])
def test_an_encrypted_value_finds_its_reasoning_wherever_it_comes_in_the_phase(place: int) -> None:
    phase = thought("z1", "hm")
    phase.insert(place, sealed("z1"))
    assert steps_of(run_of(phase, said("m1", "ok"))) == [[("hm", "gAAA==")]]


def test_an_encrypted_value_alone_is_a_reasoning_of_the_next_message() -> None:
    assert steps_of(run_of(said("m1", "a"), sealed("z9"), said("m2", "b"))) == [[], [("", "gAAA==")]]
    phase = [{"type": "REASONING_START", "messageId": "z1"}, sealed("z1"), {"type": "REASONING_END", "messageId": "z1"}]
    assert steps_of(run_of(said("m1", "a"), phase, called("c1", parent="m9"))) == [[("", "gAAA==")]]
    assert steps_of(run_of(sealed("z9"))) == [[("", "gAAA==")]]


def test_an_encrypted_value_of_a_message_or_a_call_may_come_before_it() -> None:
    folded = fold(run_of(sealed("m1", "M"), sealed("c1", "C", "tool-call"), said("m1", "ok"), called("c1")))
    (only,) = folded.rows
    assert (only.encrypted_value, only.calls[0].encrypted_value, only.reasonings) == ("M", "C", [])


def test_an_encrypted_value_of_a_message_or_a_call_may_come_after_it() -> None:
    folded = fold(run_of(said("m1", "ok"), called("c1"), sealed("m1", "M"), sealed("c1", "C", "tool-call")))
    (only,) = folded.rows
    assert (only.encrypted_value, only.calls[0].encrypted_value, only.reasonings) == ("M", "C", [])


def test_an_encrypted_value_of_the_wrong_kind_still_finds_what_it_names() -> None:
    folded = fold(run_of(said("m1", "ok"), called("c1"), sealed("c1", "C"), sealed("m1", "M", None)))
    assert (folded.rows[0].encrypted_value, folded.rows[0].calls[0].encrypted_value) == ("M", "C")


@pytest.mark.parametrize(
    "event", [sealed(None), sealed(""), sealed("z", None), sealed("z", {}), sealed("c", "C", "tool-call")]
)
def test_an_encrypted_value_that_names_nothing_makes_nothing(event: dict[str, Any]) -> None:
    assert rows(fold(run_of(said("m1", "ok"), event))) == [row("m1", "ok")]


def test_thinking_without_ids_is_a_reasoning_for_each_message_of_it() -> None:
    thinking = [
        {"type": "THINKING_START", "title": "Plan"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "step "},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "1"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "step 2"},
        {"type": "THINKING_END"},
    ]
    folded = fold([started(), *thinking])
    assert [(step.name, str(step.content), step.status) for step in folded.rows[0].reasonings] == [
        ("Plan", "step 1", "complete"),
        ("Plan", "step 2", "complete"),
    ]


def test_a_reasoning_without_an_id_has_that_of_its_phase_as_long_as_the_phase_lasts() -> None:
    def step(text: str) -> list[dict[str, Any]]:
        fields = {"type": "REASONING_MESSAGE_CONTENT", "delta": text}
        return [{"type": "REASONING_MESSAGE_START"}, fields, {"type": "REASONING_MESSAGE_END"}]

    phase = {"type": "REASONING_START", "messageId": "p1", "title": "Plan"}
    folded = fold(
        run_of(phase, step("in"), {"type": "REASONING_END", "messageId": "p1"}, step("out"), said("m1", "ok"))
    )
    assert [(step.agui_id, step.name, str(step.content)) for step in folded.rows[0].reasonings] == [
        ("p1", "Plan", "in"),
        (None, None, "out"),
    ]


def test_the_end_of_a_phase_ends_the_reasoning_of_its_id_and_the_last_one() -> None:
    parts = [part(agui_id, "hm") for agui_id in "abc"]
    folded = fold([started(), *parts, {"type": "REASONING_END", "messageId": "a"}])
    assert [step.status for step in folded.rows[0].reasonings] == ["complete", "active", "complete"]


def part(agui_id: str, delta: str, **fields: Any) -> dict[str, Any]:
    return {"type": "REASONING_MESSAGE_CONTENT", "messageId": agui_id, "delta": delta, **fields}


def live(events: list[Any]) -> list[tuple[str, str]]:
    """The reasonings of a run that goes on."""
    return [(str(step.content), step.status.value) for each in fold(events).rows for step in each.reasonings]


def test_a_reasoning_ends_with_its_end_and_with_another_start_under_its_id() -> None:
    start, end = ({"type": f"REASONING_MESSAGE_{edge}", "messageId": "a"} for edge in ("START", "END"))
    assert live([started(), start, part("a", "1"), end]) == [("1", "complete")]
    assert live([started(), start, part("a", "1"), start, part("a", "2")]) == [("1", "complete"), ("2", "active")]


def test_what_comes_for_a_reasoning_that_has_ended_is_another_one() -> None:
    end = {"type": "REASONING_MESSAGE_END", "messageId": "a"}
    assert live([started(), part("a", "1"), end, part("a", "2")]) == [("1", "complete"), ("2", "active")]


def test_what_a_subagent_was_thinking_ends_as_the_subagent_does_and_nothing_else() -> None:
    events = [
        started(),
        part("z", "not its own"),
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"},
        part("a", "over", subagentRunId="s1"),
        {"type": "REASONING_MESSAGE_END", "messageId": "a", "subagentRunId": "s1"},
        part("b", "open", subagentRunId="s1"),
        {"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "boom"},
    ]
    steps = [step for each in fold(events).rows for step in each.reasonings]
    assert [(str(step.content), step.status, step.error) for step in steps] == [
        ("not its own", "active", None),
        ("over", "complete", None),
        ("open", "errored", "boom"),
    ]


def test_reasonings_that_overlap_keep_their_texts_apart() -> None:
    folded = [part("a", "a1"), part("b", "b1"), part("a", "a2"), part("b", "b2"), *said("m1", "ok")]
    assert steps_of(run_of(folded)) == [[("a1a2", None), ("b1b2", None)]]


def test_the_end_of_a_phase_ends_what_it_left_open_and_nothing_of_another_speaker() -> None:
    open_one = {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z1", "delta": "hm"}
    other = {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z2", "delta": "er", "subagentRunId": "s1"}
    folded = fold([started(), open_one, other, {"type": "REASONING_END", "messageId": "phase"}])
    assert [each.reasonings[0].status for each in folded.rows] == ["complete", "active"]


def test_reasoning_between_a_call_and_its_result_goes_to_what_comes_next() -> None:
    folded = fold(run_of(called("c1", parent="m1"), thought("z1", "hm"), result("c1"), said("m2", "ok")))
    assert [(each.agui_id, [str(step.content) for step in each.reasonings]) for each in folded.rows] == [
        ("m1", []),
        ("m2", ["hm"]),
    ]


def test_reasoning_that_a_failure_cuts_short_is_errored_with_its_text() -> None:
    events = [started(), thought("z1", "hm")[0], {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z1", "delta": "h"}]
    folded = fold([*events, {"type": "RUN_ERROR", "message": "boom"}])
    assert [(str(step.content), step.status, step.error) for step in folded.rows[0].reasonings] == [
        ("h", "errored", "boom")
    ]
    assert fold([*events, finished()]).rows[0].reasonings[0].status == "complete"


def test_a_reasoning_that_is_only_an_encrypted_value_is_complete_and_takes_the_newest_value() -> None:
    folded = fold([started(), sealed("z9", "one"), *said("m1", "a")])
    assert [(step.encrypted_value, step.status) for step in folded.rows[0].reasonings] == [("one", "complete")]
    assert steps_of(run_of(sealed("z9", "one"), said("m1", "a"), sealed("z9", "two"))) == [[("", "two")]]


def test_an_encrypted_value_for_a_call_that_never_comes_is_counted_as_stray() -> None:
    folded = fold(run_of(said("m1", "a"), sealed("c9", "C", "tool-call"), sealed("c8", "C", "tool-call")))
    assert folded.turn.stray == 2
    assert folded.rows[0].reasonings == []
