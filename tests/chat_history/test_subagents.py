"""Subagents: announced, heard, ended."""

from typing import Any

import pytest

from tests.chat_history.folded import NOW, fold
from tests.chat_history.scripts import called, finished, result, run_of, said, started, thought


def begun(run_id: Any = "s1", **fields: Any) -> dict[str, Any]:
    return {"type": "SUBAGENT_STARTED", "subagentRunId": run_id, "name": "researcher", **fields}


def of(run_id: str, events: list[Any]) -> list[Any]:
    return [{**event, "subagentRunId": run_id} for event in events]


def test_a_subagent_stands_in_the_row_of_the_call_that_started_it() -> None:
    folded = fold(
        run_of(
            said("m1", "I ask"),
            called("c1", "delegate"),
            begun(parentToolCallId="c1", description="looks things up", metadata={"model": "x"}),
            of("s1", said("m2", "found")),
            {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "result": {"n": 1}, "outcome": {"type": "success"}},
            result("c1", "done"),
            said("m3", "Here"),
        )
    )
    assert [(each.agui_id, each.name, each.subagent_run_id) for each in folded.rows] == [
        ("m1", None, None),
        ("m2", "researcher", "s1"),
        ("m3", None, None),
    ]
    (agent,) = folded.rows[0].subagents
    assert (agent.name, agent.description, agent.parent_tool_call_id) == ("researcher", "looks things up", "c1")
    assert (agent.result, agent.outcome, agent.status) == ({"n": 1}, {"type": "success"}, "complete")
    assert agent.metadata == {"model": "x"}


def test_calls_and_thoughts_of_a_subagent_do_not_get_into_the_rows_of_others() -> None:
    folded = fold(
        run_of(
            said("m1", "I ask"),
            begun("s1"),
            begun("s2"),
            of("s1", thought("z1", "hm")),
            of("s2", said("m2", "two")),
            of("s1", called("c1")),
            of("s2", called("c2")),
            called("c3"),
        )
    )
    assert [(each.subagent_run_id, [call.agui_id for call in each.calls]) for each in folded.rows] == [
        (None, ["c3"]),
        ("s1", ["c1"]),
        ("s2", ["c2"]),
    ]
    assert [[step.subagent_run_id for step in each.reasonings] for each in folded.rows] == [[], ["s1"], []]


def test_a_subagent_of_a_subagent_stands_with_its_parent() -> None:
    folded = fold(run_of(begun("s1"), of("s1", said("m1", "one")), begun("s2", parentSubagentRunId="s1")))
    assert [(each.subagent_run_id, [agent.subagent_run_id for agent in each.subagents]) for each in folded.rows] == [
        ("s1", ["s1", "s2"])
    ]


def test_a_subagent_that_fails_ends_what_it_left_open_and_nothing_else() -> None:
    half = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "ha"}
    folded = fold(
        [
            started(),
            *said("m1", "I ask")[:2],
            begun(),
            *of("s1", [half, *called("c1")]),
            {"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "boom", "code": "E1"},
        ]
    )
    assert [(each.agui_id, each.status, each.error) for each in folded.rows] == [
        ("m1", "active", None),
        ("m2", "errored", "[E1] boom"),
    ]
    assert [(call.status, call.error) for call in folded.rows[1].calls] == [("errored", "[E1] boom")]
    assert [(agent.status, agent.error) for agent in folded.rows[0].subagents] == [("errored", "[E1] boom")]


def test_what_a_subagent_was_thinking_ends_with_it() -> None:
    half = {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z1", "delta": "h", "subagentRunId": "s1"}
    mine = {"type": "REASONING_MESSAGE_CONTENT", "messageId": "z2", "delta": "m"}
    begin = [started(), *said("m1", "a"), begun(), half, mine]
    ended = fold([*begin, {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"}])
    assert [(step.status, step.error) for step in ended.rows[1].reasonings] == [("complete", None)]
    failed = fold([*begin, {"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "boom"}])
    assert [(step.status, step.error) for step in failed.rows[1].reasonings] == [("errored", "boom")]
    assert [step.status for step in failed.turn.pending] == ["active"]


def test_a_subagent_that_nobody_ended_ends_with_its_run() -> None:
    folded = fold(run_of(said("m1", "a"), begun(), begun("s2"), {"type": "SUBAGENT_FINISHED", "subagentRunId": "s2"}))
    assert [(each.subagent_run_id, each.status) for each in folded.rows[0].subagents] == [
        ("s1", "complete"),
        ("s2", "complete"),
    ]
    cut = fold([started(), begun(), {"type": "RUN_ERROR", "message": "boom"}])
    assert [(each.status, each.error) for each in cut.rows[0].subagents] == [("errored", "boom")]


def test_a_suspended_subagent_says_so_and_ends_with_its_run() -> None:
    suspended = {"type": "suspended", "interruptIds": ["i1"]}
    events = [started(), *said("m1", "a"), begun()]
    events.append({"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "outcome": suspended})
    assert fold(events).rows[0].subagents[0].status == "active"
    assert fold([*events, finished()]).rows[0].subagents[0].outcome == suspended


def test_odd_subagent_events_change_nothing() -> None:
    odd = [begun(None), begun(""), {"type": "SUBAGENT_FINISHED"}, {"type": "SUBAGENT_ERROR", "subagentRunId": "x"}]
    folded = fold(run_of(said("m1", "a"), odd))
    assert folded.rows[0].subagents == []
    assert folded.turn.stray == 4


def test_a_subagent_that_is_announced_twice_is_one() -> None:
    folded = fold(run_of(said("m1", "a"), begun(), begun(description="later")))
    assert [(each.subagent_run_id, each.description) for each in folded.rows[0].subagents] == [("s1", "later")]


@pytest.mark.parametrize(
    ("event", "said_of_it"),
    [
        (begun(description="later", metadata={"b": 2}), {"description": "later", "metadata": {"a": 1, "b": 2}}),
        (
            {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "result": 1, "metadata": {"b": 2}},
            {"status": "complete", "result": 1, "metadata": {"a": 1, "b": 2}},
        ),
        (
            {"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "boom", "metadata": {"a": 2}},
            {"status": "errored", "error": "boom", "metadata": {"a": 2}},
        ),
    ],
    ids=["announced again", "ended", "failed"],
)
def test_what_is_heard_of_a_subagent_after_its_row_was_stored_is_stored_too(
    event: dict[str, Any], said_of_it: dict[str, Any]
) -> None:
    folded = fold([started(), *said("m1", "a"), begun(metadata={"a": 1})])
    folded.turn.dirty.clear()
    folded.apply(event["type"], event, NOW)
    assert [*folded.turn.dirty] == folded.rows
    (subagent,) = folded.rows[0].subagents
    assert {name: getattr(subagent, name) for name in said_of_it} == said_of_it


def test_steps_of_subagents_do_not_become_the_steps_of_others() -> None:
    step = {"type": "STEP_STARTED", "stepName": "look"}
    folded = fold(run_of(of("s1", [step, *said("m1", "a")]), said("m2", "b")))
    assert [(each.agui_id, each.step) for each in folded.rows] == [("m1", "look"), ("m2", None)]
