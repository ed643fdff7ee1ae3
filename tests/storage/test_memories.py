"""Memories in the database: what is decided is carried out, with history and links, on both engines."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from threadkeep import ids
from threadkeep.domain.event import EventDraft
from threadkeep.domain.memory import Memory, MemoryChange, MemoryEdit, MemoryScope, MemorySource
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import NotFound
from threadkeep.services.container import Container
from threadkeep.storage import memories, memory_history, memory_search

ALICE = MemoryScope(user_id="alice")
ODD = "caf\0é \ud83d 東京に"


@pytest.fixture
async def space_id(container: Container) -> str:
    owner = await container.tokens.local_principal("owner")
    return (await container.spaces.create(owner, SpaceDraft())).id


@pytest.fixture
async def source(container: Container, space_id: str) -> MemorySource:
    """Two events that a memory may come from."""
    owner = await container.tokens.local_principal("owner")
    session = await container.sessions.create(owner, space_id, SessionDraft(participants=("alice",)))
    drafts = [EventDraft('{"content":"x"}', "x", None, "user", "alice") for _ in range(2)]
    await container.events.append_batch(owner, space_id, session.id, drafts)
    return MemorySource(session.id, (1, 2))


async def apply(
    container: Container, space_id: str, *changes: MemoryChange, scope: MemoryScope = ALICE, at: int = 1_000
) -> Sequence[Memory | None]:
    return await container.database.write(lambda: memories.apply(space_id, scope, changes, at))


async def add(container: Container, space_id: str, text: str, *, scope: MemoryScope = ALICE) -> Memory:
    (made,) = await apply(container, space_id, MemoryChange("ADD", text=text), scope=scope)
    assert made is not None
    return made


async def test_a_memory_comes_back_as_it_was_added(container: Container, space_id: str, source: MemorySource) -> None:
    scope = MemoryScope("al\0ice", "agent", "app", "run")
    change = MemoryChange(
        "ADD",
        text=ODD,
        sources=(source,),
        attributed_to="alice",
        categories=("food", "tra\ud83dvel"),
        metadata='{"b": 1, "a": "\\u0000"}',
        expiration_date="2027-01-31",
        created_at=77,
    )

    (made,) = await apply(container, space_id, change, scope=scope)

    assert made is not None
    assert made == Memory(
        made.id,
        space_id,
        scope,
        ODD,
        '{"b": 1, "a": "\\u0000"}',
        ("food", "tra\ud83dvel"),
        "alice",
        "2027-01-31",
        77,
        77,
        (source,),
    )
    assert await container.database.read(lambda: memories.find(space_id, made.id)) == made


async def test_an_update_adds_its_sources_and_keeps_what_it_does_not_name(
    container: Container, space_id: str, source: MemorySource
) -> None:
    first = MemoryChange(
        "ADD", text="likes tea", sources=(replace(source, sequence_ids=(2,)),), categories=("food",), metadata="{}"
    )
    (made,) = await apply(container, space_id, first)
    assert made is not None

    (changed,) = await apply(
        container, space_id, MemoryChange("UPDATE", made.id, "likes green tea", sources=(source,)), at=2_000
    )

    assert changed == replace(made, text="likes green tea", sources=(source,), updated_at=2_000)
    assert await container.database.read(lambda: memories.find(space_id, made.id)) == changed


async def test_the_history_has_a_line_for_each_change_and_outlives_the_memory(
    container: Container, space_id: str, source: MemorySource
) -> None:
    made = await add(container, space_id, "likes tea")
    await apply(
        container,
        space_id,
        MemoryChange("UPDATE", made.id, "likes coffee", sources=(source,), attributed_to="alice"),
        at=2_000,
    )
    await apply(container, space_id, MemoryChange("DELETE", made.id), at=3_000)

    lines = await container.database.read(lambda: memory_history.history(space_id, made.id))

    assert [(line.number, line.event, line.old_text, line.new_text, line.created_at) for line in lines] == [
        (1, "ADD", None, "likes tea", 1_000),
        (2, "UPDATE", "likes tea", "likes coffee", 2_000),
        (3, "DELETE", "likes coffee", None, 3_000),
    ]
    assert (lines[1].sources, lines[1].attributed_to) == ((source,), "alice")
    assert await container.database.read(lambda: memories.find(space_id, made.id)) is None


async def test_no_change_reaches_a_memory_of_another_scope(container: Container, space_id: str) -> None:
    mine = await add(container, space_id, "likes tea")
    for other in (MemoryScope("bob"), MemoryScope("alice", "agent"), MemoryScope(agent_id="alice")):
        done = await apply(
            container,
            space_id,
            MemoryChange("UPDATE", mine.id, "likes beer"),
            MemoryChange("DELETE", mine.id),
            scope=other,
        )

        assert done == [None, None]
    assert await container.database.read(lambda: memories.find(space_id, mine.id)) == mine


async def test_an_update_that_says_nothing_new_writes_no_history(container: Container, space_id: str) -> None:
    made = await add(container, space_id, "likes tea")

    assert await apply(container, space_id, MemoryChange("UPDATE", made.id, "likes tea"), at=2_000) == [None]

    lines = await container.database.read(lambda: memory_history.history(space_id, made.id))
    assert [line.event for line in lines] == ["ADD"]


async def test_what_is_said_already_in_the_scope_is_not_added_again(container: Container, space_id: str) -> None:
    await add(container, space_id, "Likes  Tea")

    assert await apply(container, space_id, MemoryChange("ADD", text=" likes tea\n")) == [None]
    assert await apply(container, space_id, MemoryChange("ADD", text="likes tea"), scope=MemoryScope("bob")) != [None]
    assert len(await container.database.read(lambda: memories.candidates(space_id, ALICE, 5))) == 1


async def test_a_decision_on_a_text_that_has_changed_since_is_not_carried_out(
    container: Container, space_id: str
) -> None:
    made = await add(container, space_id, "likes tea")
    await apply(container, space_id, MemoryChange("UPDATE", made.id, "likes milk", old_text="likes tea"))

    for late in (
        MemoryChange("UPDATE", made.id, "likes beer", old_text="likes tea"),
        MemoryChange("DELETE", made.id, old_text="likes tea"),
    ):
        assert await apply(container, space_id, late) == [None]
    found = await container.database.read(lambda: memories.find(space_id, made.id))
    assert found is not None
    assert found.text == "likes milk"


async def test_nothing_is_kept_of_events_that_are_gone(
    container: Container, space_id: str, source: MemorySource
) -> None:
    gone = MemorySource(source.session_id, (2, 3))

    done = await apply(
        container,
        space_id,
        MemoryChange("ADD", text="of what is gone", sources=(gone,)),
        MemoryChange("ADD", text="of what is there", sources=(source,)),
    )

    assert [made and made.text for made in done] == [None, "of what is there"]


async def test_candidates_are_the_newest_of_exactly_the_scope(container: Container, space_id: str) -> None:
    mine = [await add(container, space_id, text) for text in ("one", "two", "three")]
    await add(container, space_id, "other", scope=MemoryScope("alice", run_id="r"))
    await apply(container, space_id, MemoryChange("DELETE", mine[2].id))

    found = await container.database.read(lambda: memories.candidates(space_id, ALICE, 5))
    assert [memory.text for memory in found] == ["two", "one"]

    found = await container.database.read(lambda: memories.candidates(space_id, ALICE, 1))
    assert [memory.text for memory in found] == ["two"]


async def test_an_edit_changes_what_it_names_and_can_clear_the_expiration(container: Container, space_id: str) -> None:
    made = await add(container, space_id, "likes tea")

    async def edit(wanted: MemoryEdit) -> Memory | None:
        return await container.database.write(lambda: memories.edit(space_id, made.id, wanted, 5_000))

    dated = await edit(MemoryEdit(expiration_date="2027-01-01", metadata='{"a":1}'))
    assert dated == replace(made, expiration_date="2027-01-01", metadata='{"a":1}', updated_at=5_000)
    cleared = await edit(MemoryEdit(text="likes milk", clears_expiration=True))
    assert cleared == replace(made, text="likes milk", metadata='{"a":1}', updated_at=5_000)


async def test_words_find_what_the_memory_says_now(container: Container, space_id: str) -> None:
    async def found(*words: str) -> dict[str, list[str]]:
        hits = await container.database.read(lambda: memory_search.hits(space_id, words))
        return {word: keys.split() for word, keys in hits.items()}

    made = await add(container, space_id, "Likes CAFÉ crème, 東京に; 1e5 x_y")
    key = memory_search.key_of(container.database.dialect)(made.id)
    other = await container.tokens.local_principal("other")
    foreign = (await container.spaces.create(other, SpaceDraft())).id
    await add(container, foreign, "likes cafe")

    assert await found("cafe", "creme", "東京", "京に", "1e5", "x", "y", "likes", "caf", "beer") == {
        **{word: [key] for word in ("cafe", "creme", "東京", "京に", "1e5", "x", "y", "likes")},
        "caf": [],
        "beer": [],
    }
    await apply(container, space_id, MemoryChange("UPDATE", made.id, "likes beer"))
    assert await found("cafe", "beer") == {"cafe": [], "beer": [key]}
    await apply(container, space_id, MemoryChange("DELETE", made.id))
    assert await found("beer", "likes") == {"beer": [], "likes": []}


async def test_nothing_is_added_to_a_space_that_is_deleted(container: Container, space_id: str) -> None:
    owner = await container.tokens.local_principal("owner")
    await container.spaces.delete(owner, space_id)

    with pytest.raises(NotFound):
        await add(container, space_id, "too late")
    with pytest.raises(NotFound):
        await apply(container, ids.new_id(), MemoryChange("ADD", text="nowhere"))
