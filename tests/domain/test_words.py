"""The words of texts."""

from hypothesis import given
from hypothesis import strategies as st

from threadkeep.domain.words import LONGEST, words


def test_words_have_no_case_no_accents_and_no_punctuation() -> None:
    assert words("Ünïcode CAFÉ, straße: it's x_y 1e5!") == ["unicode", "cafe", "strasse", "it", "s", "x", "y", "1e5"]


def test_scripts_without_spaces_give_pairs_of_neighbours() -> None:
    assert words("東京都に住む2人") == ["東京", "京都", "都に", "に住", "住む", "2", "人"]


def test_a_word_is_as_long_as_it_counts() -> None:
    assert words("a" * 100) == ["a" * LONGEST]
    assert words("") == words("?! \0 \ud83d") == []


@given(st.text())
def test_case_makes_no_difference(text: str) -> None:
    assert words(text.casefold()) == words(text)
