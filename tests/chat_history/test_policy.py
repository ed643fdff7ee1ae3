"""When a changed row is written."""

import pytest

from threadkeep.chat_history.ag_ui.policy import FlushPolicy

POLICY = FlushPolicy()


def wait(unsaved: int = 1, stored: int = 0, writes: int = 0, ended: bool = False) -> float:
    return POLICY.wait(unsaved=unsaved, stored=stored, writes=writes, ended=ended)


def test_a_row_that_has_ended_is_written_at_once() -> None:
    assert wait(ended=True) == 0.0


def test_a_chunk_of_5000_characters_is_written_at_once() -> None:
    assert wait(unsaved=4_999) == 1.0
    assert wait(unsaved=5_000) == 0.0


def test_the_chunk_is_a_setting() -> None:
    assert FlushPolicy(minimal_chunk=1).wait(unsaved=1, stored=0, writes=0, ended=False) == 0.0


def test_a_small_change_waits_a_second_and_longer_where_a_row_is_written_over_and_over() -> None:
    assert [wait(writes=writes) for writes in (0, 1, 2, 3, 4, 10_000)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_long_text_is_written_in_chunks_that_grow_with_it() -> None:
    assert wait(unsaved=5_000, stored=65_535) == 0.0
    assert wait(unsaved=5_000, stored=65_536) == 1.0
    assert wait(unsaved=16_384, stored=65_536) == 0.0


@pytest.mark.parametrize("delta", [1, 10, 1_000])
def test_a_megabyte_is_rewritten_a_few_dozen_times_and_sends_some_megabytes(delta: int) -> None:
    stored = unsaved = writes = sent = 0
    while stored < 1_000_000:
        unsaved += delta
        if wait(unsaved=unsaved, stored=stored) == 0.0:
            stored, unsaved, writes = stored + unsaved, 0, writes + 1
            sent += stored
    assert writes < 30
    assert sent < 6_500_000


def test_a_long_text_waits_longer_as_it_grows() -> None:
    assert [wait(writes=10_000, stored=stored) for stored in (65_536, 131_072, 655_360)] == [10.0, 20.0, 100.0]
    # Its first changes do not.
    assert wait(writes=1, stored=655_360) == 2.0


def paced(characters: int, each_second: int) -> tuple[int, int, int]:
    """The writes of a text that comes at a steady pace, the characters that they send, and the most that is unsaved."""
    stored = unsaved = writes = sent = most = 0
    since = 0.0
    for second in range(characters // each_second):
        unsaved += each_second
        if second - since >= wait(unsaved=unsaved, stored=stored, writes=writes):
            most = max(most, unsaved)
            stored, unsaved, since, writes = stored + unsaved, 0, second, writes + 1
            sent += stored
    return writes, sent, most


def test_an_answer_of_forty_seconds_is_written_a_few_times() -> None:
    writes, _, most = paced(10_000, 250)
    assert writes <= 6
    assert most <= 2_750


def test_a_megabyte_that_comes_slowly_is_not_sent_a_thousand_times() -> None:
    writes, sent, most = paced(1_000_000, 200)
    assert writes < 130
    assert sent < 40_000_000
    # A crash loses a sixth of the text at the most, and a few seconds of a short one.
    assert most <= 1_000_000 // 6
