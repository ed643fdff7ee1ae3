"""Events through the services, on both engines."""

import asyncio

import pytest

from threadkeep import clock
from threadkeep.domain.event import EventChange, EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import BadRequest, Invalid, NotFound, StaleEvent
from threadkeep.services.container import Container
from threadkeep.settings import Settings


class Place:
    """A session to write to."""

    def __init__(self, services: Container, principal: Principal, space_id: str, session_id: str) -> None:
        self.services = services
        self.at = (principal, space_id, session_id)
        self.space_id = space_id

    async def append(self, *contents: str, type_: str | None = None) -> list[int]:
        drafts = [said(content, type_) for content in contents]
        return [event.sequence_id for event in await self.services.events.append(*self.at, drafts)]

    async def bodies(self, **options: int) -> list[str]:
        found, _ = await self.services.events.page(*self.at, **options)
        return [event.body for event in found]


def said(content: str, type_: str | None = None) -> EventDraft:
    return EventDraft(f'{{"content":"{content}"}}', content, type_, "user", "ann")


@pytest.fixture
async def place(container: Container) -> Place:
    return await new_place(container)


async def new_place(services: Container) -> Place:
    principal = await services.tokens.local_principal("alice")
    space = await services.spaces.create(principal, SpaceDraft())
    session = await services.sessions.create(principal, space.id, SessionDraft(("ann",)))
    return Place(services, principal, space.id, session.id)


async def test_forty_writers_at_once_get_the_numbers_one_to_forty(place: Place) -> None:
    numbers = await asyncio.gather(*[place.append(str(n)) for n in range(40)])

    assert sorted(number for (number,) in numbers) == list(range(1, 41))
    assert len(set(await place.bodies())) == 40


async def test_writers_to_several_sessions_at_once_disturb_nobody(container: Container) -> None:
    places = [await new_place(container) for _ in range(5)]
    gone = await new_place(container)
    await container.spaces.delete(gone.at[0], gone.space_id)

    answers = await asyncio.gather(
        *[place.append(f"{n}", f"{n} again") for n in range(10) for place in places],
        gone.append("too late"),
        return_exceptions=True,
    )

    assert isinstance(answers[-1], NotFound)
    for place in places:
        assert len(await place.bodies()) == 20
        found, _ = await container.events.page(*place.at)
        assert [event.sequence_id for event in found] == list(range(1, 21))


async def test_a_stranger_in_the_same_group_gets_nothing_and_takes_nothing(container: Container, place: Place) -> None:
    stranger = await container.tokens.local_principal("bob")
    draft = EventDraft("{}", None, None, "agent", None)

    mine, theirs, mine_again = await asyncio.gather(
        container.events.append(*place.at, [draft]),
        container.events.append(stranger, *place.at[1:], [draft]),
        container.events.append(*place.at, [draft]),
        return_exceptions=True,
    )

    assert isinstance(theirs, NotFound)
    assert not isinstance(mine, BaseException)
    assert not isinstance(mine_again, BaseException)
    assert [mine[0].sequence_id, mine_again[0].sequence_id] == [1, 2]


async def test_two_processes_share_one_sequence(database: str, place: Place) -> None:
    other = await Container.open(Settings(database=database))
    try:
        twin = Place(other, *place.at)
        numbers = await asyncio.gather(*[(place, twin)[n % 2].append(str(n)) for n in range(40)])
    finally:
        await other.close()

    assert sorted(number for (number,) in numbers) == list(range(1, 41))


async def test_a_batch_with_one_bad_event_changes_nothing(place: Place) -> None:
    good, bad = said("fine"), EventDraft('{"content":"x"}', "x", None, "user", "nobody")

    with pytest.raises(BadRequest, match=r"^events\[3\]: The emitter 'nobody' is not one of the session's"):
        await place.services.events.append_batch(*place.at, [good, good, good, bad, good])

    assert await place.bodies() == []
    assert await place.append("next") == [1]


@pytest.mark.parametrize("count", [0, 201])
async def test_a_batch_holds_1_to_200_events(place: Place, count: int) -> None:
    with pytest.raises(Invalid) as caught:
        await place.services.events.append_batch(*place.at, [said("x")] * count)

    assert caught.value.loc == ("events",)
    assert "200" in caught.value.message or "at least 1" in caught.value.message
    assert await place.bodies() == []


