"""Lookup keys of events, on both engines: unique among the events of one type in a space, exact under concurrency."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.services.test_events import Place, new_place
from threadkeep import clock
from threadkeep.domain.event import EventChange, EventDraft
from threadkeep.domain.session import SessionDraft
from threadkeep.errors import EventDeduplicationConflict, EventLookupConflict, Invalid, NotFound, StaleEvent
from threadkeep.services.container import Container
from threadkeep.settings import Settings


def found_by(*keys: str, type_: str | None = "message", deduplication_key: str | None = None) -> EventDraft:
    return EventDraft("{}", None, type_, "agent", None, deduplication_key, keys)


@pytest.fixture
async def place(container: Container) -> Place:
    return await new_place(container)


@pytest.fixture
async def second(place: Place) -> Place:
    """Another session of the same space."""
    session = await place.services.sessions.create(*place.at[:2], SessionDraft(("ann",)))
    return Place(place.services, *place.at[:2], session.id)


@pytest.fixture
async def twin(database: str, second: Place) -> AsyncIterator[Place]:
    """The second session, by another process."""
    opened = await Container.open(Settings(database=database))
    yield Place(opened, *second.at)
    await opened.close()


async def append(place: Place, *drafts: EventDraft) -> list[int]:
    return [event.sequence_id for event in await place.services.events.append(*place.at, drafts)]


async def patch(place: Place, number: int, *keys: str, type_: str | None = None) -> list[str]:
    change = EventChange(number, type=type_, lookup_keys=keys)
    (event,) = await place.services.events.patch(*place.at, [change])
    return list(json.loads(event.lookup_keys or "[]"))


async def find(place: Place, *keys: str, type_: str | None = None) -> list[tuple[str, int]]:
    found, total = await place.services.space_events.having(*place.at[:2], keys, event_type=type_)
    assert total == len(found)
    return [(session_id, event.sequence_id) for session_id, event in found]


async def test_an_event_is_found_by_each_of_its_keys_wherever_it_is(place: Place, second: Place) -> None:
    await append(place, found_by(), found_by("a", "b"))
    await append(second, found_by("c"))

    here, there = place.at[2], second.at[2]
    assert await find(place, "a") == await find(place, "b") == await find(place, "b", "a") == [(here, 2)]
    assert await find(place, "c", "a", "x") == sorted([(here, 2), (there, 1)])
    assert await find(place, "x") == []
    (event,), _ = await place.services.events.page_after(*place.at, 1)
    assert event.lookup_keys == '["a","b"]'


async def test_a_key_that_is_taken_in_the_space_names_the_event_that_has_it(place: Place, second: Place) -> None:
    await append(place, found_by(), found_by("k"))

    with pytest.raises(
        EventLookupConflict, match=f"Event 2 of session {place.at[2]} has the lookup key 'k'"
    ) as refused:
        await append(second, found_by("new"), found_by("k"))

    error = refused.value
    assert (error.key, error.existing_session_id, error.existing_sequence_id) == ("k", place.at[2], 2)
    # All or nothing, and no number was burnt.
    assert await find(place, "new") == []
    assert await append(second, found_by("new")) == [1]


async def test_events_of_another_type_or_space_may_have_the_key(container: Container, place: Place) -> None:
    other = await new_place(container)
    await append(place, found_by("k"), found_by("k", type_="status"), found_by("k", type_=None))
    await append(other, found_by("k"))

    assert [number for _, number in await find(place, "k")] == [1, 2, 3]
    assert await find(place, "k", type_="status") == [(place.at[2], 2)]
    with pytest.raises(EventLookupConflict):
        await append(place, found_by("k", type_=None))


async def test_a_patch_adds_keys_to_those_that_are_there(place: Place) -> None:
    await append(place, found_by("a"), found_by())

    assert await patch(place, 1, "b", "a", "c") == ["a", "b", "c"]
    assert await patch(place, 2, "d") == ["d"]
    assert await patch(place, 2, "d") == ["d"]

    assert await find(place, "c") == [(place.at[2], 1)]
    assert await find(place, "a") == [(place.at[2], 1)]
    events, _ = await place.services.events.page(*place.at)
    assert [event.lookup_keys for event in events] == ['["a","b","c"]', '["d"]']


async def test_a_patch_with_a_key_that_is_taken_changes_nothing(place: Place, second: Place) -> None:
    await append(place, found_by("k"))
    await append(second, found_by("mine"), found_by())
    before = await second.services.events.page(*second.at)

    with pytest.raises(EventLookupConflict):
        await second.services.events.patch(
            *second.at, [EventChange(1, body='{"new":1}', lookup_keys=("more",)), EventChange(2, lookup_keys=("k",))]
        )

    assert await second.services.events.page(*second.at) == before
    assert await find(place, "more") == []


async def test_a_patch_of_keys_alone_gives_a_new_token_and_is_guarded_by_it(place: Place) -> None:
    (first,) = await place.services.events.append(*place.at, [found_by()])

    (patched,) = await place.services.events.patch(
        *place.at, [EventChange(1, token=first.created_at, lookup_keys=("a",))]
    )

    assert patched.created_at > first.created_at
    assert patched.body == first.body
    with pytest.raises(StaleEvent):
        await place.services.events.patch(*place.at, [EventChange(1, token=first.created_at, lookup_keys=("b",))])
    assert await find(place, "b") == []


async def test_an_event_of_a_new_type_takes_its_keys_with_it(place: Place) -> None:
    await append(place, found_by("k"), found_by("k", type_="status"), found_by("other"))

    with pytest.raises(EventLookupConflict):
        await patch(place, 1, type_="status")
    assert await patch(place, 3, "more", type_="status") == ["other", "more"]
    assert await patch(place, 1, type_="message") == ["k"]

    assert await find(place, "other", type_="message") == []
    assert await find(place, "other", "more", type_="status") == [(place.at[2], 3)]
    assert await append(place, found_by("other")) == [4]


async def test_deleting_an_event_or_its_session_frees_its_keys(place: Place, second: Place) -> None:
    await append(place, found_by("a"))
    await append(second, found_by("b", "c"))

    await place.services.events.delete(*place.at, 1)
    await place.services.sessions.delete(*second.at)

    assert await find(place, "a", "b", "c") == []
    assert await append(place, found_by("a"), found_by("b")) == [2, 3]
    assert await patch(place, 2, "c") == ["a", "c"]
    assert await find(place, "c") == [(place.at[2], 2)]


async def test_the_same_key_twice_in_a_batch_is_refused(place: Place) -> None:
    with pytest.raises(Invalid, match="'k' is that of event 0 too") as refused:
        await append(place, found_by("k"), found_by("k", type_="status"), found_by("k"))

    assert refused.value.loc == ("events", 2, "lookupKeys")
    assert await find(place, "k") == []


@pytest.mark.parametrize(
    ("keys", "words", "loc"),
    [
        ([""], "0 characters; at least 1", ("lookupKeys", 0)),
        (["a", "k" * 129], "129 characters; the limit is 128", ("lookupKeys", 1)),
        ([str(n) for n in range(513)], "513 lookupKeys in one request; the limit is 512", ("lookupKeys",)),
    ],
)
async def test_keys_have_1_to_128_characters_and_there_are_at_most_512(
    place: Place, keys: list[str], words: str, loc: tuple[str | int, ...]
) -> None:
    await append(place, found_by())

    for refused in (append(place, found_by(*keys)), patch(place, 1, *keys)):
        with pytest.raises(Invalid, match=words) as error:
            await refused
        assert error.value.loc == loc


async def test_an_event_has_512_keys_at_most_however_they_came(place: Place) -> None:
    keys = [f"{n:03}" + "k" * 125 for n in range(512)]
    await append(place, found_by(*keys[:500]))

    assert await patch(place, 1, *keys[490:]) == keys
    with pytest.raises(Invalid, match="513 lookup keys of one event; the limit is 512"):
        await patch(place, 1, "one more")

    assert await find(place, keys[511]) == [(place.at[2], 1)]


async def test_a_key_may_hold_any_text(place: Place) -> None:
    odd = "\0 \ud83d \U0010f000 é'%_" + "k" * 100

    await append(place, found_by(odd, type_=odd[:90]))

    assert await find(place, odd) == [(place.at[2], 1)]
    with pytest.raises(EventLookupConflict) as refused:
        await append(place, found_by(odd, type_=odd[:90]))
    assert refused.value.key == odd


async def test_of_many_at_once_one_has_the_key_and_the_others_hear_of_it(place: Place, twin: Place) -> None:
    places = (place, twin)
    answers = await asyncio.gather(
        *[append(places[n % 2], found_by("k", f"own {n}") if n % 3 else found_by()) for n in range(60)],
        return_exceptions=True,
    )

    refusals = [answer for answer in answers if isinstance(answer, EventLookupConflict)]
    assert (len(refusals), len(answers) - len(refusals)) == (39, 21)
    assert all(isinstance(answer, list) for answer in answers if answer not in refusals)
    (holder,) = await find(place, "k")
    assert {(each.existing_session_id, each.existing_sequence_id) for each in refusals} == {holder}
    for each in places:
        events, total = await each.services.events.page(*each.at)
        assert [event.sequence_id for event in events] == list(range(1, total + 1))


async def test_of_patches_at_once_one_has_the_key(place: Place, twin: Place) -> None:
    for each in (place, twin):
        await append(each, *[found_by()] * 10)

    answers = await asyncio.gather(
        *[patch((place, twin)[n % 2], 1 + n // 2, "k", f"own {n}") for n in range(20)], return_exceptions=True
    )

    assert sum(isinstance(answer, list) for answer in answers) == 1
    assert sum(isinstance(answer, EventLookupConflict) for answer in answers) == 19
    assert len(await find(place, "k")) == 1


async def test_both_kinds_of_keys_go_together(place: Place) -> None:
    await append(place, found_by("a", deduplication_key="once"))

    with pytest.raises(EventDeduplicationConflict):
        await append(place, found_by("b", deduplication_key="once"))

    assert await find(place, "a", "b") == [(place.at[2], 1)]


async def test_a_stranger_learns_nothing_of_a_key(container: Container, place: Place) -> None:
    bob = await container.tokens.local_principal("bob")
    stranger = Place(container, bob, *place.at[1:])
    await append(place, found_by("k"))

    theirs, mine, their_new, my_new = await asyncio.gather(
        append(stranger, found_by("k")),
        append(place, found_by("k")),
        append(stranger, found_by("new")),
        append(place, found_by("new")),
        return_exceptions=True,
    )

    assert isinstance(theirs, NotFound)
    assert isinstance(their_new, NotFound)
    assert isinstance(mine, EventLookupConflict)
    assert my_new == [2]
    with pytest.raises(NotFound):
        await find(stranger, "k")


async def test_a_session_that_is_gone_is_not_there_whoever_has_the_key(place: Place, second: Place) -> None:
    await append(place, found_by("k"))
    await second.services.sessions.delete(*second.at)

    gone, taken = await asyncio.gather(
        append(second, found_by("k")), append(place, found_by("k")), return_exceptions=True
    )

    assert isinstance(gone, NotFound)
    assert isinstance(taken, EventLookupConflict)


async def test_what_is_found_comes_in_pages(place: Place) -> None:
    await append(place, *[found_by("k", type_=f"type {n}") for n in range(7)])

    async def page(offset: int, limit: int) -> tuple[list[int], int]:
        at = (*place.at[:2], ["k", "x"])
        found, total = await place.services.space_events.having(*at, offset=offset, limit=limit)
        return [event.sequence_id for _, event in found], total

    assert await page(0, 3) == ([1, 2, 3], 7)
    assert await page(6, 3) == ([7], 7)
    assert await page(9, 3) == ([], 7)
    assert await page(0, 100) == ([1, 2, 3, 4, 5, 6, 7], 7)


async def test_the_newest_events_of_many_sessions_come_at_once(container: Container, place: Place) -> None:
    principal, space_id, _ = place.at
    made = [(await container.sessions.create(principal, space_id, SessionDraft(("ann",)))).id for _ in range(5)]
    for n, session_id in enumerate(made):
        for type_ in ("message", "message", "status")[: n % 4]:
            await container.events.append(principal, space_id, session_id, [found_by(type_=type_)])
    elsewhere = await new_place(container)
    await append(elsewhere, found_by())
    await container.sessions.delete(principal, space_id, made[2])

    async def newest(*session_ids: str, type_: str | None = None) -> list[tuple[str, int]]:
        found = await container.space_events.newest(principal, space_id, session_ids, event_type=type_)
        return [(session_id, event.sequence_id) for session_id, event in found]

    asked = [*reversed(made), elsewhere.at[2], "no id", made[1]]
    assert await newest(*asked) == [(made[1], 1), (made[3], 3)]
    assert await newest(*asked, type_="message") == [(made[1], 1), (made[3], 2)]
    await container.events.delete(principal, space_id, made[3], 3)
    assert await newest(made[3]) == [(made[3], 2)]
    assert await newest("no id") == []
    for wrong in ([], [f"{n}" for n in range(101)]):
        with pytest.raises(Invalid, match="sessionId"):
            await newest(*wrong)
    bob = await container.tokens.local_principal("bob")
    with pytest.raises(NotFound):
        await container.space_events.newest(bob, space_id, made)


async def test_a_lifecycle_that_ends_a_session_frees_its_keys(place: Place, second: Place) -> None:
    await append(second, found_by("k"))
    from threadkeep.storage import sessions

    await place.services.database.write(
        lambda: sessions.expire(second.at[1], second.at[2], clock.now(), final_extraction=False)
    )

    assert await append(place, found_by("k")) == [1]
