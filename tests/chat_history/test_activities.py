"""Activities as rows of their own."""

from typing import Any

import pytest

from tests.chat_history.folded import NOW, fold
from tests.chat_history.scripts import finished, run_of, said, started, thought
from threadkeep.chat_history.constants import Role


def snapshot(agui_id: Any, content: Any, kind: Any = "PLAN", **fields: Any) -> dict[str, Any]:
    return {"type": "ACTIVITY_SNAPSHOT", "messageId": agui_id, "activityType": kind, "content": content, **fields}


def delta(agui_id: Any, *operations: Any, kind: Any = "PLAN") -> dict[str, Any]:
    return {"type": "ACTIVITY_DELTA", "messageId": agui_id, "activityType": kind, "patch": list(operations)}


def shown(events: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.agui_id, each.role, each.activity_type, str(each.content)) for each in fold(events).rows]


def test_an_activity_stands_where_it_first_appeared() -> None:
    folded = run_of(said("m1", "a"), snapshot("a1", {"steps": []}), said("m2", "b"), snapshot("a1", {"steps": [1]}))
    assert shown(folded) == [
        ("m1", Role.ASSISTANT, None, "a"),
        ("a1", Role.ACTIVITY, "PLAN", '{"steps":[1]}'),
        ("m2", Role.ASSISTANT, None, "b"),
    ]


def test_a_patch_changes_the_activity_that_it_names() -> None:
    add = {"op": "add", "path": "/steps/-", "value": "look"}
    assert shown(run_of(snapshot("a1", {"steps": []}), snapshot("a2", {"steps": []}), delta("a1", add))) == [
        ("a1", Role.ACTIVITY, "PLAN", '{"steps":["look"]}'),
        ("a2", Role.ACTIVITY, "PLAN", '{"steps":[]}'),
    ]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "add", "path": "/steps/7", "value": 1},
        {"op": "test", "path": "/steps", "value": 1},
        {"op": "dance"},
        {},
        None,
        "add",
    ],
    ids=str,
)
def test_a_patch_that_does_not_fit_changes_nothing_of_what_comes_with_it(operation: Any) -> None:
    good = {"op": "add", "path": "/done", "value": True}
    folded = fold(run_of(snapshot("a1", {"steps": []}), delta("a1", good, operation)))
    assert [str(each.content) for each in folded.rows] == ['{"steps":[]}']
    assert folded.turn.stray == 1


def test_a_patch_for_an_activity_that_is_not_there_makes_none() -> None:
    assert shown(run_of(delta("a1", {"op": "add", "path": "/a", "value": 1}), said("a1", "text"))) == [
        ("a1", Role.ASSISTANT, None, "text")
    ]


def test_a_patch_for_an_activity_that_is_not_there_is_counted_as_stray() -> None:
    folded = fold(run_of(delta("a1", {"op": "add", "path": "/n", "value": 1})))
    assert folded.turn.stray == 1


def test_an_activity_is_written_when_it_has_been_patched() -> None:
    folded = fold([started(), snapshot("a1", {"n": 0})])
    folded.turn.dirty.clear()
    folded.apply("ACTIVITY_DELTA", delta("a1", {"op": "add", "path": "/n", "value": 1}), NOW)
    assert list(folded.turn.dirty) == folded.rows


def test_a_snapshot_that_is_not_to_replace_only_makes_what_is_missing() -> None:
    first, second = snapshot("a1", {"n": 1}, replace=False), snapshot("a1", {"n": 2}, replace=False)
    assert [each[3] for each in shown(run_of(first, second))] == ['{"n":1}']
    assert [each[3] for each in shown(run_of(first, snapshot("a1", {"n": 3}, replace=None)))] == ['{"n":3}']


def test_activities_without_an_id_are_told_apart_by_their_type() -> None:
    events = run_of(snapshot(None, [1], "A"), snapshot(None, [2], "B"), snapshot(None, [3], "A"))
    assert [each[2:] for each in shown(events)] == [("A", "[3]"), ("B", "[2]")]


def test_an_activity_and_a_message_under_one_id_are_two_rows() -> None:
    events = run_of(said("x", "text"), snapshot("x", {}), said("x", " goes on"))
    assert [each[1:] for each in shown(events)] == [
        (Role.ASSISTANT, None, "text goes on"),
        (Role.ACTIVITY, "PLAN", "{}"),
    ]


def test_an_activity_is_open_until_its_run_ends() -> None:
    events = [started(), snapshot("a1", {}), *said("m1", "x")]
    assert [each.status for each in fold(events).rows] == ["active", "complete"]
    assert [each.status for each in fold([*events, finished()]).rows] == ["complete", "complete"]
    failed = fold([*events, {"type": "RUN_ERROR", "message": "boom"}])
    assert [(each.status, each.error) for each in failed.rows] == [("errored", "boom"), ("errored", "boom")]


def test_reasoning_passes_over_an_activity_to_the_next_message() -> None:
    folded = fold(run_of(said("m1", "a"), thought("z1", "hm"), snapshot("a1", {}), said("m2", "b")))
    assert [len(each.reasonings) for each in folded.rows] == [0, 0, 1]


def test_what_was_handed_in_may_change_afterwards() -> None:
    content = {"steps": [1]}
    folded = fold([started(), snapshot("a1", content)])
    content["steps"].append(2)
    assert str(folded.rows[0].content) == '{"steps":[1]}'


def test_an_activity_of_a_snapshot_of_messages_is_taken_where_it_is_new() -> None:
    entries = [
        {"id": "u1", "role": "user", "content": "hi"},
        {"id": "a1", "role": "activity", "activityType": "PLAN", "content": {"n": 9}},
        {"id": "a2", "role": "activity", "activityType": "MAP", "content": {"n": 2}},
    ]
    events = run_of(snapshot("a1", {"n": 1}), {"type": "MESSAGES_SNAPSHOT", "messages": entries})
    assert [each[2:] for each in shown(events)] == [("PLAN", '{"n":1}'), ("MAP", '{"n":2}')]
