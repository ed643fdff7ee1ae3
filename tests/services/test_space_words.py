"""The words of a space in memory say what the plain definition says, whatever has changed, and by whom."""

import random
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.domain import memory_filter
from threadkeep.domain.memory import MemoryChange, MemoryEdit, MemoryScope
from threadkeep.domain.space import SpaceDraft
from threadkeep.domain.words import words
from threadkeep.memory import ranking
from threadkeep.services import memory_finding, space_words
from threadkeep.services.container import Container
from threadkeep.services.memories import Wish
from threadkeep.services.space_words import WordRows
from threadkeep.settings import Settings
from threadkeep.storage import memory_removal
from threadkeep.storage.memory_versions import Change
from threadkeep.testing.embedder import WordEmbedder

WORDS = ("tea", "likes", "green", "the", "harbour")
# Many share the half by which their age is told.
IDS = [f"{time:08x}-0000-7000-8000-{end:012x}" for time in range(3) for end in range(8)]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def plain(known: Mapping[str, str], wanted: list[str]) -> dict[str, float]:
    """The definition: what each memory has of the words."""
    having = {word: {each for each, text in known.items() if word in words(text)} for word in wanted}
    weights = ranking.word_weights({word: len(ids) for word, ids in having.items()}, len(known))
    totals = {each: sum(weights[word] for word in weights if each in having[word]) for each in known}
    return {each: (total + 500) // 1_000 / 1_000_000 for each, total in totals.items() if total}


def ordered(scores: Mapping[str, float], most: int) -> list[tuple[float, str]]:
    return sorted(((score, each) for each, score in scores.items()), reverse=True)[:most]


def hits(known: Mapping[str, str], wanted: list[str]) -> dict[str, str]:
    return {word: " ".join(each for each, text in known.items() if word in words(text)) for word in wanted}


@given(st.data())
def test_rows_that_are_kept_up_to_date_weigh_as_the_definition_does(data: st.DataObject) -> None:
    known = data.draw(st.dictionaries(st.sampled_from(IDS), TEXTS, max_size=20))
    rows = WordRows(str)
    rows.begin(known)
    for version in range(1, data.draw(st.integers(1, 4)) + 1):
        changes = data.draw(st.dictionaries(st.sampled_from(IDS), st.none() | TEXTS, max_size=6))
        rows.change([Change(version, each, text) for each, text in changes.items()])
        known = {**known, **{each: text for each, text in changes.items() if text is not None}}
        known = {each: text for each, text in known.items() if each not in changes or changes[each] is not None}
        removed = data.draw(st.sets(st.sampled_from(IDS), max_size=2))
        known = {each: text for each, text in known.items() if each not in removed}
        rows.keep(known)
        wanted = data.draw(st.lists(st.sampled_from(WORDS), unique=True))
        rows.learn(hits(known, rows.unknown(wanted)))
        most = data.draw(st.integers(1, 8))
        among = data.draw(st.none() | st.sets(st.sampled_from(IDS)))
        without = data.draw(st.sets(st.sampled_from(IDS), max_size=3))
        beside = data.draw(st.sets(st.sampled_from(sorted(known)), max_size=3)) if known else set()

        found = rows.weigh(wanted, among, without, beside - without, most)

        whole = plain(known, wanted)
        may = {each: whole[each] for each in whole if each not in without and (among is None or each in among)}
        best = ordered(may, most)
        # What is beside the best may be better only where it was not to be among them.
        assert [pair for pair in ordered(found, len(found)) if pair[1] in may][: len(best)] == best
        assert all(found.get(each, 0.0) == whole.get(each, 0.0) for each in beside - without)
        assert len(rows) == len(known)


async def test_both_engines_find_as_the_definition_says_whichever_process_changes_what_is_there(
    database: str, container: Container
) -> None:
    chance = random.Random(5)
    owner = await container.tokens.local_principal("owner")
    space_id = (await container.spaces.create(owner, SpaceDraft())).id
    other = await Container.open(Settings(database=database))
    known: dict[str, str] = {}

    def text() -> str:
        return " ".join(chance.choices(WORDS, (1, 9, 3, 9, 1), k=4))

    try:
        for _ in range(12):
            here = chance.choice((container, other))
            drafts = [MemoryChange("ADD", text=text()) for _ in range(6)]
            known |= {
                each.id: each.text for each in await here.memories.add(owner, space_id, MemoryScope("alice"), drafts)
            }
            for changed in chance.sample(sorted(known), 3):
                known[changed] = text()
                await here.memories.edit(owner, space_id, changed, MemoryEdit(text=known[changed]))
            for gone in chance.sample(sorted(known), 2):
                del known[gone]
                await here.memories.delete(owner, space_id, gone)
            erased = chance.choice(sorted(known))
            del known[erased]
            await here.database.write(partial(memory_removal.remove, space_id, [erased]))
            wanted = chance.sample(WORDS, 3)
            expected = [(each, score) for score, each in ordered(plain(known, wanted), 50)]
            for place in (container, other):
                found = await place.memories.search(
                    owner, space_id, Wish(" ".join(wanted), memory_filter.EVERYTHING, 50)
                )
                assert [(hit.memory.id, hit.keyword) for hit in found.hits] == expected
    finally:
        await other.close()


async def test_a_space_that_has_come_back_is_read_anew(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_finding, "_FEW", 0)
    opened = await Container.open(Settings(database=database), embedder=WordEmbedder())
    try:
        owner = await opened.tokens.local_principal("owner")
        space_id = (await opened.spaces.create(owner, SpaceDraft())).id

        async def add(text: str) -> None:
            await opened.memories.add(owner, space_id, MemoryScope("alice"), [MemoryChange("ADD", text=text)])

        await add("likes tea")
        wish = Wish("likes tea", memory_filter.EVERYTHING, 10)
        assert len((await opened.memories.search(owner, space_id, wish)).hits) == 1
        # As after a space that had changed more often: what is kept of it tells nothing of this one.
        finding = opened.memories._finding
        for kept in (finding._words._kept.take(space_id), finding._vectors._kept.take((space_id, "words"))):
            kept.version = kept.removed = 99
        await add("likes tea too")

        hits = (await opened.memories.search(owner, space_id, wish)).hits

        assert [(hit.memory.text, hit.semantic is not None) for hit in hits] == [
            ("likes tea too", True),
            ("likes tea", True),
        ]
        assert all(hit.keyword == 1.0 for hit in hits)
    finally:
        await opened.close()


async def test_texts_that_are_gone_are_forgotten_when_they_are_the_most(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_words, "_WORN", 3)
    owner = await container.tokens.local_principal("owner")
    space_id = (await container.spaces.create(owner, SpaceDraft())).id
    drafts = [MemoryChange("ADD", text="likes tea"), MemoryChange("ADD", text="likes milk")]
    first, _ = await container.memories.add(owner, space_id, MemoryScope("alice"), drafts)
    rows = []
    for number in range(12):
        await container.memories.edit(owner, space_id, first.id, MemoryEdit(text=f"likes tea {number}"))
        found = await container.memories.search(owner, space_id, Wish("tea", memory_filter.EVERYTHING, 10))
        assert [hit.memory.text for hit in found.hits] == [f"likes tea {number}"]
        rows.append(len(container.memories._finding._words._kept.take(space_id)._ids))

    assert rows == [2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6]
