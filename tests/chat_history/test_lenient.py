"""Reading what nobody has checked."""

from typing import Any

import pytest

from threadkeep.chat_history.ag_ui.lenient import compact_json, identifier_of, joined_surrogates, plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [("m1", "m1"), ("", None), (None, None), (7, "7"), (-1.5, "-1.5"), (True, None), ([], None), ({"a": 1}, None)],
)
def test_an_id_is_a_text_or_a_number(value: Any, expected: str | None) -> None:
    assert identifier_of(value) == expected


def test_halves_of_a_pair_that_stand_side_by_side_are_one_character() -> None:
    assert joined_surrogates("a\ud83d\ude00b") == "a\U0001f600b"
    assert joined_surrogates("\ude00\ud83d") == "\ude00\ud83d"


def test_a_plain_copy_says_what_json_can_say() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    value = {"nan": float("nan"), "inf": [float("-inf")], 3: Odd(), "tuple": (1, None), "half \ud83d": "\ud83d"}
    assert plain(value) == {"nan": None, "inf": [None], "3": "odd", "tuple": [1, None], "half \ufffd": "\ud83d"}


def test_what_nests_too_deeply_becomes_text_and_raises_nothing() -> None:
    deep: Any = "bottom"
    for _ in range(5_000):
        deep = [deep]
    copy = plain(deep)
    for _ in range(100):
        (copy,) = copy
    assert isinstance(copy, str)
    assert compact_json(deep) == "list"
