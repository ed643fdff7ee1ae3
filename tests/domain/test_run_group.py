"""Groups of events come back byte for byte, in either form, and what is damaged is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.domain import run_group
from threadkeep.domain.run_group import DEFLATED, PLAIN

EVENTS = st.lists(st.binary(max_size=200), max_size=20)


@given(EVENTS)
def test_what_is_packed_comes_back(events: list[bytes]) -> None:
    payload = run_group.pack(events)

    assert run_group.read(payload, PLAIN, len(events), len(payload)) == events
    form, kept = run_group.shortest(payload)
    assert run_group.read(kept, form, len(events), len(payload)) == events
    assert len(kept) <= len(payload)


@given(EVENTS, st.integers(1, 500))
def test_cutting_loses_nothing_and_keeps_the_bound(events: list[bytes], most: int) -> None:
    groups = run_group.cut(events, most)

    assert [event for group in groups for event in group] == events
    assert all(len(group) == 1 or sum(map(len, group)) <= most for group in groups)
    assert all(groups)


def test_what_repeats_itself_is_deflated_and_what_does_not_is_kept() -> None:
    assert run_group.shortest(b"ab" * 100)[0] == DEFLATED
    assert run_group.shortest(b"a\x07\xf3") == (PLAIN, b"a\x07\xf3")


@pytest.mark.parametrize(
    ("payload", "form", "count", "size", "problem"),
    [
        (b"\0\0\0\1a", PLAIN, 1, 6, "not of 6 bytes"),
        (b"\0\0\0\1a", PLAIN, 2, 5, "too few for 2 events"),
        (b"\0\0\0\2a", PLAIN, 1, 5, "their lengths say 6"),
        (b"\0\0\0\1a", DEFLATED, 1, 5, "cannot be inflated"),
        (run_group.shortest(bytes(5_000))[1], DEFLATED, 1, 5, "not of 5 bytes"),
        (b"\0\0\0\1a", 7, 1, 5, "has the form 7"),
    ],
)
def test_what_is_damaged_is_noticed(payload: bytes, form: int, count: int, size: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        run_group.read(payload, form, count, size)
