"""That the comparison sees what differs, and nothing else."""

from pathlib import Path
from typing import Any

from interop.differences import ALLOWED, unexplained
from interop.rows import normalised

ONE, TWO, THREE, FOUR = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(1, 5))


def a_space(**session: Any) -> dict[str, Any]:
    whole = {"id": TWO, "description": None, "deduplicationKey": None, "metadata": {}, "events": [], **session}
    return {"memorySpaceId": ONE, "createdAt": "2026-11-30T12:00:00.000001Z", "sessions": [whole]}


def test_ids_and_times_are_the_same_in_another_run() -> None:
    again = {**a_space(id=FOUR), "memorySpaceId": THREE, "createdAt": "2027-01-01T00:00:00.999999Z"}
    assert normalised([a_space()]) == normalised([again])


def test_an_id_that_points_elsewhere_differs() -> None:
    right, wrong = (normalised([a_space(metadata={"points_at": at})]) for at in (TWO, ONE))
    (difference,) = unexplained("sdk_sessions", right, wrong)
    assert difference == "0/sessions/0/metadata/points_at: published '<uuid 2>', ours '<uuid 1>'"


def test_a_time_that_is_written_in_another_way_differs() -> None:
    texts = ("2026-11-30T12:00:00.000001Z", "2026-11-30T12:00:00+00:00")
    right, wrong = (normalised([a_space(metadata={"at": text})]) for text in texts)
    assert len(unexplained("orm", right, wrong)) == 1


def test_a_row_too_many_or_of_another_type_differs() -> None:
    event = {"sequenceId": 1, "body": {"n": 1}}
    assert unexplained("sdk_events", normalised([a_space(events=[event])]), normalised([a_space()])) != []
    other = {"sequenceId": 1, "body": {"n": 1.0}}
    assert unexplained("sdk_events", normalised([a_space(events=[event])]), normalised([a_space(events=[other])])) != []


def test_a_difference_is_allowed_in_its_topic_only() -> None:
    published, ours = (normalised([a_space(metadata={key: 5})]) for key in ("snakeKey", "snake_key"))
    assert unexplained("sdk_sessions", published, ours) == []
    assert len(unexplained("chat_runs", published, ours)) == 2


def test_locators_are_compared_whatever_their_order() -> None:
    spaces = []
    for first, second in ((THREE, FOUR), (FOUR, THREE)):
        space = a_space(metadata={"a": THREE, "b": FOUR})
        for target in (first, second):
            locator = {"id": f"{target[:-1]}9", "description": "//loc/", "deduplicationKey": f"message:{target}"}
            space["sessions"].append({**locator, "metadata": {"session_id": TWO}, "events": []})
        spaces.append(space)
    assert normalised(spaces[:1]) == normalised(spaces[1:])


def test_each_reason_is_in_the_documentation() -> None:
    text = (Path(__file__).parent.parent / "docs" / "interop.md").read_text()
    told = {line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")}
    assert told == {line.why for line in ALLOWED}
