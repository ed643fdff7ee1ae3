"""Fusing lists, weighing words, and keeping to a budget."""

from hypothesis import given
from hypothesis import strategies as st

from threadkeep.memory.ranking import DEPTH, WHOLE, fuse, ranked, within_budget, word_weights


def test_what_both_lists_have_in_front_comes_first() -> None:
    # 1/61 + 1/63, 1/62 + 1/62 and 1/63 + 1/61: the middle of both is just behind the first of either.
    assert fuse([["a", "b", "c"], ["c", "b", "a"]]) == ["c", "a", "b"]
    assert fuse([["a", "b"], ["b", "c"]]) == ["b", "a", "c"]


def test_one_list_stays_as_it_is() -> None:
    assert fuse([["b", "a", "c"], []]) == ["b", "a", "c"]
    assert fuse([]) == []


def test_equal_scores_give_the_newest_first() -> None:
    assert ranked({"1": 0.5, "3": 0.5, "2": 0.7}) == ["2", "3", "1"]
    assert fuse([["1"], ["2"]]) == ["2", "1"]


def test_no_more_places_count_than_the_depth() -> None:
    long = [f"{n:05}" for n in range(DEPTH + 5)]

    assert len(ranked(dict.fromkeys(long, 1.0))) == DEPTH
    assert fuse([long]) == long[:DEPTH]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=4))
def test_the_order_of_the_lists_changes_nothing(lists: list[list[str]]) -> None:
    assert fuse(lists) == fuse(lists[::-1])


def test_rare_words_count_more_than_common_ones() -> None:
    # ln(1 + 4/5) and ln(1 + 4/2), of both together.
    assert word_weights({"likes": 4, "tea": 1}, 4) == {"likes": 348_545_440, "tea": 651_454_560}
    # A word that nothing has is a part of what was asked for, all the same.
    assert word_weights({"likes": 4, "tea": 0}, 4) == {"likes": 267_513_240, "tea": 732_486_760}


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1_000), min_size=1, max_size=64))
def test_what_has_every_word_has_all_that_was_asked_for(counts: dict[str, int]) -> None:
    assert abs(sum(word_weights(counts, 1_000).values()) - WHOLE) <= len(counts) / 2


def test_of_no_memories_or_no_words_nothing_is_weighed() -> None:
    assert word_weights({"tea": 0}, 0) == {}
    assert word_weights({}, 5) == {}


def test_what_does_not_fit_the_budget_is_left_out() -> None:
    assert within_budget(["aaaa", "bb", "cccc", "d"], 7, len) == ["aaaa", "bb", "d"]
    assert within_budget(["aaaa"], 3, len) == []


def test_many_are_ranked_as_few_are_ties_at_the_last_place_included() -> None:
    scores = {f"{number:04}": float(number % 7) for number in range(5_000)}
    whole = sorted(scores, key=lambda memory_id: (scores[memory_id], memory_id), reverse=True)

    assert ranked(scores) == whole[:DEPTH]
