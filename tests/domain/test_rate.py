"""The rate limit: a bucket of permits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.domain import rate
from threadkeep.domain.rate import Bucket

NOW = 1_796_000_000_000_000
SECOND = 1_000_000


def test_a_second_s_worth_may_come_at_once_and_then_one_must_wait() -> None:
    bucket = rate.full(3, NOW)

    for _ in range(3):
        bucket, wait = rate.take(bucket, 3, NOW)
        assert wait == 0
    bucket, wait = rate.take(bucket, 3, NOW)
    assert wait == 1
    # A third of a second gives one permit of three a second; a refusal has taken none.
    bucket, wait = rate.take(bucket, 3, NOW + SECOND // 3 + 1)
    assert wait == 0
    assert rate.take(bucket, 3, NOW + SECOND // 3 + 1)[1] == 1


def test_a_bucket_never_holds_more_than_a_second_s_worth() -> None:
    bucket = rate.full(2, NOW)
    later = NOW + 3_600 * SECOND

    passed = 0
    for _ in range(10):
        bucket, wait = rate.take(bucket, 2, later)
        passed += wait == 0
    assert passed == 2


def test_a_clock_that_is_set_back_blocks_nobody_and_gives_nothing() -> None:
    bucket, _ = rate.take(rate.full(1, NOW), 1, NOW)

    bucket, wait = rate.take(bucket, 1, NOW - 3_600 * SECOND)
    assert wait == 1
    assert rate.take(bucket, 1, NOW - 3_599 * SECOND)[1] == 0


@pytest.mark.parametrize(
    ("permits", "after", "full"), [(2.0, 0, True), (1.0, SECOND // 2, True), (0.0, SECOND // 2, False)]
)
def test_a_bucket_is_forgotten_when_it_is_full_again(permits: float, after: int, full: bool) -> None:
    assert rate.is_full(Bucket(permits, NOW), 2, NOW + after) is full


@given(st.integers(1, 1000), st.lists(st.integers(0, 2 * SECOND), min_size=1, max_size=200))
def test_no_stretch_of_time_sees_more_than_its_rate_and_one_burst(limit: int, gaps: list[int]) -> None:
    bucket, now, passed = rate.full(limit, NOW), NOW, 0

    for gap in gaps:
        now += gap
        bucket, wait = rate.take(bucket, limit, now)
        passed += wait == 0
        assert wait in (0, 1)
        # Whoever waits as long as told gets through.
        assert rate.take(bucket, limit, now + wait * SECOND)[1] == 0 or wait == 0
    assert passed <= limit + (now - NOW) * limit / SECOND + 1e-6
