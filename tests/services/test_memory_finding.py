"""Finding memories by meaning and by words, on both engines: exact, in one order, of the right space and scope."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.memory import Memory, MemoryChange, MemoryEdit, MemoryScope
from threadkeep.domain.principal import Principal
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import Invalid, ModelFailed, NotFound
from threadkeep.memory.ports import Vector
from threadkeep.services import embedding as embedding_service
from threadkeep.services import memory_finding
from threadkeep.services.container import Container
from threadkeep.services.memories import Found, Wish
from threadkeep.settings import Settings
from threadkeep.testing.embedder import WordEmbedder
from threadkeep.workers.runner import model_runner_of

ALICE = MemoryScope(user_id="alice")
TEXTS = ("likes green tea", "likes black coffee", "works at the harbour", "has a cat named Mia", "likes green apples")


class Place:
    """A space of a user's, and short ways to say what is done in it."""

    def __init__(self, container: Container, owner: Principal, space_id: str) -> None:
        self.container, self.owner, self.space_id = container, owner, space_id

    async def add(self, *texts: str, scope: MemoryScope = ALICE, **fields: Any) -> list[Memory]:
        drafts = [MemoryChange("ADD", text=text, **fields) for text in texts]
        return await self.container.memories.add(self.owner, self.space_id, scope, drafts)

    async def find(self, query: str, filter_: Any = None, **options: Any) -> Found:
        wish = Wish(query, memory_filter.parse(filter_ or {}), options.pop("limit", 10), **options)
        return await self.container.memories.search(self.owner, self.space_id, wish)

    async def texts(self, query: str, filter_: Any = None, **options: Any) -> list[str]:
        return [hit.memory.text for hit in (await self.find(query, filter_, **options)).hits]


async def place(container: Container, owner: str = "owner") -> Place:
    principal = await container.tokens.local_principal(owner)
    return Place(container, principal, (await container.spaces.create(principal, SpaceDraft())).id)


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def embedding(database: str, embedder: WordEmbedder) -> AsyncIterator[Container]:
    """The services with an embedder."""
    opened = await Container.open(Settings(database=database), embedder=embedder)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture(params=["few", "many"])
