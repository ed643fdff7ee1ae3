"""The JSON object in what models say."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import ModelFailed
from threadkeep.memory.answers import parse_answer

TEA = {"memories": ["likes tea"]}
ONE = '{"memories":["likes tea"]}'


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        f"```json\n{ONE}\n```",
        f"```\n{ONE}```",
        f"<think>{{maybe}}</think>{ONE}",
        f'<thinking>{{"memories":[]}}</thinking>\n{ONE}',
        f"Based on {{about tea}}: {ONE}",
        f"Here it is:\n```json\n{ONE}\n```\nI hope that helps {{smile}}.",
        '{"memories":["likes tea",],}',
        f'{{"memories":["a draft"]}} No, rather: {ONE}',
        f"\ufeff{ONE}",
        '["likes tea"]',
        '```json\n["likes tea",]\n```',
    ],
)
def test_the_object_is_found_whatever_is_around_it(text: str) -> None:
    assert parse_answer(text, ["memories"]) == TEA


@pytest.mark.parametrize(
    "text",
    [
        '{"memories":["likes tea"',
        '{"memories":[{"text":"likes tea","sources":[1]},{"text":"lik',
        "I cannot help with that.",
        "{{{{",
        '"likes tea"',
        "12",
        '<think>{"memories":["likes tea"]}',
    ],
)
def test_what_is_cut_off_or_no_object_is_no_answer(text: str) -> None:
    with pytest.raises(ModelFailed, match=r"holds no JSON object|answered nothing"):
        parse_answer(text, ["memories"])


@pytest.mark.parametrize("text", ["", "  \n", "<think>hm</think>"])
def test_an_answer_of_nothing_is_told_as_such(text: str) -> None:
    with pytest.raises(ModelFailed, match="answered nothing"):
        parse_answer(text, ["memories"])


def test_an_object_with_other_keys_is_left_to_the_caller() -> None:
    assert parse_answer('{"facts":["likes tea"]}', ["memories"]) == {"facts": ["likes tea"]}


def test_commas_inside_of_texts_stay() -> None:
    assert parse_answer('{"memories":["tea,] and \\",}",]}', ["memories"]) == {"memories": ['tea,] and ",}']}


def test_line_breaks_inside_of_texts_are_taken() -> None:
    assert parse_answer('{"memories":["tea\nand milk"]}', ["memories"]) == {"memories": ["tea\nand milk"]}


@pytest.mark.parametrize("text", ["{" * 200_000, "[" * 200_000, '{"a":' * 50_000, '{"memories":[' * 50_000])
def test_nonsense_of_any_size_is_given_up(text: str) -> None:
    with pytest.raises(ModelFailed):
        parse_answer(text, ["memories"])


@given(st.text(), st.text(alphabet=st.characters(exclude_characters='{}[]<>`"')))
def test_any_prose_before_an_object_is_passed_over(memory: str, prose: str) -> None:
    wanted = {"memories": [memory]}
    assert parse_answer(prose + json.dumps(wanted), ["memories"]) == wanted
