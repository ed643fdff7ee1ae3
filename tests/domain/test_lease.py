"""How the time until a dead process's runs are ended is shared out."""

import pytest

from threadkeep.domain.lease import LeaseTimes


def test_the_default_is_nine_seconds_of_lease_and_a_look_every_three() -> None:
    times = LeaseTimes.within(15)
    assert (times.held, times.look) == (9.0, 3.0)


@pytest.mark.parametrize("seconds", [1, 2, 15, 60, 3_600])
def test_a_dead_process_is_found_with_time_left_to_end_its_runs(seconds: int) -> None:
    times = LeaseTimes.within(seconds)
    found_at_the_latest = times.held + times.look
    assert found_at_the_latest <= 0.8 * seconds + 1e-9
    # Two renewals may fail, and the third still comes in time.
    assert times.held >= 3 * times.look - 1e-9
