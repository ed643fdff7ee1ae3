"""The description codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.persistence.codec import decode_description, encode_description

PARTS = st.text(min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("prefix", "keys", "text"),
    [
        ("thread", ("t-1",), "//thread/t-1/"),
        ("chat", (), "//chat/"),
        ("p", ("a/b", "c"), "//p/a%2Fb/c/"),
        ("p", ("a", "b/c"), "//p/a/b%2Fc/"),
        ("p", ("ü", "%2F"), "//p/ü/%252F/"),
        ("a/b", ("%",), "//a%2Fb/%25/"),
    ],
)
def test_prefix_and_keys_are_escaped_segments(prefix: str, keys: tuple[str, ...], text: str) -> None:
    """Field case 133."""
    assert encode_description(prefix, keys) == text
    assert decode_description(text) == (prefix, keys)


@given(PARTS, st.lists(PARTS, max_size=5).map(tuple))
def test_any_keys_come_back(prefix: str, keys: tuple[str, ...]) -> None:
    assert decode_description(encode_description(prefix, keys)) == (prefix, keys)


@given(PARTS, st.lists(PARTS, max_size=4), st.lists(PARTS, max_size=4))
def test_a_description_starts_with_a_query_just_when_the_leading_keys_are_equal(
    prefix: str, keys: list[str], leading: list[str]
) -> None:
    starts = encode_description(prefix, keys).startswith(encode_description(prefix, leading))
    assert starts == (keys[: len(leading)] == leading)


@pytest.mark.parametrize(("prefix", "keys"), [("", ("a",)), ("p", ("",)), ("p", ("a", ""))])
def test_an_empty_part_is_refused(prefix: str, keys: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="empty"):
        encode_description(prefix, keys)


def test_the_whole_has_at_most_1_000_characters() -> None:
    assert len(encode_description("p", ["x" * 995])) == 1_000
    with pytest.raises(ValueError, match="has 1001 characters; the limit is 1000"):
        encode_description("p", ["x" * 996])


@pytest.mark.parametrize("text", ["", "/", "//", "///", "a", "//a", "/a/", "//a//b/", "////", "Hello // there/"])
def test_a_description_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        decode_description(text)
