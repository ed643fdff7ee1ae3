"""Putting what was found in order: one list of several, and as much of it as fits. Pure functions.

The same lists give the same order, on any engine and in any process: ties go to the newer memory, by its id.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

WHOLE = 1_000_000_000
"""What the weights of all words of a query come to."""
DEPTH = 1_000
"""Places of a list that count."""
_K = 60
"""What softens the lead of the first places: the number of the paper on reciprocal rank fusion (Cormack, 2009)."""


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The ids from the best score to the worst, the newest of equal ones first, as far as places count."""
    return sorted(sorted(scores, reverse=True), key=lambda memory_id: -scores[memory_id])[:DEPTH]


def fuse(lists: Iterable[Sequence[str]]) -> list[str]:
    """One order of several: each list gives the more to an id, the further in front it has it."""
    total: dict[str, float] = {}
    for one in lists:
        for place, memory_id in enumerate(one[:DEPTH], 1):
            total[memory_id] = total.get(memory_id, 0.0) + 1 / (_K + place)
    return ranked(total)


def word_weights(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """What each word of a query counts, in billionths of the whole of it, by how many memories have the word.

    It counts the more, the fewer of the `size` memories have it; one that all have counts little. Whole numbers, so
    that the order in which they are summed up makes no difference.
    """
    weights = {word: math.log(1 + size / (1 + count)) for word, count in counts.items()}
    whole = sum(weights.values())
    return {word: round(weight / whole * WHOLE) for word, weight in weights.items()} if whole else {}


def within_budget(items: Iterable[T], budget: int, size: Callable[[T], int]) -> list[T]:
    """Items in their order as long as they fit, in whatever `size` counts; one that does not fit is left out."""
    taken: list[T] = []
    for item in items:
        needed = size(item)
        if needed <= budget:
            taken.append(item)
            budget -= needed
    return taken
