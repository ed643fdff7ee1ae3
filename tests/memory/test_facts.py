"""What of a model's answer is believed."""

from dataclasses import replace
from typing import Any

import pytest

from tests.memory.talk import DAY, talk
from threadkeep.errors import ModelFailed
from threadkeep.memory.facts import Fact, read_facts

TEA = talk("- Hello", "ann: I like tea, and I have two cats", "bob: I am a nurse")


def texts(answer: dict[str, Any], *said: str) -> list[str]:
    return [fact.text for fact in read_facts(answer, talk(*said))]


def test_a_fact_is_of_the_person_who_said_the_lines_that_it_names() -> None:
    answer = {
        "memories": [
            {"text": "Likes tea", "sources": [2], "categories": ["food", "food", " "]},
            {"text": "Is a nurse", "sources": [3], "categories": []},
        ]
    }
    assert read_facts(answer, TEA) == [
        Fact("Likes tea", "ann", (20,), ("food",), DAY),
        Fact("Is a nurse", "bob", (30,), (), DAY),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {"memories": ["likes tea"]},
        {"facts": ["likes tea"]},
        {"memory": [{"fact": "likes tea"}]},
        {"memories": {"text": "likes tea"}},
        {"results": [{"memory": "likes tea", "source": "2"}]},
        {"memories": [{"content": " likes\n tea\u0007 ", "lines": "[2]"}]},
        {"memories": [{"text": "likes tea", "sources": ["n2", 99, -1, None, 2.5]}]},
        {"memories": ["likes tea", "Likes tea.", 7, None, [], {}, "", " ", "x" * 2_000]},
    ],
)
def test_answers_of_other_shapes_are_understood(answer: dict[str, Any]) -> None:
    (found,) = read_facts(answer, TEA)
    assert (found.text, found.person, found.sources) == ("likes tea", "ann", (20,))


@pytest.mark.parametrize("answer", [{}, {"memories": "likes tea"}, {"memories": None}, {"answer": ["likes tea"]}])
def test_an_answer_without_a_list_is_none(answer: dict[str, Any]) -> None:
    with pytest.raises(ModelFailed, match="no list of memories"):
        read_facts(answer, TEA)


def test_nothing_found_is_an_answer() -> None:
    assert read_facts({"memories": []}, TEA) == []


@pytest.mark.parametrize("sources", [[1], [2], [1, 2], []])
@pytest.mark.parametrize("text", ["Is a chef", "User is a chef", "Likes sushi"])
def test_what_only_an_agent_said_is_no_fact_about_a_person(text: str, sources: list[int]) -> None:
    said = ("- I recommend sushi. I am a chef.", "ann: ok")
    assert texts({"memories": [{"text": text, "sources": sources}]}, *said) == []


def test_what_a_person_answers_to_a_question_is_a_fact() -> None:
    answer = {"memories": [{"text": "Is vegetarian", "sources": [1, 2]}]}
    assert texts(answer, "- Are you vegetarian?", "ann: Yes, I am") == ["Is vegetarian"]
    assert texts(answer, "- You seem vegetarian.", "ann: Yes, I am") == []
    assert texts(answer, "- Are you vegetarian?", "bob: Are you new here?", "ann: Yes") == ["Is vegetarian"]
    assert texts({"memories": [{"text": "Is vegetarian", "sources": [2]}]}, "- Are you vegetarian?", "ann: Yes") == []


def test_the_person_who_answered_is_the_one_it_is_about() -> None:
    part = talk("- Are you vegetarian?", "ann: Yes", "bob: I eat everything")
    (found,) = read_facts({"memories": [{"text": "Is vegetarian", "sources": [1, 2]}]}, part)
    assert found.person == "ann"


def test_a_fact_in_other_words_or_another_language_is_believed() -> None:
    assert texts({"memories": [{"text": "Mag Tee", "sources": [1]}]}, "ann: I like tea", "- Good") == ["Mag Tee"]


@pytest.mark.parametrize("sources", [[2, 3], [3, 2]])
def test_a_fact_that_mixes_two_people_is_of_the_one_who_said_more_of_it(sources: list[int]) -> None:
    (found,) = read_facts({"memories": [{"text": "Likes tea and has two cats", "sources": sources}]}, TEA)
    assert (found.person, found.sources) == ("ann", (20,))


def test_a_fact_without_sources_in_words_of_nobody_is_left_out_where_several_speak() -> None:
    assert [fact.text for fact in read_facts({"memories": ["Lives in Berlin"]}, TEA)] == []


def test_lines_that_were_read_before_are_no_source() -> None:
    before, after = talk("ann: I like tea", "ann: I have two cats")
    part = [replace(before, is_context=True), after]
    answer = {"memories": [{"text": "Likes tea", "sources": [1]}, {"text": "Has two cats", "sources": [1, 2]}]}
    (found,) = read_facts(answer, part)
    assert (found.text, found.sources) == ("Has two cats", (20,))


def test_an_answer_of_very_many_facts_is_cut() -> None:
    answer = {"memories": [{"text": f"Likes tea number {number}", "sources": [2]} for number in range(1_000)]}
    assert len(read_facts(answer, TEA)) == 200
