"""The vectors of a space as one matrix in memory, for exact search: kept for the spaces that are searched most.

A matrix is never trusted: before each use the version of the space's memories is read from the database, and what has
changed since is read on, whichever process changed it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from threadkeep.errors import MissingExtra
from threadkeep.storage import memory_versions, vectors
from threadkeep.storage.database import Database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

BUDGET = 512 * 1024 * 1024
"""Bytes of all matrices that one process keeps."""
_PAGE = 4_000
_DIGITS = 6
"""Decimals of a cosine that count: the last bits of a product depend on the shape of the matrix."""


class SpaceMatrix:
    """The vectors that the memories of one space have of one model, a row for each."""

    def __init__(self) -> None:
        self.version = 0
        self.removed = 0
        self.place = vectors.START
        self.lock = asyncio.Lock()
        self._rows: dict[str, int] = {}
        self._ids: list[str | None] = []
        self._values: Floats | None = None

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return 0 if self._values is None else self._values.nbytes + 200 * len(self._ids)

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, memory_id: str, vector: bytes) -> None:
        """Take up a vector, in place of the one that the memory had."""
        np = numpy()
        row = np.frombuffer(vector, dtype=np.float32)
        if self._values is None or self._values.shape[1] != row.shape[0]:
            # Another length under the same name: the model is not what it was, and what is here is of no use.
            self._rows, self._ids, self._values = {}, [], np.zeros((64, row.shape[0]), dtype=np.float32)
        at = self._rows.get(memory_id)
        if at is None:
            at = self._rows[memory_id] = len(self._ids)
            self._ids.append(memory_id)
        if at >= len(self._values):
            grown = np.zeros((at + at // 4 + 64, row.shape[0]), dtype=np.float32)
            grown[: len(self._values)] = self._values
            self._values = grown
        self._values[at] = row

    def keep(self, memory_ids: Collection[str]) -> None:
        """Let go of all others."""
        for memory_id in self._rows.keys() - memory_ids:
            self._ids[self._rows.pop(memory_id)] = None
        if len(self._rows) < len(self._ids) // 2 and self._values is not None:
            left = list(self._rows.items())
            self._values = self._values[[at for _, at in left]]
            self._ids = [memory_id for memory_id, _ in left]
            self._rows = {memory_id: at for at, memory_id in enumerate(self._ids) if memory_id is not None}

    def nearest(
        self, query: "Floats", wanted: Collection[str] | None, without: Collection[str], most: int
    ) -> dict[str, float]:
        """The cosines of the memories nearest to the query: of those wanted, or of all but some."""
        if self._values is None or not self._rows or self._values.shape[1] != query.shape[0]:
            return {}
        np = numpy()
        if wanted is not None:
            ids = [memory_id for memory_id in wanted if memory_id in self._rows]
            found = self._values[[self._rows[memory_id] for memory_id in ids]] @ query
            return _best(ids, found, most)
        found = self._values[: len(self._ids)] @ query
        gone = [at for at, memory_id in enumerate(self._ids) if memory_id is None or memory_id in without]
        found[gone] = -np.inf
        return _best(self._ids, found, most, left_out=len(gone))


class SpaceVectors:
    """The matrices of the spaces that were searched last, up to a number of bytes."""

    def __init__(self, database: Database, *, budget: int = BUDGET) -> None:
        self._database = database
        self._budget = budget
        self._kept: OrderedDict[tuple[str, str], SpaceMatrix] = OrderedDict()

    async def nearest(
        self,
        space_id: str,
        model: str,
        queries: Sequence[bytes],
        *,
        wanted: Collection[str] | None = None,
        without: Collection[str] = (),
        most: int,
    ) -> list[dict[str, float]]:
        """For each query the cosines of the memories nearest to it: of those wanted, or of all but some.

        Raises MissingExtra.
        """
        np = numpy()
        matrix = self._kept.setdefault((space_id, model), SpaceMatrix())
        self._kept.move_to_end((space_id, model))
        async with matrix.lock:
            await self._refresh(space_id, model, matrix)
            parsed = [np.frombuffer(query, dtype=np.float32) for query in queries]
            found = await asyncio.to_thread(lambda: [matrix.nearest(query, wanted, without, most) for query in parsed])
        self._let_go()
        return found

    async def _refresh(self, space_id: str, model: str, matrix: SpaceMatrix) -> None:
        state = await self._database.read(lambda: memory_versions.state(space_id))
        if state.version == matrix.version:
            return
        # Versions become visible in order: whatever is older than this one is there to be read.
        while page := await self._database.scan(partial(vectors.read_on, space_id, model, matrix.place, _PAGE)):
            await asyncio.to_thread(_put_all, matrix, page)
            matrix.place = (page[-1][0], page[-1][1])
        if state.removed > matrix.removed:
            there = await self._database.scan(lambda: vectors.ids(space_id, model))
            matrix.keep(set(there))
        matrix.version, matrix.removed = state.version, state.removed

    def _let_go(self) -> None:
        size = sum(matrix.size for matrix in self._kept.values())
        for key in list(self._kept):
            if size <= self._budget:
                break
            if not self._kept[key].lock.locked():
                size -= self._kept.pop(key).size


def cosines(vectors_of: Sequence[tuple[str, bytes]], queries: Sequence[bytes], most: int) -> list[dict[str, float]]:
    """For each query the cosines of the nearest of a few vectors. Raises MissingExtra."""
    np = numpy()
    found: list[dict[str, float]] = []
    for query in queries:
        alike = [(memory_id, vector) for memory_id, vector in vectors_of if len(vector) == len(query)]
        values = np.frombuffer(b"".join(vector for _, vector in alike), dtype=np.float32)
        scores = values.reshape(len(alike), -1) @ np.frombuffer(query, dtype=np.float32) if alike else values
        found.append(_best([memory_id for memory_id, _ in alike], scores, most))
    return found


def numpy() -> Any:
    """The library, imported when it is first needed. Raises MissingExtra."""
    try:
        import numpy as np
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "Search by meaning") from error
    return np


def _put_all(matrix: SpaceMatrix, page: Sequence[tuple[int, str, bytes]]) -> None:
    for _, memory_id, vector in page:
        matrix.put(memory_id, vector)


def _best(ids: Sequence[str | None], scores: "Floats", most: int, left_out: int = 0) -> dict[str, float]:
    """The best scores by their ids. Those that are equal to the last of them are there too, whatever their number."""
    np = numpy()
    scores = np.round(scores.astype(np.float64), _DIGITS)
    count = len(scores) - left_out
    if count <= 0:
        return {}
    if count > most:
        chosen = np.flatnonzero(scores >= np.partition(scores, len(scores) - most)[len(scores) - most])
    else:
        chosen = np.flatnonzero(scores > -np.inf)
    return {str(ids[at]): float(scores[at]) for at in chosen}
