"""A walk through the whole history of a session."""

import pytest

from tests.services.test_events import Place, new_place, said
from threadkeep.domain.event import Event, EventDraft
from threadkeep.errors import NotFound
from threadkeep.services import events
from threadkeep.services.container import Container


@pytest.fixture
async def place(container: Container) -> Place:
    return await new_place(container)


async def walked(place: Place) -> list[list[Event]]:
    return [step async for step in place.services.events.walk(*place.at)]


async def test_it_brings_every_live_event_in_order(place: Place) -> None:
    for _ in range(6):
        await place.services.events.append(
            *place.at, [said("x", "t"), EventDraft("{}", None, None, "agent", None)] * 60
        )
    for number in (1, 251, 720):
        await place.services.events.delete(*place.at, number)

    steps = await walked(place)

    assert [len(step) for step in steps] == [250, 467]
    events_ = [event for step in steps for event in step]
    assert [event.sequence_id for event in events_] == [n for n in range(1, 721) if n not in (1, 251, 720)]
    page, _ = await place.services.events.page(*place.at, limit=100)
    assert events_[:100] == page


async def test_its_steps_are_smaller_where_events_are_large(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_FIRST_STEP", 4)
    monkeypatch.setattr(events, "_STEP_BYTES", 2_500)
    await place.append(*[f"{n}" * 985 for n in range(7)])

    assert [len(step) for step in await walked(place)] == [4, 2, 1]


async def test_of_an_empty_session_it_brings_nothing(place: Place) -> None:
    assert await walked(place) == []


async def test_it_is_for_whose_session_it_is(container: Container, place: Place) -> None:
    stranger = Place(container, await container.tokens.local_principal("bob"), *place.at[1:])
    await place.append("x")

    with pytest.raises(NotFound):
        await walked(stranger)


async def test_a_session_that_is_deleted_on_the_way_ends_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_FIRST_STEP", 2)
    await place.append("a", "b", "c")
    walk = place.services.events.walk(*place.at)
    assert len(await anext(walk)) == 2

    await place.services.sessions.delete(*place.at)

    with pytest.raises(NotFound):
        await anext(walk)
