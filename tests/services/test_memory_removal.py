"""Memories go with what they came from and with whom they are about, as far as the operator wants it."""

from collections.abc import AsyncIterator

import pytest

from tests.services.test_erasure import a_space, answered, everything, said
from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.memory import Memory, MemoryChange, MemoryScope, MemorySource
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.errors import NotFound
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage import memories, purge
from threadkeep.testing.embedder import WordEmbedder
from threadkeep.workers.runner import runner_of

BOB, ANN = MemoryScope(user_id="bob"), MemoryScope(user_id="ann")
DAY = 86_400_000_000


class Place:
    """A space with a session of two people, and what is remembered of it."""

    def __init__(self, container: Container, owner: Principal, space_id: str, session_id: str) -> None:
        self.container, self.owner = container, owner
        self.space_id, self.session_id = space_id, session_id

    async def remember(self, text: str, *numbers: int, scope: MemoryScope = BOB, by: str | None = None) -> Memory:
        sources = (MemorySource(self.session_id, numbers),) if numbers else ()
        change = MemoryChange("ADD", text=text, sources=sources, attributed_to=by)
        apply = memories.apply(self.space_id, scope, [change], clock.now())
        (made,) = await self.container.database.write(lambda: apply)
        assert made is not None
        return made

    async def texts(self) -> list[str]:
        found, _ = await self.container.memories.page(self.owner, self.space_id, memory_filter.EVERYTHING)
        return [memory.text for memory in found]


async def place(container: Container, people: tuple[str, ...] = ("bob", "ann")) -> Place:
    owner, space_id = await a_space(container, "operator")
    session = await container.sessions.create(owner, space_id, SessionDraft(people))
    events = [said("bob", "one"), answered("two"), said("bob", "three"), said("ann", "four")]
    await container.events.append_batch(
        owner, space_id, session.id, [e for e in events if e.emitter_id in (None, *people)]
    )
    return Place(container, owner, space_id, session.id)


@pytest.fixture
async def along(database: str) -> AsyncIterator[Container]:
    """The services of an operator who wants memories to go with what they came from."""
    opened = await Container.open(Settings(database=database, delete_memories_along=True), embedder=WordEmbedder())
    try:
        yield opened
    finally:
        await opened.close()


async def test_memories_outlive_what_a_caller_deletes(container: Container) -> None:
    here = await place(container)
    await here.remember("of one", 1)
    await container.events.delete(here.owner, here.space_id, here.session_id, 1)
    await container.sessions.delete(here.owner, here.space_id, here.session_id)

    assert await here.texts() == ["of one"]


async def test_memories_go_with_an_event_where_the_operator_wants_it(along: Container) -> None:
    here = await place(along)
    gone = await here.remember("of one and three", 1, 3)
    await here.remember("of three", 3)

    await along.events.delete(here.owner, here.space_id, here.session_id, 1)

    assert await here.texts() == ["of three"]
    _, lines = await along.memories.history(here.owner, here.space_id, gone.id)
    assert [line.event for line in lines] == ["ADD", "DELETE"]


async def test_memories_go_with_a_session_where_the_operator_wants_it(along: Container) -> None:
    here = await place(along)
    await here.remember("of one", 1)
    await here.remember("by hand")

    await along.sessions.delete(here.owner, here.space_id, here.session_id)

    assert await here.texts() == ["by hand"]


@pytest.mark.parametrize("is_purged", [False, True])
async def test_memories_go_also_with_what_was_deleted_before_the_operator_wanted_it(
    container: Container, along: Container, is_purged: bool
) -> None:
    here = await place(container)
    await here.remember("of one", 1)
    await here.remember("of three", 3)
    await container.events.delete(here.owner, here.space_id, here.session_id, 1)
    if is_purged:
        await container.database.write(lambda: purge.step(clock.now(), 0))

    await along.events.delete(here.owner, here.space_id, here.session_id, 1)
    assert await here.texts() == ["of three"]

    await container.sessions.delete(here.owner, here.space_id, here.session_id)
    if is_purged:
        await container.database.write(lambda: purge.step(clock.now(), 0))

    await along.sessions.delete(here.owner, here.space_id, here.session_id)
    assert await here.texts() == []
    with pytest.raises(NotFound):
        await along.sessions.delete(here.owner, here.space_id, here.session_id)


async def test_nothing_is_remembered_of_an_event_that_was_deleted_while_a_model_thought(container: Container) -> None:
    here = await place(container)
    await container.events.delete(here.owner, here.space_id, here.session_id, 1)
    sources = (MemorySource(here.session_id, (1, 3)),)
    change = MemoryChange("ADD", text="of one and three", sources=sources)

    made = await container.database.write(lambda: memories.apply(here.space_id, BOB, [change], clock.now()))

    assert made == [None]
    assert await here.texts() == []


