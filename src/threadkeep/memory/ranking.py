"""Putting what was found in order: one list of several, and as much of it as fits. Pure functions.

The same lists give the same order, on any engine and in any process: ties go to the newer memory, by its id.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

DEPTH = 1_000
"""Places of a list that count."""
_K = 60
"""What softens the lead of the first places: the number of the paper on reciprocal rank fusion (Cormack, 2009)."""


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The ids from the best score to the worst, the newest of equal ones first, as far as places count."""
    if len(scores) > DEPTH:
        # Of a whole space, only those that may have a place are sorted.
        least = heapq.nlargest(DEPTH, scores.values())[-1]
        scores = {memory_id: score for memory_id, score in scores.items() if score >= least}
    return sorted(sorted(scores, reverse=True), key=lambda memory_id: -scores[memory_id])[:DEPTH]


def fuse(lists: Iterable[Sequence[str]]) -> list[str]:
    """One order of several: each list gives the more to an id, the further in front it has it."""
    total: dict[str, float] = {}
    for one in lists:
        for place, memory_id in enumerate(one[:DEPTH], 1):
            total[memory_id] = total.get(memory_id, 0.0) + 1 / (_K + place)
    return ranked(total)


def keyword_scores(hits: Mapping[str, Iterable[str]], size: int) -> dict[str, float]:
    """How much of what was asked each memory has, 0 to 1, of the memories that each word is in.

    A word counts the more, the fewer of the `size` memories have it; one that all have counts next to nothing.
    """
    found = {word: set(ids) for word, ids in hits.items()}
    weights = {word: math.log(1 + size / (1 + len(ids))) for word, ids in found.items()}
    whole = sum(weights.values())
    scores: dict[str, float] = {}
    for word, ids in found.items():
        for memory_id in ids:
            scores[memory_id] = scores.get(memory_id, 0.0) + weights[word]
    # Rounded, so that the order in which weights are summed up makes no difference.
    return {memory_id: round(score / whole, 6) for memory_id, score in scores.items()} if whole else {}


def within_budget(items: Iterable[T], budget: int, size: Callable[[T], int]) -> list[T]:
    """Items in their order as long as they fit, in whatever `size` counts; one that does not fit is left out."""
    taken: list[T] = []
    for item in items:
        needed = size(item)
        if needed <= budget:
            taken.append(item)
            budget -= needed
    return taken
