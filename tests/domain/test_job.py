"""When a job that failed is tried again."""

import pytest

from threadkeep.domain.job import LIFECYCLE, Job, retry_at


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 2), (2, 4), (8, 256), (9, 300), (10_000, 300)])
def test_a_job_waits_longer_each_time_and_never_more_than_five_minutes(attempts: int, seconds: int) -> None:
    assert retry_at(Job("s", "s", LIFECYCLE, "w", 0, attempts), 1_000) == 1_000 + seconds * 1_000_000
