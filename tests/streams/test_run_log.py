"""The coordinate of an event in the log of its run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.streams.run_log import format_cursor, parse_cursor


def test_a_cursor_names_its_run_and_the_index() -> None:
    assert format_cursor("r-1", 7) == "r-1:7"
    assert parse_cursor("r-1:7") == ("r-1", 7)
    assert parse_cursor("a:b:0") == ("a:b", 0)


def test_what_would_break_a_line_of_a_stream_is_percent_encoded_in_a_cursor() -> None:
    assert format_cursor("a\nb\r\0%\ud800", 3) == "a%0Ab%0D%00%25%ED%A0%80:3"
    assert parse_cursor("a%0Ab%0D%00%25%ED%A0%80:3") == ("a\nb\r\0%\ud800", 3)


@pytest.mark.parametrize("text", ["", "r1", "7", ":7", "r1:", "r1:-1", "r1:+1", "r1:07", "r1: 7", "r1:7x", "r1:٣"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no cursor of a run; one reads RUN_ID:INDEX"):
        parse_cursor(text)


@given(run_id=st.text(st.characters(exclude_categories=[]), min_size=1), index=st.integers(0, 10**18 - 1))
def test_a_cursor_of_any_run_is_read_as_it_was_written(run_id: str, index: int) -> None:
    assert parse_cursor(format_cursor(run_id, index)) == (run_id, index)