async def test_a_delete_of_what_is_not_there_deletes_no_memories(container: Container, along: Container) -> None:
    here = await place(along)
    await here.remember("of one", 1)
    await here.remember("of three", 3)
    await container.events.delete(here.owner, here.space_id, here.session_id, 3)
    stranger = await along.tokens.local_principal("stranger")

    for owner, number in ((stranger, 1), (stranger, 3), (here.owner, 99), (here.owner, 0)):
        with pytest.raises(NotFound):
            await along.events.delete(owner, here.space_id, here.session_id, number)
    with pytest.raises(NotFound):
        await along.sessions.delete(stranger, here.space_id, here.session_id)

    assert await here.texts() == ["of three", "of one"]


async def test_who_is_erased_takes_along_what_is_remembered_of_them(container: Container) -> None:
    here = await place(container)
    await here.remember("zebra about bob", scope=BOB)
    await here.remember("zebra said by bob", scope=MemoryScope(app_id="x"), by="bob")
    await here.remember("zebra from what bob said", 3, scope=ANN)
    deleted = await here.remember("zebra deleted")
    await container.memories.delete(here.owner, here.space_id, deleted.id)
    await here.remember("about ann", 4, scope=ANN, by="ann")
    request = {"messages": [{"role": "user", "content": "zebra handed in"}]}
    await container.additions.queue(here.owner, here.space_id, BOB, request)

    erased = await container.erasure.erase("bob")

    # What came from events of theirs went with these.
    assert erased.memories == 3
    assert await here.texts() == ["about ann"]
    held = await everything(container)
    assert "zebra" not in held
    assert "bob" not in held


async def test_a_session_of_their_own_takes_along_what_came_from_it(container: Container) -> None:
    here = await place(container, people=("bob",))
    await here.remember("from an answer", 2, scope=MemoryScope(agent_id="bot"))
    await here.remember("by hand", scope=ANN)

    await container.erasure.erase("bob")

    assert await here.texts() == ["by hand"]


async def test_whoever_is_called_as_a_role_is_takes_nobody_elses_memories_along(container: Container) -> None:
    here = await place(container)
    await here.remember("said in the role of the user", scope=ANN, by="user")

    await container.erasure.erase("user")

    assert await here.texts() == ["said in the role of the user"]


async def test_a_search_finds_nothing_of_who_was_erased(database: str) -> None:
    opened = await Container.open(Settings(database=database), embedder=WordEmbedder())
    try:
        here = await place(opened)
        await opened.memories.add(here.owner, here.space_id, BOB, [MemoryChange("ADD", text="bob likes tea")])
        await opened.memories.add(here.owner, here.space_id, ANN, [MemoryChange("ADD", text="ann likes tea")])
        kept = opened.memories._finding._vectors
        queries = await opened.embedding.queries(["likes tea"])
        assert queries is not None

        async def near() -> int:
            (found,) = await kept.nearest(here.space_id, "words", queries, most=10)
            return len(found)

        assert await near() == 2
        await opened.erasure.erase("bob")
        assert await near() == 1
    finally:
        await opened.close()


async def test_deleted_memories_are_purged_with_their_history(container: Container) -> None:
    here = await place(container)
    gone = await here.remember("zebra of one", 1)
    await here.remember("kept")
    await container.memories.delete(here.owner, here.space_id, gone.id)
    worker = runner_of(container)
    await container.jobs.prepare(clock.now())

    await worker.run_due(clock.now() + 29 * DAY)
    assert "zebra" in await everything(container)
    await worker.run_due(clock.now() + 31 * DAY)

    assert "zebra" not in await everything(container)
    assert await here.texts() == ["kept"]
    with pytest.raises(NotFound):
        await container.memories.history(here.owner, here.space_id, gone.id)


async def test_a_space_is_purged_with_its_memories(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "ROWS", 3)
    here = await place(container)
    for n in range(5):
        await here.remember(f"zebra {n}", 1)
    request = {"messages": [{"role": "user", "content": "zebra handed in"}]}
    await container.additions.queue(here.owner, here.space_id, BOB, request)
    other = await place(container)
    await other.remember("another")
    await container.spaces.delete(here.owner, here.space_id)
    worker = runner_of(container)
    await container.jobs.prepare(clock.now())

    for _ in range(12):
        await worker.run_due(clock.now() + 31 * DAY)

    held = await everything(container)
    assert "zebra" not in held
    assert here.space_id not in held
    assert await other.texts() == ["another"]


async def test_an_erased_space_takes_its_memories_along(container: Container) -> None:
    here = await place(container)
    await here.remember("zebra", scope=ANN)

    await container.erasure.erase(here.owner.user_id)

    held = await everything(container)
    assert "zebra" not in held
    assert here.space_id not in held


async def test_nothing_is_written_of_events_that_are_erased_meanwhile(container: Container) -> None:
    here = await place(container)
    await container.erasure.erase("bob")

    change = MemoryChange("ADD", text="zebra", sources=(MemorySource(here.session_id, (1,)),))
    apply = memories.apply(here.space_id, ANN, [change], clock.now())

    assert await container.database.write(lambda: apply) == [None]
