"""What is written in the name of a run, before and after the run has become somebody else's, on both engines."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from threadkeep.domain.event import EventChange, EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import LeaseLost
from threadkeep.services.container import Container
from threadkeep.services.events import Events
from threadkeep.storage import runs as stored_runs
from threadkeep.storage.statement import Steps

At = tuple[Principal, str, str]


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    space = await container.spaces.create(alice, SpaceDraft())
    return alice, space.id, (await container.sessions.create(alice, space.id, SessionDraft(("p",)))).id


@pytest.fixture
async def run(container: Container, at: At) -> Run:
    return await container.runs.begin(*at, run_id="r\ud83d1", parent_run_id=None, owner="asleep", lease_seconds=60)


def draft(text: str) -> EventDraft:
    return EventDraft(f'"{text}"', None, "message", "agent", None)


async def bodies(container: Container, at: At) -> list[str]:
    found, _ = await container.events.page(*at)
    return [event.body for event in found]


async def append(events: Events, at: At) -> None:
    await events.append(*at, [draft("new")])


async def patch(events: Events, at: At) -> None:
    (present, *_), _ = await events.page(*at)
    await events.patch(*at, [EventChange(present.sequence_id, '"changed"')])


async def patch_and_append(events: Events, at: At) -> None:
    (present, *_), _ = await events.page(*at)
    change = EventChange(present.sequence_id, '"changed"')
    await events.patch_and_append(*at, [change], [draft("new")])


async def delete(events: Events, at: At) -> None:
    await events.delete(*at, 1)


WRITES: dict[str, tuple[Callable[[Events, At], Awaitable[None]], list[str]]] = {
    "append": (append, ['"old"', '"new"']),
    "patch": (patch, ['"changed"']),
    "patch_and_append": (patch_and_append, ['"changed"', '"new"']),
    "delete": (delete, []),
}


@pytest.mark.parametrize("name", WRITES)
async def test_the_owner_of_a_run_writes_and_whoever_had_it_before_does_not(
    container: Container, at: At, run: Run, name: str
) -> None:
    write, after = WRITES[name]
    await container.events.append(*at, [draft("old")])
    await container.runs.renew("asleep", -1)
    (found,) = await container.runs.expired()
    assert await container.runs.take_over(found, "awake", 60)

    with pytest.raises(LeaseLost, match="is not held by 'asleep' any more"):
        await write(container.events_behind(run.fence), at)
    assert await bodies(container, at) == ['"old"']
    await write(container.events_behind(replace(run, owner="awake").fence), at)
    assert await bodies(container, at) == after


async def test_a_run_that_has_ended_writes_nothing_more(container: Container, at: At, run: Run) -> None:
    events = container.events_behind(run.fence)
    await append(events, at)
    assert await container.runs.finish(run, status="finished")
    with pytest.raises(LeaseLost):
        await append(events, at)
    assert await bodies(container, at) == ['"new"']


async def test_a_lease_that_has_run_out_is_held_until_somebody_takes_it(container: Container, at: At, run: Run) -> None:
    await container.runs.renew("asleep", -1)
    await append(container.events_behind(run.fence), at)
    assert await bodies(container, at) == ['"new"']


async def test_whoever_takes_a_run_over_sees_all_that_was_written_before_and_nothing_comes_after(
    container: Container, at: At, run: Run
) -> None:
    """The two race, as often as it takes to meet in the middle: never is a write behind the taking over."""
    events, owner = container.events_behind(run.fence), run.owner
    for attempt in range(30):
        current = replace(run, owner=owner)
        held = container.events_behind(current.fence)

        def take(seen: Run = current, new: str = f"o{attempt}") -> Steps[bool]:
            return (yield from stored_runs.take_over(seen, new, seen.lease_until))

        writes = [held.append(*at, [draft("new")]) for _ in range(4)]
        answers = asyncio.gather(*writes, return_exceptions=True)
        await asyncio.sleep(0)
        assert await container.database.write(take)
        written = len(await bodies(container, at))
        for answer in await answers:
            assert isinstance(answer, LeaseLost | list), answer
        assert len(await bodies(container, at)) == written
        owner = f"o{attempt}"
    with pytest.raises(LeaseLost):
        await append(events, at)


async def test_writes_in_nobodys_name_know_no_fence(container: Container, at: At, run: Run) -> None:
    assert await container.runs.finish(run, status="finished")
    await append(container.events, at)
    assert await bodies(container, at) == ['"new"']