def by_either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the vectors that are read one by one, and by the matrix of the space."""
    if request.param == "many":
        monkeypatch.setattr(memory_finding, "_FEW", 0)


@pytest.mark.usefixtures("by_either_way")
async def test_what_is_near_by_meaning_and_by_words_comes_first(embedding: Container) -> None:
    here = await place(embedding)
    await here.add(*TEXTS)

    found = await here.find("green tea please", {"user_id": "alice"})

    assert [hit.memory.text for hit in found.hits][:2] == ["likes green tea", "likes green apples"]
    assert found.note is None
    first = found.hits[0]
    # Two of three words each: 2 / (sqrt(3) * sqrt(3)).
    assert first.semantic == pytest.approx(0.666667, abs=1e-6)
    assert first.score == max(first.semantic or 0, first.keyword)


@pytest.mark.usefixtures("by_either_way")
async def test_a_search_stays_in_its_scope_and_its_space(embedding: Container) -> None:
    here, there = await place(embedding), await place(embedding)
    await here.add("likes green tea")
    await here.add("likes green tea too", scope=MemoryScope("bob"))
    await here.add("likes green tea in run", scope=MemoryScope("alice", run_id="r"))
    await there.add("likes green tea elsewhere")

    assert await here.texts("green tea", {"user_id": "bob"}) == ["likes green tea too"]
    assert sorted(await here.texts("green tea", {"user_id": "alice"})) == ["likes green tea", "likes green tea in run"]
    assert await here.texts("green tea", {"user_id": "alice", "run_id": "r"}) == ["likes green tea in run"]
    assert await here.texts("green tea", {"user_id": "carol"}) == []
    assert len(await here.texts("green tea")) == 3
    assert await there.texts("green tea") == ["likes green tea elsewhere"]


@pytest.mark.usefixtures("by_either_way")
async def test_a_filter_beyond_the_scope_holds_too(embedding: Container) -> None:
    here = await place(embedding)
    await here.add("likes green tea", metadata='{"topic": "food"}')
    await here.add("likes green shoes", metadata='{"topic": "clothes"}', categories=("shopping",))

    assert await here.texts("green", {"user_id": "alice", "metadata": {"topic": "clothes"}}) == ["likes green shoes"]
    assert await here.texts("green", {"NOT": [{"categories": {"in": ["shopping"]}}]}) == ["likes green tea"]


@pytest.mark.usefixtures("by_either_way")
async def test_changes_are_found_at_once_as_they_are(embedding: Container) -> None:
    here = await place(embedding)
    tea, coffee = await here.add("likes green tea", "likes black coffee")
    assert await here.texts("green tea", threshold=0.5) == ["likes green tea"]

    await embedding.memories.edit(here.owner, here.space_id, coffee.id, MemoryEdit(text="prefers green tea"))
    await embedding.memories.delete(here.owner, here.space_id, tea.id)
    (new,) = await here.add("green tea is fine")

    found = await here.find("green tea", threshold=0.5)
    assert {hit.memory.text for hit in found.hits} == {"prefers green tea", "green tea is fine"}
    assert await here.texts("black coffee", threshold=0.1) == []
    assert {hit.memory.id for hit in found.hits} == {coffee.id, new.id}


async def test_the_matrix_is_what_the_database_says_whoever_changes_it(
    database: str, embedding: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_finding, "_FEW", 0)
    here = await place(embedding)
    made = await here.add(*(f"green number {n}" for n in range(40)))
    assert len(await here.texts("green", limit=100)) == 40
    other = await Container.open(Settings(database=database), embedder=WordEmbedder())
    try:
        # More than half, so that the rows that are left move together.
        await other.memories.delete_many(here.owner, here.space_id, [each.id for each in made[:30]])
        await other.memories.edit(here.owner, here.space_id, made[30].id, MemoryEdit(text="a blue one"))
        await Place(other, here.owner, here.space_id).add("green from elsewhere")
    finally:
        await other.close()

    assert set(await here.texts("green", limit=100, threshold=0.1)) == {
        *(f"green number {n}" for n in range(31, 40)),
        "green from elsewhere",
    }
    assert await here.texts("blue", threshold=0.1) == ["a blue one"]


async def test_both_ways_give_the_same_order_and_scores(embedding: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    here = await place(embedding)
    await here.add(*TEXTS, *(f"likes thing number {n} {'green ' * (n % 5)}" for n in range(55)))
    few = await here.find("likes green things at the harbour", {"user_id": "alice"}, limit=100)

    monkeypatch.setattr(memory_finding, "_FEW", 0)
    many = await here.find("likes green things at the harbour", {"user_id": "alice"}, limit=100)

    assert len(few.hits) == 60
    assert few == many
    assert few == await here.find("likes green things at the harbour", limit=100)


async def test_what_has_expired_is_left_out_unless_it_is_asked_for(embedding: Container) -> None:
    here = await place(embedding)
    await here.add("likes green tea", expiration_date="2026-11-30")
    await here.add("likes green apples")

    assert sorted(await here.texts("green", today="2026-12-01")) == ["likes green apples"]
    assert await here.texts("green", {"user_id": "alice"}, today="2026-12-01") == ["likes green apples"]
    assert len(await here.texts("green", today="2026-11-30")) == 2
    assert len(await here.texts("green")) == 2


async def test_without_an_embedder_words_alone_find_and_the_answer_says_so(container: Container) -> None:
    here = await place(container)
    await here.add(*TEXTS)

    found = await here.find("Green TEA?", {"user_id": "alice"})

    assert [hit.memory.text for hit in found.hits] == ["likes green tea", "likes green apples"]
    assert found.note == memory_finding.NO_MODEL
    assert (found.hits[0].semantic, found.hits[0].keyword, found.hits[0].score) == (None, 1.0, 1.0)
    assert await here.texts("nothing of this") == []


class Broken(WordEmbedder):
    is_broken = False

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.is_broken:
            raise ModelFailed("no answer")
        return await super().embed(texts)


async def test_an_embedder_that_fails_loses_nothing(database: str) -> None:
    embedder = Broken()
    opened = await Container.open(Settings(database=database), embedder=embedder)
    try:
        here = await place(opened)
        embedder.is_broken = True
        await here.add("likes green tea")

        found = await here.find("green tea")
        assert ([hit.memory.text for hit in found.hits], found.note) == (["likes green tea"], memory_finding.NO_ANSWER)

        embedder.is_broken = False
        assert (await here.find("green tea")).hits[0].semantic is None
        await model_runner_of(opened).run_due(clock.now())
        assert (await here.find("green tea")).hits[0].semantic == pytest.approx(0.816497, abs=1e-6)
    finally:
        await opened.close()


async def test_what_a_memory_said_before_is_not_found_under_its_new_text(database: str) -> None:
    embedder = Broken()
    opened = await Container.open(Settings(database=database), embedder=embedder)
    try:
        here = await place(opened)
        (tea,) = await here.add("likes green tea")
        embedder.is_broken = True
        await opened.memories.edit(here.owner, here.space_id, tea.id, MemoryEdit(text="has a cat"))
        embedder.is_broken = False

        assert await here.texts("green tea", threshold=0.1) == []
        await model_runner_of(opened).run_due(clock.now())
        (hit,) = (await here.find("a cat")).hits
        assert hit.semantic == pytest.approx(0.816497, abs=1e-6)
    finally:
        await opened.close()


async def test_another_model_takes_over_in_the_background(embedding: Container, embedder: WordEmbedder) -> None:
    here = await place(embedding)
    worker = model_runner_of(embedding)
    await here.add(*(f"green number {n}" for n in range(150)))
    while await worker.run_due(clock.now()):
        pass
    assert len((await here.find("green", limit=200)).hits) == 150
    embedder.name, embedder.dimensions = "other words", 32
    assert all(hit.semantic is None for hit in (await here.find("green", limit=200)).hits)

    await embedding.embedding.prepare(clock.now())
    while await worker.run_due(clock.now()):
        pass
    hits = (await here.find("green", limit=200)).hits
    assert len(hits) == 150
    assert all(hit.semantic is not None for hit in hits)


async def test_a_space_that_is_deleted_is_embedded_no_more(embedding: Container, embedder: WordEmbedder) -> None:
    here = await place(embedding)
    await here.add("green")
    embedder.name = "other words"
    await embedding.embedding.prepare(clock.now())
    await embedding.spaces.delete(here.owner, here.space_id)
    worker = model_runner_of(embedding)

    assert await worker.run_due(clock.now()) == 1
    assert await worker.run_due(clock.now() + 3_600_000_000) == 0


async def test_what_takes_too_long_for_one_run_goes_on_in_the_next(
    embedding: Container, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_service, "AT_ONCE", 2)
    monkeypatch.setattr(embedding_service, "_ONE_RUN", 0)
    here = await place(embedding)
    await here.add("green 1", "green 2", "green 3")
    worker = model_runner_of(embedding)

    async def embedded() -> int:
        return sum(hit.semantic is not None for hit in (await here.find("green")).hits)

    assert await embedded() == 0
    await worker.run_due(clock.now())
    assert await embedded() == 2
    await worker.run_due(clock.now())
    assert await embedded() == 3
    assert await worker.run_due(clock.now()) == 0


async def test_only_the_owner_searches_a_space(embedding: Container) -> None:
    here = await place(embedding)
    await here.add("likes green tea")
    stranger = await embedding.tokens.local_principal("stranger")
    wish = Wish("green", memory_filter.EVERYTHING, 10)

    with pytest.raises(NotFound):
        await embedding.memories.search(stranger, here.space_id, wish)
    with pytest.raises(NotFound):
        await embedding.memories.search(here.owner, "no id", wish)


@pytest.mark.parametrize(
    "wish",
    [
        Wish("", memory_filter.EVERYTHING, 10),
        Wish("x" * 20_001, memory_filter.EVERYTHING, 10),
        Wish("x", memory_filter.EVERYTHING, 0),
        Wish("x", memory_filter.EVERYTHING, 1_001),
        Wish("x", memory_filter.EVERYTHING, 1, threshold=1.5),
        Wish("x", memory_filter.EVERYTHING, 1, threshold=float("nan")),
    ],
)
async def test_a_wish_out_of_its_limits_is_refused(container: Container, wish: Wish) -> None:
    here = await place(container)

    with pytest.raises(Invalid):
        await container.memories.search(here.owner, here.space_id, wish)


async def test_candidates_are_near_and_of_exactly_the_scope(embedding: Container) -> None:
    here = await place(embedding)
    await here.add(*TEXTS)
    await here.add("likes green tea", scope=MemoryScope("alice", "agent"))

    found = await embedding.memories.candidates(here.space_id, ALICE, ["drinks green tea", "a cat"], 3)

    assert {memory.text for memory in found} >= {"likes green tea", "has a cat named Mia"}
    assert len(found) == 3
    assert all(memory.scope == ALICE for memory in found)
    assert await embedding.memories.candidates(here.space_id, MemoryScope("nobody"), ["tea"], 3) == []


async def test_matrices_are_let_go_when_they_are_too_large(
    embedding: Container, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_finding, "_FEW", 0)
    kept = embedding.memories._finding._vectors._kept
    spaces = [await place(embedding) for _ in range(3)]
    for here in spaces:
        await here.add("likes green tea")
        await here.find("tea")
    assert list(kept._things) == [(here.space_id, embedder.name) for here in spaces]

    monkeypatch.setattr(kept, "_budget", sum(matrix.size for matrix in list(kept._things.values())[1:]))
    await spaces[0].find("tea")

    assert list(kept._things) == [(spaces[2].space_id, embedder.name), (spaces[0].space_id, embedder.name)]
