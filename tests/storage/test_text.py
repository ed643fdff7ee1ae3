"""Odd text through the codec of the engines."""

from hypothesis import given
from hypothesis import strategies as st

from threadkeep.storage import text

# Every code point there is, halves of surrogate pairs and the private plane included.
ANY_TEXT = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"]), st.characters(min_codepoint=0x10EFF0)))


@given(ANY_TEXT)
def test_any_text_comes_back_as_it_was(original: str) -> None:
    assert text.decode(text.encode(original)) == original


@given(ANY_TEXT)
def test_what_is_kept_is_text_that_both_engines_hold(original: str) -> None:
    kept = text.encode(original)

    assert "\0" not in kept
    kept.encode("utf-8")


@given(ANY_TEXT, ANY_TEXT)
def test_two_texts_are_never_kept_as_one(one: str, other: str) -> None:
    assert (text.encode(one) == text.encode(other)) == (one == other)


def test_ordinary_text_is_kept_as_it_is() -> None:
    assert text.encode("größer 😀 als\n") == "größer 😀 als\n"


def test_folding_is_the_same_for_all_scripts() -> None:
    assert text.fold("STRASSE") == text.fold("straße")
    assert text.fold("ÉCOLE") == "école"


@given(ANY_TEXT, ANY_TEXT)
def test_what_is_kept_holds_what_is_kept_of_a_piece_and_of_nothing_else(one: str, other: str) -> None:
    assert (text.encode(other) in text.encode(one)) == (other in one)
    assert text.encode(other) in text.encode(one + other + one)


def test_a_private_character_is_not_taken_for_the_nul_that_it_stands_for() -> None:
    nul = text.encode("\0")

    assert text.encode("\0ab") not in text.encode(f"{nul}ab")
    assert text.decode(text.encode(f"{nul}\0")) == f"{nul}\0"
