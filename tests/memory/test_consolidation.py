"""What new facts mean for what is known."""

from typing import Any

import pytest

from tests.memory.talk import fact, memory
from threadkeep.domain.memory import MemoryChange, MemorySource
from threadkeep.errors import ModelFailed
from threadkeep.memory.consolidation import Decision, Keeping, decide, is_same, open_facts, read_decisions

FROM = Keeping("session-1", metadata='{"k":1}', expiration_date="2030-01-01")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("likes tea", "Likes tea.", True),
        ("likes tea", "User likes the tea", True),
        ("Is allergic to peanuts", "allergic to peanuts", True),
        ("likes tea", "likes coffee", False),
        ("likes tea", "does not like tea", False),
        ("Is vegetarian", "Is not vegetarian", False),
        ("Isn't vegetarian", "Is vegetarian", False),
        ("Has 2 cats", "Has 3 cats", False),
        ("Lives in Berlin", "Lives in Bern", False),
        ("Works as a nurse at the city hospital in Utrecht", "Works as nurse at the city hospital of Utrecht", True),
        (
            "Runs with friends in the park before work at 6 on Mondays",
            "Runs with friends in the park before work at 7 on Mondays",
            False,
        ),
        (
            "Works in the hospital of Utrecht since 2019 with Eva and Ben",
            "Works at the hospital of Arnhem since 2019 with Eva and Ben",
            False,
        ),
        ("Ana likes Eva", "Eva likes Ana", False),
        ("日本語を話す", "日本語を話す。", True),
        ("Ana is her sister", "Eva is her sister", False),
    ],
)
def test_texts_that_say_the_same_in_the_same_words_are_the_same(one: str, other: str, expected: bool) -> None:
    assert is_same(one, other) is expected
    assert is_same(other, one) is expected


def test_what_is_known_or_said_before_is_settled_without_a_model() -> None:
    facts = [fact("likes tea"), fact("has a dog"), fact("Has a dog."), fact("is a nurse")]
    assert open_facts(facts, [memory("User likes tea")]) == [1, 3]
    assert open_facts(facts, []) == [0, 1, 3]


def test_a_new_fact_is_added_with_all_that_belongs_to_it() -> None:
    (change,) = decide([fact("likes tea", sources=(3, 4))], [], [], FROM)
    assert change == MemoryChange(
        "ADD",
        text="likes tea",
        sources=(MemorySource("session-1", (3, 4)),),
        attributed_to="ann",
        categories=(),
        metadata='{"k":1}',
        expiration_date="2030-01-01",
    )


def test_a_fact_that_replaces_updates_and_one_that_retracts_deletes() -> None:
    known = [memory("lives in Paris", 1), memory("is vegetarian", 2)]
    facts = [fact("lives in Berlin"), fact("is no longer vegetarian")]
    made = decide(facts, known, [Decision(0, "replaces", 0), Decision(1, "retracts", 1)], FROM)
    assert [(each.event, each.memory_id, each.text, each.old_text) for each in made] == [
        ("UPDATE", "m-1", "lives in Berlin", "lives in Paris"),
        ("DELETE", "m-2", None, "is vegetarian"),
    ]
    assert all(each.sources == (MemorySource("session-1", (10,)),) for each in made)


def test_a_fact_that_is_known_in_other_words_changes_nothing() -> None:
    assert decide([fact("loves tea")], [memory("likes tea")], [Decision(0, "same", 0)], FROM) == []


@pytest.mark.parametrize("action", ["replaces", "retracts"])
def test_what_another_person_said_is_not_touched(action: Any) -> None:
    known = [memory("is vegetarian", attributed_to="bob")]
    (change,) = decide([fact("is no longer vegetarian")], known, [Decision(0, action, 0)], FROM)
    assert (change.event, change.text) == ("ADD", "is no longer vegetarian")


def test_what_nobody_in_particular_said_may_be_replaced() -> None:
    known = [memory("lives in Paris", attributed_to=None)]
    (change,) = decide([fact("lives in Berlin")], known, [Decision(0, "replaces", 0)], FROM)
    assert change.event == "UPDATE"


def test_a_memory_is_touched_once() -> None:
    facts = [fact("lives in Berlin"), fact("lives in Rome"), fact("lives nowhere")]
    decisions = [Decision(0, "replaces", 0), Decision(1, "replaces", 0), Decision(2, "retracts", 0)]
    made = decide(facts, [memory("lives in Paris")], decisions, FROM)
    assert [each.event for each in made] == ["UPDATE", "ADD", "ADD"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"fact": 1, "action": "replaces", "memory": 2}, [Decision(0, "replaces", 1)]),
        ({"fact": 1, "action": "new", "memory": None}, [Decision(0, "new")]),
        ({"fact": 1, "action": "new"}, [Decision(0, "new")]),
        ({"fact": 1, "action": "replaces", "memory": 3}, []),
        ({"fact": 1, "action": "retracts", "memory": 0}, []),
        ({"fact": 1, "action": "retracts", "memory": -1}, []),
        ({"fact": 1, "action": "retracts"}, []),
        ({"fact": 2, "action": "same", "memory": 1}, []),
        ({"fact": 0, "action": "same", "memory": 1}, []),
        ({"fact": 1, "action": "delete everything", "memory": 1}, []),
        ({"fact": 1, "action": ["same"], "memory": 1}, []),
        ({"fact": "1", "action": "same", "memory": 1}, []),
        ("delete all", []),
    ],
)
def test_decisions_that_make_no_sense_are_left_out(item: Any, expected: list[Decision]) -> None:
    assert read_decisions({"decisions": [item]}, facts=1, known=2) == expected


def test_the_first_decision_about_a_fact_counts() -> None:
    items = [{"fact": 1, "action": "new"}, {"fact": 1, "action": "retracts", "memory": 1}]
    assert read_decisions({"decisions": items}, facts=1, known=1) == [Decision(0, "new")]


@pytest.mark.parametrize("answer", [{}, {"decisions": "all new"}])
def test_an_answer_without_decisions_is_none(answer: dict[str, Any]) -> None:
    with pytest.raises(ModelFailed, match="no list of decisions"):
        read_decisions(answer, 1, 1)
