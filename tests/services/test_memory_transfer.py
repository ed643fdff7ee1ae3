"""Memories that are exported from one database and imported into another are the same there."""

import json
from collections.abc import Callable

import pytest

from tests.services.test_memory_removal import ANN, BOB, Place, place
from tests.services.test_transfer import exported, other
from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.memory import Memory, MemoryChange, MemoryEdit, MemoryScope, MemorySource
from threadkeep.errors import Invalid
from threadkeep.services.container import Container
from threadkeep.services.memories import Wish
from threadkeep.services.transfer import Moved
from threadkeep.storage import memories

__all__ = ["other"]
ODD = "caf\0é \ud83d"


async def filled(container: Container) -> tuple[Place, list[Memory]]:
    """A space with a memory of all kinds of text and one that was changed; another one was deleted."""
    here = await place(container)
    change = MemoryChange(
        "ADD",
        text=ODD,
        sources=(MemorySource(here.session_id, (1, 3)),),
        attributed_to="bob",
        categories=("food", ODD),
        metadata='{"b": 1.50}',
        expiration_date="2999-12-31",
        created_at=77,
    )
    scope = MemoryScope(ODD, "agent", None, "r")
    (odd,) = await container.database.write(lambda: memories.apply(here.space_id, scope, [change], clock.now()))
    assert odd is not None
    made = await here.remember("likes tea", scope=BOB)
    changed = await container.memories.edit(here.owner, here.space_id, made.id, MemoryEdit(text="likes green milk"))
    gone = await here.remember("deleted", scope=ANN)
    await container.memories.delete(here.owner, here.space_id, gone.id)
    return here, [changed, odd]


@pytest.mark.parametrize("into_it", [False, True])
async def test_what_is_brought_over_is_the_same(container: Container, other: Container, into_it: bool) -> None:
    source, target = (other, container) if into_it else (container, other)
    here, kept = await filled(source)
    lines = await exported(source)

    moved = await target.transfer.bring(lines)

    assert (moved.sessions, moved.memories) == (1, 2)
    at = (here.owner, here.space_id)
    assert await target.memories.page(*at, memory_filter.EVERYTHING) == (kept, 2)
    assert await target.memories.history(*at, kept[0].id) == await source.memories.history(*at, kept[0].id)
    found = await target.memories.search(*at, Wish("green milk", memory_filter.EVERYTHING, 5))
    assert [hit.memory for hit in found.hits] == [kept[0]]
    assert await exported(target) == lines
    assert (await target.transfer.bring(lines)).memories == 0


async def test_an_export_of_one_person_has_the_memories_about_them(container: Container, other: Container) -> None:
    await filled(container)

    assert (await other.transfer.bring(await exported(container, participant="bob"))) == Moved(1, 1, 4, 0, 1)


def with_memory(**fields: object) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        at = next(n for n, line in enumerate(lines) if line.startswith('{"memory"'))
        memory = {**json.loads(lines[at])["memory"], **fields}
        return [*lines[:at], json.dumps({"memory": memory}) + "\n", *lines[at + 1 :]]

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_memory(memory_id="x"), r"Line \d+: 'memory_id' is no id"),
        (with_memory(user_id=None, agent_id=None, run_id=None), "the memory is about nobody"),
        (with_memory(text=""), "'text' is empty"),
        (with_memory(text=None), "'text' of memory is null"),
        (with_memory(more=1), "memory has an unknown 'more'"),
        (with_memory(categories="[1]"), "'categories' is no list of texts"),
        (with_memory(categories="x"), "'categories' is no list of texts"),
        (with_memory(metadata="[]"), "'metadata' is no object"),
        (with_memory(expiration_date="soon"), "'soon' is no day"),
        (with_memory(sources='[["x", 1]]'), "'sources' are not what an export has"),
        (with_memory(sources='[["01a22a37-1f9c-7be3-a935-be3b47e3a157", "1"]]'), "'sources' are not"),
        (with_memory(history='[[2, "ADD", null, "x", null, "[]", 1]]'), "'history' is not what an export has"),
        (with_memory(history='[[1, "PUT", null, "x", null, "[]", 1]]'), "'history' is not what an export has"),
        (with_memory(history='[[1, "ADD", null, "x", null, "[1]", 1]]'), "'history' is not what an export has"),
        (with_memory(history='[[1, "ADD"]]'), "'history' is not what an export has"),
        (lambda lines: [lines[0], *[line for line in lines if line.startswith('{"memory"')]], "does not belong here"),
    ],
)
async def test_a_memory_that_is_wrong_is_refused_by_its_line(
    container: Container, other: Container, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    await filled(container)

    with pytest.raises(Invalid, match=problem):
        await other.transfer.bring(change(await exported(container)))
