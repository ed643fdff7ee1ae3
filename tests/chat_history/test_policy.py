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
    assert [wait(writes=writes) for writes in (0, 1, 2, 3, 4, 10_000)] == [1.0, 1.5, 2.25, 3.375, 5.0, 5.0]


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
