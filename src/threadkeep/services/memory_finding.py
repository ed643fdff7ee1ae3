"""Finding memories: by meaning and by words, each exact, fused by rank. The same data gives the same order, always."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.memory import Memory, MemoryScope
from threadkeep.domain.memory_filter import Filter
from threadkeep.domain.words import words
from threadkeep.memory import ranking
from threadkeep.services import space_vectors
from threadkeep.services.embedding import Embedding
from threadkeep.services.space_vectors import SpaceVectors
from threadkeep.services.space_words import SpaceWords
from threadkeep.storage import memory_pages
from threadkeep.storage.database import Database
from threadkeep.storage.memory_pages import Narrowed
from threadkeep.storage.statement import Steps

_FEW = 2_000
"""Memories up to which their vectors are read one by one; more than that, and the matrix of the space is quicker."""
_WORDS = 64
"""Different words of a query that are looked up."""
NO_MODEL = "by keywords alone: the operator has set no embedding model"
NO_ANSWER = "by keywords alone: the embedding model gives no answer now"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is looked for; `threshold` is the least score, 0 to 1."""

    query: str
    filter: Filter
    limit: int
    threshold: float = 0.0
    today: str = ""
    """YYYY-MM-DD: what expired before is left out. '' leaves out nothing."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found. `score` is the better of the other two."""

    memory: Memory
    score: float
    semantic: float | None
    """The cosine with the query; None where the memory has no vector yet, or nothing was searched by meaning."""
    keyword: float
    """How much of the query's words the memory has, 0 to 1; rare words count more."""


@dataclass(frozen=True, slots=True)
class Found:
    """The hits in their order; `note` says so where they were not looked for by meaning too."""

    hits: list[Hit]
    note: str | None


@dataclass(frozen=True, slots=True)
class _Among:
    """The memories that may be found: those of the ids, or all but some."""

    ids: frozenset[str] | None
    without: frozenset[str]
    narrowed: Narrowed


class Finding:
    """Searches in spaces that the caller may see: whoever calls this has looked."""

    def __init__(self, database: Database, embedding: Embedding) -> None:
        self._database = database
        self._embedding = embedding
        self._vectors = SpaceVectors(database)
        self._words = SpaceWords(database)

    async def search(self, space_id: str, wish: Wish) -> Found:
        """What is near the query, best first."""
        among = await self._database.scan(partial(_among, space_id, wish.filter, wish.today))
        semantic, keyword = await self._scores(space_id, among, [wish.query])
        order = ranking.fuse(map(ranking.ranked, (*(semantic or ()), *keyword)))
        near, has = semantic[0] if semantic else {}, keyword[0]
        scores = {memory_id: max(near.get(memory_id, 0.0), has.get(memory_id, 0.0), 0.0) for memory_id in order}
        chosen = [memory_id for memory_id in order if scores[memory_id] >= wish.threshold][: wish.limit]
        memories = await self._database.scan(partial(_read, space_id, chosen))
        note = None if semantic is not None else NO_MODEL if self._embedding.embedder is None else NO_ANSWER
        return Found(
            [Hit(memory, scores[memory.id], near.get(memory.id), has.get(memory.id, 0.0)) for memory in memories],
            note,
        )

    async def candidates(self, space_id: str, scope: MemoryScope, texts: Sequence[str], limit: int) -> list[Memory]:
        """What is known that is near one of the texts, of exactly this scope."""
        narrowed = Narrowed(scope=scope, today=clock.to_datetime(clock.now()).date().isoformat())
        among = await self._database.scan(partial(_among_scope, space_id, narrowed))
        if not among.ids:
            return []
        semantic, keyword = await self._scores(space_id, among, texts)
        order = ranking.fuse(map(ranking.ranked, (*(semantic or ()), *keyword)))
        return await self._database.scan(partial(_read, space_id, order[:limit]))

    async def _scores(
        self, space_id: str, among: _Among, texts: Sequence[str]
    ) -> tuple[list[dict[str, float]] | None, list[dict[str, float]]]:
        """For each text the cosines, and how much of its words the memories have. None: there is no model."""
        queries = await self._embedding.queries(texts)
        semantic = None if queries is None else await self._nearest(space_id, among, queries)
        keyword = await self._words.weigh(
            space_id,
            [list(dict.fromkeys(words(text)))[:_WORDS] for text in texts],
            among=among.ids,
            without=among.without,
            # What is near by meaning is in the answer, however little of the words it has.
            beside=[()] * len(texts) if semantic is None else semantic,
            most=ranking.DEPTH,
        )
        return semantic, keyword

    async def _nearest(self, space_id: str, among: _Among, queries: Sequence[bytes]) -> list[dict[str, float]]:
        assert self._embedding.embedder is not None
        model = self._embedding.embedder.name
        if among.ids is not None and len(among.ids) <= _FEW:
            read = partial(memory_pages.vectors, space_id, among.narrowed, model)
            if await self._database.read(partial(memory_pages.are_few, space_id, among.narrowed, _FEW)):
                rows = await self._database.scan(read)
                some = [row for row in rows if row[0] in among.ids]
                return space_vectors.cosines(some, queries, ranking.DEPTH)
        return await self._vectors.nearest(
            space_id, model, queries, wanted=among.ids, without=among.without, most=ranking.DEPTH
        )


def _among(space_id: str, wanted: Filter, today: str) -> Steps[_Among]:
    narrowed = Narrowed.by(wanted, today)
    if memory_filter.is_everything(wanted):
        gone = yield from memory_pages.expired(space_id, today)
        return _Among(None, frozenset(gone), narrowed)
    ids: Collection[str]
    if memory_filter.is_scope_alone(wanted):
        ids = yield from memory_pages.ids(space_id, narrowed)
    else:
        known = yield from memory_pages.every(space_id, narrowed)
        ids = [memory.id for memory in known if memory_filter.matches(wanted, memory)]
    return _Among(frozenset(ids), frozenset(), narrowed)


def _among_scope(space_id: str, narrowed: Narrowed) -> Steps[_Among]:
    ids = yield from memory_pages.ids(space_id, narrowed)
    return _Among(frozenset(ids), frozenset(), narrowed)


def _read(space_id: str, ids: Sequence[str]) -> Steps[list[Memory]]:
    found = yield from memory_pages.by_ids(space_id, ids)
    return (yield from memory_pages.with_sources(space_id, [found[each] for each in ids if each in found]))
