"""Search among many memories, beside plain numpy on the same vectors in the same run."""

import random
from array import array
from collections.abc import Sequence

import numpy as np

from bench import report
from bench.databases import ENGINES
from bench.reads import alternate, analyze
from threadkeep import clock, ids
from threadkeep.domain import memory_filter
from threadkeep.domain.memory import MemoryScope
from threadkeep.domain.space import SpaceDraft
from threadkeep.memory.ports import Vector
from threadkeep.services.container import Container
from threadkeep.services.memories import Wish
from threadkeep.settings import Settings
from threadkeep.storage import memories, memory_search, memory_versions
from threadkeep.storage.statement import InsertMany, Steps
from threadkeep.storage.tables import memories as memory_rows
from threadkeep.storage.tables import memory_vectors

SIZES = (1_000, 10_000, 100_000)
_DIMENSIONS = 384
_USERS = 100
_WORDS = 5_000
_AT_ONCE = 1_000
_TOP = 20
_INSERT = InsertMany(memory_rows, [column for column in memory_rows.c if column.name != "deleted_at"])
_INSERT_VECTORS = InsertMany(memory_vectors, list(memory_vectors.c))


class _Random:
    """An embedder that says nothing: a text has the vector that chance gives it."""

    name = "random"
    dimensions: int | None = _DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [array("f", _vector(hash(text) % 2**32).tobytes()) for text in texts]


async def search(engine: str) -> None:
    for size in SIZES:
        report.title(f"Search among {size:,} memories, {_DIMENSIONS} dimensions, best {_TOP}: {engine}")
        with ENGINES[engine]() as url:
            container = await Container.open(Settings(database=url), embedder=_Random())
            await _measure(container, engine, url, size)
            await container.close()


async def _measure(container: Container, engine: str, url: str, size: int) -> None:
    owner = await container.tokens.local_principal("bench")
    space_id = (await container.spaces.create(owner, SpaceDraft())).id
    matrix = np.stack([_vector(number) for number in range(size)])
    chance = random.Random(1)
    for start in range(0, size, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, size))
        await container.database.write(
            lambda numbers=numbers: _fill(space_id, numbers, matrix, chance)  # type: ignore[misc]
        )
    await analyze(engine, url)
    queries = [" ".join(f"w{chance.randrange(_WORDS)}" for _ in range(5)) for _ in range(64)]
    turn = iter(range(10**9))

    async def plain() -> None:
        scores = matrix @ _vector(next(turn))
        best = np.argpartition(scores, -_TOP)[-_TOP:] if size > _TOP else np.arange(size)
        assert len(best[np.argsort(-scores[best])]) <= _TOP

    async def everybody() -> None:
        wish = Wish(queries[next(turn) % len(queries)], memory_filter.EVERYTHING, _TOP)
        assert (await container.memories.search(owner, space_id, wish)).hits

    async def somebody() -> None:
        wanted = memory_filter.parse({"user_id": f"u{next(turn) % min(_USERS, size)}"})
        assert (await container.memories.search(owner, space_id, Wish(queries[0], wanted, _TOP))).hits

    (cold,) = await alternate(1, everybody)
    report.line("the first search, which reads the vectors", f"{cold:10.3f} ms")
    numpy_ms, all_ms, one_ms = await alternate(51, plain, everybody, somebody)
    report.line("plain numpy", f"{numpy_ms:10.3f} ms")
    report.line("services, everybody's: meaning, words, rows", f"{all_ms:10.3f} ms")
    report.line(f"services, one of {_USERS} users", f"{one_ms:10.3f} ms")
    report.ratio("services beyond plain numpy, everybody's: ms", all_ms - numpy_ms, at_most=20)


def _fill(
    space_id: str, numbers: range, matrix: "np.ndarray[tuple[int, int], np.dtype[np.float32]]", chance: random.Random
) -> Steps[None]:
    version = yield from memory_versions.take(space_id)
    now = clock.now()
    rows, vectors, texts = [], [], []
    for number in numbers:
        memory_id, text = ids.new_id(), " ".join(f"w{chance.randrange(_WORDS)}" for _ in range(12))
        scope = MemoryScope(f"u{number % _USERS}")
        about = (scope.key, scope.user_id, None, None, None)
        about_text = (text, memories.digest(text), None, "[]", None, None, now, now, version)
        rows.append((space_id, memory_id, *about, *about_text))
        vectors.append((space_id, memory_id, _Random.name, matrix[number].tobytes(), version))
        texts.append((memory_id, text))
    yield _INSERT, rows
    yield _INSERT_VECTORS, vectors
    for memory_id, text in texts:
        yield from memory_search.add(space_id, memory_id, text)


def _vector(seed: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    values = np.random.default_rng(seed).standard_normal(_DIMENSIONS, dtype=np.float32)
    return values / np.linalg.norm(values)
