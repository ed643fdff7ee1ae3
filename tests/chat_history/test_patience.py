"""What a failure means, and the pauses that follow one."""

import pytest

from threadkeep import errors
from threadkeep.chat_history.ag_ui.patience import Backoff, Patience, Verdict, verdict_on
from threadkeep.persistence import (
    DRMemoryConflictError,
    DRMemoryNotFoundError,
    DRMemoryRateLimitError,
    DRMemoryServiceError,
    DRMemoryUnavailableError,
    DRMemoryVersionConflictError,
)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (DRMemoryNotFoundError("gone", 404), Verdict.GONE),
        (DRMemoryServiceError("gone", 410), Verdict.GONE),
        (errors.NotFound("gone"), Verdict.GONE),
        *((DRMemoryServiceError("no", status), Verdict.REFUSED) for status in (400, 405, 413, 415, 422, 431)),
        (errors.Invalid("no"), Verdict.REFUSED),
        (errors.BadRequest("no"), Verdict.REFUSED),
        (errors.TooLarge("no"), Verdict.REFUSED),
        *((DRMemoryServiceError("later", status), Verdict.DOWN) for status in (401, 403, 408, 425, 502, 503, 504, 507)),
        (DRMemoryRateLimitError("slower", 429, retry_after=3), Verdict.DOWN),
        (DRMemoryUnavailableError("no answer", None), Verdict.DOWN),
        (errors.Unavailable("full"), Verdict.DOWN),
        (errors.RateLimited(3), Verdict.DOWN),
        (ConnectionRefusedError(), Verdict.DOWN),
        (TimeoutError(), Verdict.DOWN),
        (DRMemoryServiceError("a bug", 500), Verdict.FAILED),
        (DRMemoryConflictError("taken", 409), Verdict.FAILED),
        (DRMemoryVersionConflictError("stale", 422), Verdict.FAILED),
        (KeyError("a bug of one's own repository"), Verdict.FAILED),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else str(value),
)
def test_each_failure_has_its_meaning(error: Exception, verdict: Verdict) -> None:
    assert verdict_on(error) is verdict


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(0.1, 5.0, chance=lambda: 1.0)
    pauses = [backoff.failed(OSError(), 100.0) for _ in range(8)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    assert backoff.not_before == pytest.approx(105.0)
    backoff.succeeded()
    assert backoff.not_before == 0.0
    assert backoff.failed(OSError(), 200.0) == pytest.approx(0.1)


def test_a_pause_is_at_least_half_as_long_so_that_many_runs_do_not_come_back_at_once() -> None:
    assert Backoff(4.0, 5.0, chance=lambda: 0.0).failed(OSError(), 0.0) == 2.0


def test_a_store_that_names_a_time_is_not_asked_before_it() -> None:
    backoff = Backoff(0.1, 5.0, chance=lambda: 0.0)
    pause = backoff.failed(DRMemoryRateLimitError("slower", 429, retry_after=30), 1_000.0)
    assert pause == pytest.approx(30.05)
    assert backoff.not_before == pytest.approx(1_030.05)
    assert backoff.failed(OSError(), 1_030.0) == pytest.approx(0.1)


def test_the_times_are_those_of_the_documentation() -> None:
    """`docs/chat-history.md` says them in words."""
    times = Patience()
    assert (times.first_delay, times.longest_delay, times.settle) == (0.1, 5.0, 5.0)
    assert (times.final, times.note) == (10 * 60.0, 24 * 60 * 60.0)
