"""Memories through the services, on both engines."""

from typing import Any

import pytest

from threadkeep import clock, ids
from threadkeep.domain import limits, memory_filter
from threadkeep.domain.memory import Memory, MemoryChange, MemoryEdit, MemoryScope
from threadkeep.domain.principal import Principal
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import Invalid, NotFound
from threadkeep.services.container import Container
from threadkeep.storage.memory_pages import Entity

ALICE = MemoryScope(user_id="alice")
At = tuple[Principal, str]


@pytest.fixture
async def at(container: Container) -> At:
    owner = await container.tokens.local_principal("owner")
    return owner, (await container.spaces.create(owner, SpaceDraft())).id


async def add(container: Container, at: At, *texts: str, scope: MemoryScope = ALICE, **fields: Any) -> list[Memory]:
    return await container.memories.add(*at, scope, [MemoryChange("ADD", text=text, **fields) for text in texts])


async def test_memories_come_in_pages_newest_first(container: Container, at: At) -> None:
    made = await add(container, at, "one", "two", "three", "four")
    await add(container, at, "bob's", scope=MemoryScope("bob"))

    page = await container.memories.page(*at, memory_filter.parse({"user_id": "alice"}), offset=1, limit=2)

    assert page == ([made[2], made[1]], 4)
    _, total = await container.memories.page(*at, memory_filter.EVERYTHING)
    assert total == 5


async def test_a_page_of_what_a_filter_holds_for(container: Container, at: At) -> None:
    await add(container, at, "one", "two", "three", metadata='{"n": 1}')
    await add(container, at, "four", "five", metadata='{"n": 2}')
    wanted = memory_filter.parse({"user_id": "alice", "metadata": {"n": 1}, "NOT": [{"keywords": "two"}]})

    found, total = await container.memories.page(*at, wanted, offset=1, limit=5)

    assert ([memory.text for memory in found], total) == (["one"], 2)


async def test_what_has_expired_is_not_listed_unless_it_is_asked_for(container: Container, at: At) -> None:
    await add(container, at, "over", expiration_date="2026-01-01")
    (lasting,) = await add(container, at, "lasting")

    assert await container.memories.page(*at, memory_filter.EVERYTHING) == ([lasting], 1)
    _, total = await container.memories.page(*at, memory_filter.EVERYTHING, on="")
    assert total == 2


async def test_adding_by_hand_keeps_doubles(container: Container, at: At) -> None:
    await add(container, at, "the same", "the same")

    _, total = await container.memories.page(*at, memory_filter.EVERYTHING)
    assert total == 2


@pytest.mark.parametrize(
    ("scope", "draft", "place"),
    [
        (MemoryScope(), MemoryChange("ADD", text="x"), ("user_id",)),
        (MemoryScope(""), MemoryChange("ADD", text="x"), ("user_id",)),
        (MemoryScope(run_id="x" * 257), MemoryChange("ADD", text="x"), ("run_id",)),
        (ALICE, MemoryChange("ADD"), ("text",)),
        (ALICE, MemoryChange("ADD", text=""), ("text",)),
        (ALICE, MemoryChange("ADD", text="x" * 20_001), ("text",)),
        (ALICE, MemoryChange("ADD", text="x", metadata='{"a": "' + "x" * limits.METADATA_BYTES + '"}'), ("metadata",)),
        (ALICE, MemoryChange("ADD", text="x", expiration_date="2026-02-30"), ("expiration_date",)),
        (ALICE, MemoryChange("ADD", text="x", expiration_date="tomorrow"), ("expiration_date",)),
        (ALICE, MemoryChange("ADD", text="x", categories=("x" * 101,)), ("categories", 0)),
        (ALICE, MemoryChange("ADD", text="x", categories=("x",) * 51), ("categories",)),
    ],
)
async def test_what_breaks_a_limit_is_refused(
    container: Container, at: At, scope: MemoryScope, draft: MemoryChange, place: tuple[Any, ...]
) -> None:
    with pytest.raises(Invalid) as refused:
        await container.memories.add(*at, scope, [draft])

    assert refused.value.loc == place
    assert await container.memories.page(*at, memory_filter.EVERYTHING) == ([], 0)


