"""Deduplication keys of events, on both engines: unique in a session, exact under concurrency."""

import asyncio

import pytest

from tests.services.test_events import Place, new_place
from threadkeep.domain.event import EventDraft
from threadkeep.errors import EventDeduplicationConflict, Invalid, NotFound
from threadkeep.services.container import Container
from threadkeep.settings import Settings


def keyed(key: str | None, content: str = "x") -> EventDraft:
    return EventDraft(f'{{"content":"{content}"}}', content, None, "agent", None, key)


@pytest.fixture
async def place(container: Container) -> Place:
    return await new_place(container)


async def append(place: Place, *keys: str | None, content: str = "x") -> list[int]:
    made = await place.services.events.append(*place.at, [keyed(key, content) for key in keys])
    return [event.sequence_id for event in made]


async def stored(place: Place) -> list[tuple[int, str | None]]:
    found, total = await place.services.events.page(*place.at)
    assert total == len(found)
    return [(event.sequence_id, event.deduplication_key) for event in found]


async def test_a_key_that_is_taken_names_the_event_that_has_it(place: Place) -> None:
    assert await append(place, None, "k") == [1, 2]

    with pytest.raises(EventDeduplicationConflict, match=r"Event 2 of this session has .* 'k'") as refused:
        await append(place, "k", content="other")

    assert (refused.value.key, refused.value.existing_sequence_id) == ("k", 2)
    assert await append(place, None) == [3]
    assert await stored(place) == [(1, None), (2, "k"), (3, None)]
    assert await place.bodies() == ['{"content":"x"}'] * 3


async def test_a_batch_with_one_key_that_is_taken_changes_nothing(place: Place) -> None:
    await append(place, "k")

    with pytest.raises(EventDeduplicationConflict):
        await append(place, "new", "k", None)

    assert await append(place, "new") == [2]


async def test_two_equal_keys_in_one_batch_are_refused(place: Place) -> None:
    with pytest.raises(Invalid, match="that of event 0 too") as refused:
        await append(place, "k", None, "k")

    assert refused.value.loc == ("events", 2, "deduplicationKey")
    assert await stored(place) == []


@pytest.mark.parametrize(("key", "words"), [("", "0 characters"), ("k" * 73, "73 characters; the limit is 72")])
async def test_a_key_has_1_to_72_characters(place: Place, key: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await append(place, key)


async def test_a_key_may_hold_any_text(place: Place) -> None:
    odd = "\0 \ud83d \U0010f000 é'" + "k" * 60

    await append(place, odd)

    assert await stored(place) == [(1, odd)]
    with pytest.raises(EventDeduplicationConflict) as refused:
        await append(place, odd)
    assert refused.value.key == odd


async def test_a_key_is_of_its_session(container: Container, place: Place) -> None:
    other = await new_place(container)

    assert [await append(place, "k"), await append(other, "k")] == [[1], [1]]


async def test_deleting_the_event_frees_its_key(place: Place) -> None:
    await append(place, "k")

    await place.services.events.delete(*place.at, 1)

    assert await append(place, "k") == [2]
    assert await stored(place) == [(2, "k")]


async def test_of_many_at_once_one_has_the_key_and_the_others_hear_its_number(database: str, place: Place) -> None:
    other = await Container.open(Settings(database=database))
    try:
        twin = Place(other, *place.at)
        answers = await asyncio.gather(
            *[append((place, twin)[n % 2], "k" if n % 3 else None) for n in range(60)], return_exceptions=True
        )
    finally:
        await other.close()

    numbers = [answer[0] for answer in answers if isinstance(answer, list)]
    refusals = [answer for answer in answers if isinstance(answer, EventDeduplicationConflict)]
    assert (len(numbers), len(refusals)) == (21, 39)
    # No number was burnt by a refusal.
    assert sorted(numbers) == list(range(1, 22))
    assert [{refusal.existing_sequence_id} for refusal in refusals] == [
        {number for number, key in await stored(place) if key == "k"}
    ] * 39


async def test_one_that_is_refused_disturbs_nobody_in_its_group(container: Container, place: Place) -> None:
    others = [await new_place(container) for _ in range(3)]
    await append(place, "k")

    answers = await asyncio.gather(
        append(place, "k"),
        *[append(other, None) for other in others],
        append(place, "k2"),
        append(place, None),
        return_exceptions=True,
    )

    assert isinstance(answers[0], EventDeduplicationConflict)
    assert answers[1:4] == [[1], [1], [1]]
    assert sorted(answers[4:], key=str) == [[2], [3]]


async def test_a_stranger_in_the_same_group_learns_nothing_of_a_key(container: Container, place: Place) -> None:
    bob = await container.tokens.local_principal("bob")
    stranger = Place(container, bob, *place.at[1:])
    await append(place, "k")

    theirs, mine, their_new, my_new = await asyncio.gather(
        append(stranger, "k"),
        append(place, "k"),
        append(stranger, "new"),
        append(place, "new"),
        return_exceptions=True,
    )

    assert isinstance(theirs, NotFound)
    assert isinstance(their_new, NotFound)
    assert isinstance(mine, EventDeduplicationConflict)
    assert my_new == [2]
