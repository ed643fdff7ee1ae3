"""The vectors of a space as one matrix in memory, for exact search: kept for the spaces that are searched most.

A matrix is never trusted: before each use the version of the space's memories is read from the database, and what has
changed since is read on, whichever process changed it.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from threadkeep.errors import MissingExtra
from threadkeep.services.kept import Kept, in_thread
from threadkeep.storage import memory_versions, vectors
from threadkeep.storage.database import Database
from threadkeep.storage.memory_versions import Change

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
        self.lock = asyncio.Lock()
        self.begin()

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return 0 if self._values is None else self._values.nbytes + 250 * len(self._ids)

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self, room: int = 0) -> None:
        """Begin anew, with nothing; `room` is for so many, so that the matrix need not be copied as it grows."""
        self._room = room
        self.place = vectors.START
        self._rows: dict[str, int] = {}
        self._ids: list[str] = []
        self._versions: list[int] = []
        self._gone: list[int] = []
        self._values: Floats | None = None

    def put(self, page: Sequence[tuple[int, str, bytes]]) -> None:
        """Take up vectors with their versions, each in place of the one that the memory had."""
        np = numpy()
        length = len(page[-1][2])
        if self._values is None or self._values.shape[1] * 4 != length:
            # Another length under the same name: the model is not what it was, and what is here is of no use.
            self.begin(self._room)
            self._values = np.empty((max(len(page), self._room), length // 4), dtype=np.float32)
        start = len(self._ids)
        alike = [row for row in page if len(row[2]) == length]
        for version, memory_id, _ in alike:
            self._let_go(memory_id)
            self._rows[memory_id] = len(self._ids)
            self._ids.append(memory_id)
            self._versions.append(version)
        if len(self._ids) > len(self._values):
            grown = np.empty((len(self._ids) + start // 2, length // 4), dtype=np.float32)
            grown[:start] = self._values[:start]
            self._values = grown
        joined = np.frombuffer(b"".join(vector for _, _, vector in alike), dtype=np.float32)
        self._values[start : len(self._ids)] = joined.reshape(len(alike), -1)
        self.place = (page[-1][0], page[-1][1])

    def change(self, changes: Iterable[Change]) -> None:
        """Let go of vectors that were made of what a memory does not say any more."""
        for change in changes:
            row = self._rows.get(change.memory_id)
            if row is not None and self._versions[row] < change.version:
                self._let_go(change.memory_id)

    def keep(self, memory_ids: Collection[str]) -> None:
        """Let go of all others."""
        for memory_id in self._rows.keys() - memory_ids:
            self._let_go(memory_id)

    def close_up(self) -> None:
        """Where most rows are of no use any more, keep the others alone."""
        if self._values is not None and len(self._rows) < len(self._ids) // 2:
            left = list(self._rows.values())
            self._values = self._values[left]
            self._ids, self._versions = list(self._rows), [self._versions[at] for at in left]
            self._rows = {memory_id: at for at, memory_id in enumerate(self._ids)}
            self._gone = []

    def _let_go(self, memory_id: str) -> None:
        row = self._rows.pop(memory_id, None)
        if row is not None:
            self._gone.append(row)

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
        gone = [*self._gone, *(self._rows[memory_id] for memory_id in without if memory_id in self._rows)]
        found[gone] = -np.inf
        return _best(self._ids, found, most, left_out=len(gone))


class SpaceVectors:
    """The matrices of the spaces that were searched last, up to a number of bytes."""

    def __init__(self, database: Database, *, budget: int = BUDGET) -> None:
        self._database = database
        self._kept: Kept[SpaceMatrix] = Kept(SpaceMatrix, budget)

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
        matrix = self._kept.take((space_id, model))
        async with matrix.lock:
            await self._refresh(space_id, model, matrix)
            parsed = [np.frombuffer(query, dtype=np.float32) for query in queries]
            found = await in_thread(lambda: [matrix.nearest(query, wanted, without, most) for query in parsed])
        self._kept.let_go()
        return found

    async def _refresh(self, space_id: str, model: str, matrix: SpaceMatrix) -> None:
        state = await self._database.read(lambda: memory_versions.state(space_id))
        if state.version == matrix.version:
            return
        # A version that is less than this one: the space was removed, and has come back.
        if matrix.version == 0 or matrix.version > state.version:
            matrix.begin(await self._database.read(partial(vectors.count, space_id)))
        else:
            matrix.change(await self._database.scan(partial(memory_versions.changes, space_id, matrix.version)))
        # Versions become visible in order: whatever is older than this one is there to be read.
        while page := await self._database.scan(partial(vectors.read_on, space_id, model, matrix.place, _PAGE)):
            await in_thread(partial(matrix.put, page))
        if state.removed > matrix.removed:
            matrix.keep(set(await self._database.scan(partial(vectors.ids, space_id, model))))
        matrix.close_up()
        matrix.version, matrix.removed = state.version, state.removed


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


def _best(ids: Sequence[str], scores: "Floats", most: int, left_out: int = 0) -> dict[str, float]:
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
    return dict(zip((ids[at] for at in chosen.tolist()), scores[chosen].tolist(), strict=True))