async def test_several_memories_are_changed_all_or_none(container: Container, at: At) -> None:
    one, two = await add(container, at, "one", "two")

    with pytest.raises(NotFound):
        await container.memories.edit_many(
            *at, [(one.id, MemoryEdit(text="uno")), (ids.new_id(), MemoryEdit(text="x"))]
        )
    assert await container.memories.get(*at, one.id) == one

    changed = await container.memories.edit_many(
        *at, [(one.id, MemoryEdit(text="uno")), (two.id, MemoryEdit(metadata='{"a":1}'))]
    )
    assert [(each.text, each.metadata) for each in changed] == [("uno", None), ("two", '{"a":1}')]
    with pytest.raises(Invalid, match="Nothing to change"):
        await container.memories.edit(*at, one.id, MemoryEdit())


async def test_several_memories_are_deleted_all_or_none(container: Container, at: At) -> None:
    one, two, three = await add(container, at, "one", "two", "three")

    with pytest.raises(NotFound):
        await container.memories.delete_many(*at, [one.id, ids.new_id()])
    assert await container.memories.get(*at, one.id) == one

    await container.memories.delete_many(*at, [one.id, two.id, one.id])
    assert await container.memories.page(*at, memory_filter.EVERYTHING) == ([three], 1)
    with pytest.raises(NotFound):
        await container.memories.delete(*at, one.id)


async def test_all_that_a_filter_holds_for_is_deleted_in_steps(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEMORY_PAGE", 2)
    await add(container, at, "1", "2", "3", "4")
    await add(container, at, "5", expiration_date="2020-01-01")
    (bobs,) = await add(container, at, "6", scope=MemoryScope("bob"))

    assert await container.memories.delete_all(*at, memory_filter.parse({"user_id": "alice"})) == 5

    assert await container.memories.page(*at, memory_filter.EVERYTHING, limit=2, on="") == ([bobs], 1)
    assert await container.memories.delete_all(*at, memory_filter.parse({"user_id": "alice"})) == 0


async def test_the_history_is_there_after_the_memory(container: Container, at: At) -> None:
    (made,) = await add(container, at, "likes tea")
    await container.memories.edit(*at, made.id, MemoryEdit(text="likes milk"))
    await container.memories.delete(*at, made.id)

    kept, lines = await container.memories.history(*at, made.id)

    assert (kept.id, kept.text, kept.scope) == (made.id, "likes milk", ALICE)
    assert [(line.event, line.old_text, line.new_text) for line in lines] == [
        ("ADD", None, "likes tea"),
        ("UPDATE", "likes tea", "likes milk"),
        ("DELETE", "likes milk", None),
    ]


async def test_entities_are_all_that_memories_are_about(container: Container, at: At, monkeypatch: Any) -> None:
    times = iter(range(1_000, 9_000, 1_000))
    monkeypatch.setattr(clock, "now", lambda: next(times))
    await add(container, at, "1", "2", scope=MemoryScope("alice", run_id="r"))
    await add(container, at, "3", scope=MemoryScope("alice", agent_id="a\0\ud83d"))
    (gone,) = await add(container, at, "4", scope=MemoryScope(app_id="app"))
    await container.memories.delete(*at, gone.id)

    assert await container.memories.entities(*at) == [
        Entity("user_id", "alice", 3, 1_000, 2_000),
        Entity("agent_id", "a\0\ud83d", 1, 2_000, 2_000),
        Entity("run_id", "r", 2, 1_000, 1_000),
    ]


async def test_another_users_memories_do_not_exist(container: Container, at: At) -> None:
    (made,) = await add(container, at, "likes tea")
    stranger = await container.tokens.local_principal("stranger")
    own = (await container.spaces.create(stranger, SpaceDraft())).id
    everything = memory_filter.EVERYTHING
    memories = container.memories

    for space_id in (at[1], own, ids.new_id(), "no id"):
        theirs = (stranger, space_id)
        for call in (
            memories.get(*theirs, made.id),
            memories.edit(*theirs, made.id, MemoryEdit(text="x")),
            memories.delete(*theirs, made.id),
            memories.history(*theirs, made.id),
        ):
            with pytest.raises(NotFound):
                await call
    for call in (
        memories.add(stranger, at[1], ALICE, [MemoryChange("ADD", text="x")]),
        memories.page(stranger, at[1], everything),
        memories.delete_all(stranger, at[1], everything),
        memories.entities(stranger, at[1]),
    ):
        with pytest.raises(NotFound):
            await call
    assert await memories.page(*at, everything) == ([made], 1)


async def test_nothing_is_there_in_a_space_that_is_deleted(container: Container, at: At) -> None:
    (made,) = await add(container, at, "likes tea")
    await container.spaces.delete(*at)

    with pytest.raises(NotFound):
        await container.memories.get(*at, made.id)
    with pytest.raises(NotFound):
        await container.memories.history(*at, made.id)
