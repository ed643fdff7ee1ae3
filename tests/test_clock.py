"""Times on the wire."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep import clock

NOON = 1_795_953_600_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2026-11-29T12:00:00.123456Z", NOON + 123_456),
        ("2026-11-29T12:00:00.123456+00:00", NOON + 123_456),
        ("2026-11-29T12:00:00.123456 00:00", NOON + 123_456),
        ("2026-11-29T14:00:00+02:00", NOON),
        ("2026-11-29T14:00:00 02:00", NOON),
        ("2026-11-29T09:30:00-02:30", NOON),
        ("2026-11-29 12:00:00Z", NOON),
        ("2026-11-29T12:00:00", NOON),
        ("2026-11-29T12:00:00.5Z", NOON + 500_000),
        ("2026-11-29T12:00:00.123456789Z", NOON + 123_456),
    ],
)
def test_timestamps_are_read_in_the_forms_that_clients_send(text: str, microseconds: int) -> None:
    assert clock.parse_timestamp(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "now", "2026-11-29", "2026-13-01T00:00:00Z", "2026-11-29T25:00:00Z", "1795953600"]
)
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        clock.parse_timestamp(text)


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 1, 1), timezones=st.just(UTC)))
def test_a_time_comes_back_from_its_text_to_the_microsecond(moment: datetime) -> None:
    microseconds = clock.from_datetime(moment)

    assert clock.parse_timestamp(clock.format_timestamp(microseconds)) == microseconds
    assert clock.to_datetime(microseconds) == moment
    assert datetime.fromisoformat(clock.format_timestamp(microseconds)) == moment
