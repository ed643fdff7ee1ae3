"""The search in descriptions, against a search of the plain texts: the two never differ, on either engine."""

import random
from itertools import product

import pytest

from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionChange, SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.storage import search

ALL_BY_TRIGRAMS, NONE_BY_TRIGRAMS, SOME_BY_TRIGRAMS = 2_000, -1, 12
PIECES = [
    *(
        "//thread/",
        "//Thread/",
        "t-1/",
        "T-12/",
        "%",
        "_",
        "%25",
        "\\",
        "\\%",
        "'",
        '"',
        '""',
        "''",
        "*",
        "^",
        "AND ",
        "(",
        "-",
    ),
    *("\0", "\0\0", "\ud83d", "\ude00", "\U0010f800", "\U0010f801", "ß", "SS", "ss", "ẞ", "İ", "i̇", "ı", "ſ", "K", "k"),
    *(
        "ﬁ",
        "FI",
        "😀",
        "👩‍👧",
        "é",
        "e\u0301",
        "\u0301",
        "日本",
        "本語",
        "\u200b",
        " ",
        "\n",
        "a",
        "b",
        "abc",
        "\u00ad",
    ),
]
PEOPLE = ["ann", "bob", "eve"]


class Shelf:
    """Sessions with descriptions, and what each of them says."""

    def __init__(self, container: Container, at: tuple[Principal, str]) -> None:
        self.sessions = container.sessions
        self.at = at
        self.random = random.Random(7)
        self.there: dict[str, tuple[set[str], str | None]] = {}

    def text(self, most: int = 9) -> str:
        return "".join(self.random.choices(PIECES, k=self.random.randint(1, most)))

    def description(self) -> str | None:
        return self.random.choice([None, "", *[self.text() for _ in range(14)]])

    async def add(self, count: int) -> None:
        for _ in range(count):
            people = self.random.sample(PEOPLE, self.random.randint(1, 2))
            made = await self.sessions.create(*self.at, SessionDraft(tuple(people), self.description()))
            self.there[made.id] = (set(people), made.description)

    async def describe_anew(self, count: int) -> None:
        for session_id in self.random.sample(sorted(self.there), count):
            changed = await self.sessions.patch(*self.at, session_id, SessionChange(description=self.description()))
            self.there[session_id] = (self.there[session_id][0], changed.description)

    async def delete(self, count: int) -> None:
        for session_id in self.random.sample(sorted(self.there), count):
            await self.sessions.delete(*self.at, session_id)
            del self.there[session_id]

    def needles(self) -> list[str]:
        """Pieces of what is there, in another case too, and texts that may be nowhere."""
        found = []
        for _, described in self.there.values():
            if described and len(described) > 3:
                start = self.random.randrange(len(described) - 3)
                found.append(described[start : start + self.random.choice([3, 3, 4, 6, 20])])
        upper = [needle.upper() for needle in found[::3]]
        made = [self.text(3) for _ in range(40)] + [piece * 3 for piece in PIECES]
        return [needle for needle in (*found, *upper, *made) if len(needle) >= 3]

    async def check(self) -> int:
        """Compare the two for all needles, and say how many sessions were found."""
        hits = 0
        for needle, people in product(self.needles(), ((), ("ann",), ("bob", "eve"))):
            expected = [
                session_id
                for session_id, (there, described) in self.there.items()
                if (not people or there & set(people)) and needle.casefold() in (described or "").casefold()
            ]
            found, total = await self.sessions.page(*self.at, Filters(people, needle))
            assert [each.id for each in found] == expected[:100], (needle, people)
            assert total == len(expected), (needle, people)
            hits += total
        return hits


@pytest.fixture
async def shelf(container: Container) -> Shelf:
    alice = await container.tokens.local_principal("alice")
    # What another space holds is found in the same index.
    for name in ("one", "other"):
        space = await container.spaces.create(alice, SpaceDraft(name))
        shelf = Shelf(container, (alice, space.id))
        await shelf.add(40)
    return shelf


@pytest.mark.parametrize("most", [ALL_BY_TRIGRAMS, SOME_BY_TRIGRAMS, NONE_BY_TRIGRAMS])
async def test_what_is_found_is_what_holds_the_text(shelf: Shelf, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST", most)

    assert await shelf.check() > 150
    await shelf.describe_anew(15)
    await shelf.delete(8)
    await shelf.add(5)
    assert await shelf.check() > 150


async def test_more_hits_than_the_trigrams_are_good_for_are_found_all_the_same(
    container: Container, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST", 20)
    ids = [
        (await container.sessions.create(*shelf.at, SessionDraft(("ann",), f"//thread/number-{n}/"))).id
        for n in range(30)
    ]

    found, total = await container.sessions.page(*shelf.at, Filters(needle="number-"), offset=5, limit=20)
    assert ([each.id for each in found], total) == (ids[5:25], 30)
    few = await container.database.scan(lambda: search.are_few("number-29"))
    many = await container.database.scan(lambda: search.are_few("number-"))
    assert (few, many) == (container.database.dialect == "sqlite", False)


async def test_a_space_that_is_gone_gives_nothing_away(container: Container, shelf: Shelf) -> None:
    bob = await container.tokens.local_principal("bob")
    mine = await container.spaces.create(bob, SpaceDraft())
    await container.sessions.create(*shelf.at, SessionDraft(("ann",), "only alice's"))

    assert (await container.sessions.page(*shelf.at, Filters(needle="only")))[1] == 1
    assert await container.sessions.page(bob, mine.id, Filters(needle="only")) == ([], 0)
