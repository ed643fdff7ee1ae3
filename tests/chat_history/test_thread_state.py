"""The state of a thread: from the client, by snapshots, by patches."""

from typing import Any

import pytest

from tests.chat_history.folded import NOW, fold
from tests.chat_history.scripts import finished, run_of, said, started


def snapshot(value: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "STATE_SNAPSHOT", "snapshot": value, **fields}


def delta(*operations: Any) -> dict[str, Any]:
    return {"type": "STATE_DELTA", "delta": list(operations)}


def test_the_last_state_is_that_of_the_last_snapshot_with_the_patches_after_it() -> None:
    folded = fold(
        run_of(
            snapshot({"n": 1}),
            delta({"op": "add", "path": "/lost", "value": 1}),
            snapshot({"n": 1, "old": True}),
            said("m1", "ok"),
            delta({"op": "replace", "path": "/n", "value": 2}, {"op": "add", "path": "/m", "value": None}),
            delta({"op": "remove", "path": "/old"}),
        )
    )
    assert (folded.state.value, folded.state.changed) == ({"n": 2, "m": None}, True)


@pytest.mark.parametrize("event", [snapshot({"n": 1}), delta({"op": "add", "path": "/n", "value": 1})])
def test_a_snapshot_alone_and_a_patch_alone_change_the_state(event: dict[str, Any]) -> None:
    folded = fold([started(), event])
    assert (folded.state.value, folded.state.changed) == ({"n": 1}, True)


def test_patches_apply_to_the_state_that_the_client_sent() -> None:
    given = {"cart": ["tea"]}
    folded = fold(run_of(delta({"op": "add", "path": "/cart/-", "value": "milk"})), state=given)
    assert folded.state.value == {"cart": ["tea", "milk"]}
    assert given == {"cart": ["tea"]}
    assert fold(run_of(delta({"op": "add", "path": "/a", "value": 1}))).state.value == {"a": 1}


def test_a_state_that_only_the_client_knows_is_not_stored_again() -> None:
    folded = fold(run_of(said("m1", "ok")), state={"n": 1})
    assert not folded.state.changed
    assert folded.state not in folded.turn.dirty


def test_a_bad_patch_is_not_fatal_and_leaves_the_state_as_it_was() -> None:
    bad = [delta({"op": "replace", "path": "/a/b/c", "value": 1}), delta(None), {"type": "STATE_DELTA", "delta": "x"}]
    folded = fold(run_of(snapshot({"n": 1}), bad, said("m1", "ok"), delta({"op": "add", "path": "/z", "value": 0})))
    assert folded.state.value == {"n": 1, "z": 0}
    assert folded.state.rejected == 2
    assert [str(each.content) for each in folded.rows] == ["ok"]


def test_the_state_is_written_when_it_has_changed_and_when_the_run_has_ended() -> None:
    folded = fold([started(), snapshot({"n": 1})])
    assert folded.turn.dirty[folded.state] > NOW
    folded.turn.dirty.clear()
    folded.apply("RUN_FINISHED", finished(), NOW)
    assert folded.state not in folded.turn.dirty


def test_an_agent_may_go_on_changing_the_state_that_it_sent() -> None:
    state = {"steps": [1]}
    folded = fold([started(), snapshot(state)])
    state["steps"].append(2)
    assert folded.state.value == {"steps": [1]}
