"""The words of a space's memories as arrays of rows, for weighing them at once: kept for spaces that are searched most.

A word's memories are read from the index of the database when the word is first asked for. From then on they are kept
up to date by what has changed, whichever process changed it: nothing is used before the version of the space is read.
"""

import asyncio
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from threadkeep.domain.words import words
from threadkeep.memory import ranking
from threadkeep.services.kept import Kept, in_thread
from threadkeep.services.space_vectors import numpy
from threadkeep.storage import memory_pages, memory_search, memory_versions
from threadkeep.storage.database import Database
from threadkeep.storage.memory_pages import Narrowed
from threadkeep.storage.memory_versions import Change

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

BUDGET = 256 * 1024 * 1024
"""Bytes of all words that one process keeps."""
_WORN = 1_000
"""Rows of texts that are gone for which nothing is read anew yet."""
_UNIT = ranking.WHOLE // 1_000_000
"""Scores count by millionths."""


class WordRows:
    """The memories of one space, a row for each text of theirs, and the rows that have each word that was asked for."""

    def __init__(self, key_of: Callable[[str], str]) -> None:
        self.version = 0
        self.removed = 0
        self.lock = asyncio.Lock()
        self._key_of = key_of
        self.begin(())

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return 400 * len(self._ids) + sum(200 + 8 * len(rows) for rows in self._of.values())

    def __len__(self) -> int:
        return len(self._rows)

    def unknown(self, wanted: Collection[str]) -> list[str]:
        """Those of the words whose memories are to be read yet."""
        return [word for word in wanted if word not in self._of]

    def begin(self, memory_ids: Collection[str]) -> None:
        """Begin anew, with these memories."""
        self._rows: dict[str, int] = {}
        # By what the index calls a memory; of one that is gone it stays, and leads to a row that counts for nothing.
        self._by_key: dict[str, int] = {}
        self._ids: list[str] = []
        # The first half of each id, by which the newest of many are found without comparing texts.
        self._ages = array("Q")
        self._dead = array("q")
        self._of: dict[str, array[int]] = {}
        for memory_id in memory_ids:
            self._add(memory_id)

    def learn(self, hits: dict[str, str]) -> None:
        """Take up the memories that have some words, as the database names them."""
        for word, keys in hits.items():
            # What is not known yet came after the version that is here, and is among the next changes.
            self._of[word] = array("q", [row for row in map(self._by_key.get, keys.split()) if row is not None])

    def change(self, changes: Collection[Change]) -> None:
        """Take up what has changed. A text has a row of its own, so that no word has to forget one."""
        for change in changes:
            self._let_go(change.memory_id)
            if change.text is None:
                continue
            row = self._add(change.memory_id)
            for word in set(words(change.text)) & self._of.keys():
                self._of[word].append(row)

    def keep(self, memory_ids: Collection[str]) -> None:
        """Let go of all others."""
        for memory_id in self._rows.keys() - set(memory_ids):
            self._let_go(memory_id)

    @property
    def is_worn(self) -> bool:
        """Whether most of the rows are of texts that are gone."""
        return len(self._dead) > _WORN + len(self._rows)

    def weigh(
        self,
        wanted: Sequence[str],
        among: Collection[str] | None,
        without: Collection[str],
        beside: Collection[str],
        most: int,
    ) -> dict[str, float]:
        """How much of the words memories have, 0 to 1: the best of those `among`, or of all but some; and those beside.

        What has none of the words is left out.
        """
        np = numpy()
        dead = np.frombuffer(self._dead, dtype=np.int64) if self._dead else []
        is_there = np.ones(len(self._ids), dtype=bool)
        is_there[dead] = False
        rows_of = {word: np.frombuffer(self._of[word], dtype=np.int64) for word in wanted if self._of[word]}
        counts = {word: int(np.count_nonzero(is_there[rows_of[word]])) if word in rows_of else 0 for word in wanted}
        totals = np.zeros(len(self._ids), dtype=np.int64)
        for word, weight in ranking.word_weights(counts, len(self)).items():
            if word in rows_of:
                totals[rows_of[word]] += weight
        totals = (totals + _UNIT // 2) // _UNIT
        totals[dead] = 0
        totals[self._rows_of(without)] = 0
        rows = np.flatnonzero(totals) if among is None else np.array(self._rows_of(among), dtype=np.int64)
        chosen = rows[_best(np, totals[rows], rows, self._ages, most)].tolist()
        return {
            self._ids[row]: int(totals[row]) / 1_000_000 for row in {*chosen, *self._rows_of(beside)} if totals[row]
        }

    def _rows_of(self, memory_ids: Collection[str]) -> list[int]:
        return [row for row in map(self._rows.get, memory_ids) if row is not None]

    def _add(self, memory_id: str) -> int:
        row = self._rows[memory_id] = self._by_key[self._key_of(memory_id)] = len(self._ids)
        self._ids.append(memory_id)
        self._ages.append(int(memory_id[:18].replace("-", ""), 16))
        return row

    def _let_go(self, memory_id: str) -> None:
        row = self._rows.pop(memory_id, None)
        if row is not None:
            self._dead.append(row)


class SpaceWords:
    """The words of the spaces that were searched last, up to a number of bytes."""

    def __init__(self, database: Database, *, budget: int = BUDGET) -> None:
        self._database = database
        self._kept: Kept[WordRows] = Kept(self._new, budget)

    async def weigh(
        self,
        space_id: str,
        queries: Sequence[Sequence[str]],
        *,
        among: Collection[str] | None = None,
        without: Collection[str] = (),
        beside: Sequence[Collection[str]],
        most: int,
    ) -> list[dict[str, float]]:
        """For each list of words, how much of them the memories have that have most of them, and those beside.

        Of those `among`, or of all but some. Raises MissingExtra.
        """
        kept = self._kept.take(space_id)
        async with kept.lock:
            await self._refresh(space_id, kept)
            unknown = kept.unknown({word for query in queries for word in query})
            if unknown:
                hits = await self._database.scan(lambda: memory_search.hits(space_id, unknown))
                await in_thread(partial(kept.learn, hits))
            found = await in_thread(
                lambda: [
                    kept.weigh(query, among, without, near, most) for query, near in zip(queries, beside, strict=True)
                ]
            )
        self._kept.let_go()
        return found

    async def _refresh(self, space_id: str, kept: WordRows) -> None:
        state = await self._database.read(lambda: memory_versions.state(space_id))
        if state.version == kept.version:
            return
        everything = partial(memory_pages.ids, space_id, Narrowed())
        # A version that is less than this one: the space was removed, and has come back.
        if kept.version == 0 or kept.version > state.version or kept.is_worn:
            await in_thread(partial(kept.begin, await self._database.scan(everything)))
        else:
            changes = await self._database.scan(partial(memory_versions.changes, space_id, kept.version))
            await in_thread(partial(kept.change, changes))
            if state.removed > kept.removed:
                await in_thread(partial(kept.keep, await self._database.scan(everything)))
        kept.version, kept.removed = state.version, state.removed

    def _new(self) -> WordRows:
        return WordRows(memory_search.key_of(self._database.dialect))


def _best(np: Any, scores: "Numbers", rows: "Numbers", ages: Sequence[int], most: int) -> Any:
    """Places of the best scores; of those that are equal to the last of them, the newest, and a few more."""
    if len(scores) <= most:
        return slice(None)
    least = np.partition(scores, len(scores) - most)[len(scores) - most]
    better = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)
    room = most - len(better)
    if len(equal) > room:
        age = np.frombuffer(ages, dtype=np.uint64)[rows[equal]]
        equal = equal[age >= np.partition(age, len(age) - room)[len(age) - room]]
    return np.concatenate((better, equal))