async def test_a_batch_of_200_keeps_its_order(place: Place) -> None:
    made = await place.services.events.append_batch(*place.at, [said(str(n)) for n in range(200)])

    assert [event.sequence_id for event in made] == list(range(1, 201))
    assert await place.bodies(offset=150, limit=2) == ['{"content":"150"}', '{"content":"151"}']


async def test_pages_and_the_newest_are_in_sequence_order(place: Place) -> None:
    await place.append(*"abcdef")

    assert await place.bodies(offset=4) == ['{"content":"e"}', '{"content":"f"}']
    newest, total = await place.services.events.last(*place.at, 2)
    assert [event.sequence_id for event in newest] == [5, 6]
    assert total == 6
    before = await place.services.events.page_back(*place.at, before=3, limit=5)
    assert [event.sequence_id for event in before] == [1, 2]


async def test_events_of_one_type_are_counted_and_paged_alone(place: Place) -> None:
    await place.append("a", "b", type_="note")
    await place.append("c", type_="message")
    await place.append("d", type_="note")

    found, total = await place.services.events.page(*place.at, event_type="note", offset=1, limit=5)
    newest, _ = await place.services.events.last(*place.at, 1, event_type="note")

    assert [event.sequence_id for event in found] == [2, 4]
    assert total == 3
    assert [event.sequence_id for event in newest] == [4]


@pytest.mark.parametrize("odd", ["note", "\0"])
async def test_a_page_by_type_is_right_however_the_types_came_about(place: Place, odd: str) -> None:
    async def notes(offset: int = 0) -> tuple[list[int], int]:
        found, total = await place.services.events.page(*place.at, event_type=odd, offset=offset)
        newest, same_total = await place.services.events.last(*place.at, 100, event_type=odd)
        assert same_total == total
        assert [event.sequence_id for event in newest][offset:] == [event.sequence_id for event in found]
        return [event.sequence_id for event in found], total

    assert await notes() == ([], 0)
    await place.append("a", "b", "c", type_=odd)
    assert await notes(1) == ([2, 3], 3)
    await place.services.events.delete(*place.at, 1)
    assert await notes(1) == ([3], 2)
    await place.services.events.patch(*place.at, [EventChange(2, type="other")])
    assert await notes() == ([3], 1)
    await asyncio.gather(place.append("d", type_=odd), place.append("e"), place.append("f", type_=odd))
    assert (await notes())[1] == 3


async def test_a_page_by_type_of_events_without_one_is_empty(place: Place) -> None:
    await place.append("a", "b")

    assert await place.services.events.page(*place.at, event_type="note") == ([], 0)
    assert (await place.services.events.page(*place.at, offset=1))[1] == 2


async def test_a_deleted_event_is_gone_and_its_number_stays_used(place: Place) -> None:
    await place.append("a", "b", "c")

    await place.services.events.delete(*place.at, 2)

    assert await place.bodies() == ['{"content":"a"}', '{"content":"c"}']
    assert await place.bodies(offset=1) == ['{"content":"c"}']
    assert (await place.services.events.page(*place.at))[1] == 2
    assert await place.append("d") == [4]
    with pytest.raises(NotFound):
        await place.services.events.delete(*place.at, 2)
    with pytest.raises(NotFound):
        await place.services.events.patch(*place.at, [EventChange(2, type="x")])


async def test_a_patch_gives_a_new_token_and_a_stale_one_changes_nothing(place: Place) -> None:
    (made,) = await place.services.events.append(*place.at, [said("first", "note")])

    (changed,) = await place.services.events.patch(
        *place.at, [EventChange(1, body='{"content":"second"}', content="second", token=made.created_at)]
    )
    with pytest.raises(StaleEvent, match=r"^Patch of incorrect version of event 1"):
        await place.services.events.patch(*place.at, [EventChange(1, body="{}", token=made.created_at)])

    assert changed.created_at > made.created_at
    assert (changed.type, changed.emitter_id) == ("note", "ann")
    assert await place.bodies() == ['{"content":"second"}']


async def test_two_patches_within_one_tick_give_two_tokens(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = clock.now()
    monkeypatch.setattr(clock, "now", lambda: frozen)
    (made,) = await place.services.events.append(*place.at, [said("a")])

    tokens = [made.created_at]
    for _ in range(3):
        (changed,) = await place.services.events.patch(*place.at, [EventChange(1, type="x", token=tokens[-1])])
        tokens.append(changed.created_at)

    assert tokens == [frozen, frozen + 1, frozen + 2, frozen + 3]


async def test_of_twenty_writers_with_one_token_exactly_one_wins(place: Place) -> None:
    (made,) = await place.services.events.append(*place.at, [said("a")])

    answers = await asyncio.gather(
        *[
            place.services.events.patch(*place.at, [EventChange(1, type=f"t{n}", token=made.created_at)])
            for n in range(20)
        ],
        return_exceptions=True,
    )

    assert sum(isinstance(answer, list) for answer in answers) == 1
    assert sum(isinstance(answer, StaleEvent) for answer in answers) == 19


async def test_a_batch_of_patches_is_undone_by_one_stale_token(place: Place) -> None:
    made = await place.services.events.append(*place.at, [said("a"), said("b")])

    with pytest.raises(StaleEvent, match="event 2"):
        await place.services.events.patch_batch(
            *place.at,
            [EventChange(1, body='{"x":1}'), EventChange(2, body='{"x":2}', token=made[1].created_at - 1)],
        )

    assert await place.bodies() == ['{"content":"a"}', '{"content":"b"}']


async def test_a_batch_names_no_event_twice(place: Place) -> None:
    await place.append("a", "b")

    with pytest.raises(Invalid, match="Event 1 is named twice") as caught:
        await place.services.events.patch_batch(*place.at, [EventChange(1, type="x"), EventChange(1, type="y")])

    assert caught.value.loc == ("events", 1, "sequenceId")


async def test_a_user_that_is_no_participant_may_not_become_the_emitter(place: Place) -> None:
    await place.append("a")

    with pytest.raises(BadRequest):
        await place.services.events.patch(*place.at, [EventChange(1, emitter_type="user", emitter_id="nobody")])

    (changed,) = await place.services.events.patch(*place.at, [EventChange(1, emitter_type="agent", emitter_id=None)])
    assert (changed.emitter_type, changed.emitter_id) == ("agent", None)


@pytest.mark.parametrize("gone", ["session", "space"])
async def test_a_deleted_session_takes_no_events_and_shows_none(place: Place, gone: str) -> None:
    await place.append("a")
    if gone == "session":
        await place.services.sessions.delete(*place.at)
    else:
        await place.services.spaces.delete(place.at[0], place.space_id)

    with pytest.raises(NotFound):
        await place.append("b")
    with pytest.raises(NotFound):
        await place.bodies()
    with pytest.raises(NotFound):
        await place.services.events.last(*place.at, 1)
    with pytest.raises(NotFound):
        await place.services.events.patch(*place.at, [EventChange(1, type="x")])
    with pytest.raises(NotFound):
        await place.services.events.delete(*place.at, 1)


async def test_text_that_no_engine_holds_comes_back_as_it_was(place: Place) -> None:
    odd = "a\0b\ud83d"
    draft = EventDraft('{"content":"x"}', "x", odd, "agent", odd)

    await place.services.events.append(*place.at, [draft])

    (found,), _ = await place.services.events.page(*place.at, event_type=odd)
    assert (found.type, found.emitter_id) == (odd, odd)


async def test_a_deleted_session_is_not_there_for_strangers_to_it_either(container: Container, place: Place) -> None:
    stranger = EventDraft("{}", None, None, "user", "eve")
    with pytest.raises(BadRequest, match="'eve' is not one of the session's participants"):
        await container.events.append(*place.at, [stranger])
    await container.sessions.delete(*place.at)

    with pytest.raises(NotFound):
        await container.events.append(*place.at, [stranger])


async def test_no_event_is_of_the_type_of_no_letters(container: Container, place: Place) -> None:
    await place.append("without a type")

    assert await container.events.page(*place.at, event_type="") == ([], 0)
    assert await container.events.last(*place.at, 5, event_type="") == ([], 0)
