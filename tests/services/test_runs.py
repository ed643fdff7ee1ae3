"""Runs and their leases, on both engines."""

import asyncio

import pytest

from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import Conflict, NotFound, RunActive
from threadkeep.services.container import Container

At = tuple[Principal, str, str]


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    space = await container.spaces.create(alice, SpaceDraft())
    return alice, space.id, (await container.sessions.create(alice, space.id, SessionDraft(("p",)))).id


async def test_of_twenty_runs_on_one_session_exactly_one_begins(container: Container, at: At) -> None:
    answers = await asyncio.gather(
        *[
            container.runs.begin(*at, run_id=f"r{n}", parent_run_id=None, owner="o", lease_seconds=60)
            for n in range(20)
        ],
        return_exceptions=True,
    )

    (won,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    lost = [answer for answer in answers if isinstance(answer, RunActive)]
    assert {error.run_id for error in lost} == {won.run_id}
    assert len(lost) == 19


async def test_an_ended_run_makes_way_and_keeps_its_id(container: Container, at: At) -> None:
    run = await container.runs.begin(*at, run_id="r1", parent_run_id=None, owner="o", lease_seconds=60)

    assert await container.runs.finish(run, status="finished", outcome={"type": "success"}, usage=[{"inputTokens": 3}])
    assert not await container.runs.finish(run, status="errored", error="late")
    await container.runs.begin(*at, run_id="r2", parent_run_id="r1", owner="o", lease_seconds=60)
    with pytest.raises(RunActive):
        await container.runs.begin(*at, run_id="r3", parent_run_id=None, owner="o", lease_seconds=60)
    with pytest.raises(Conflict, match="'r1' of this thread has ended already"):
        await container.runs.begin(*at, run_id="r1", parent_run_id=None, owner="o", lease_seconds=60)

    second, first = await container.runs.page(*at)
    assert (second.run_id, second.parent_run_id, second.status) == ("r2", "r1", "active")
    assert (first.run_id, first.status, first.outcome, first.error) == ("r1", "finished", '{"type": "success"}', None)
    assert first.usage == '[{"inputTokens": 3}]'
    assert first.finished_at is not None


async def test_a_run_whose_owner_has_gone_is_found_and_taken_over_once(container: Container, at: At) -> None:
    held = await container.runs.begin(*at, run_id="r1", parent_run_id=None, owner="gone", lease_seconds=60)
    assert await container.runs.expired() == []
    await container.runs.renew("gone", -1)

    (lost,) = await container.runs.expired()
    wins = await asyncio.gather(*[container.runs.take_over(lost, f"rescuer {n}", 60) for n in range(5)])

    assert sorted(wins) == [False, False, False, False, True]
    assert await container.runs.expired() == []
    assert not await container.runs.finish(held, status="finished")


async def test_a_run_that_was_renewed_meanwhile_is_not_taken_over(container: Container, at: At) -> None:
    held = await container.runs.begin(*at, run_id="r1", parent_run_id=None, owner="slow", lease_seconds=-1)
    (lost,) = await container.runs.expired()

    await container.runs.renew("slow", 60)

    assert not await container.runs.take_over(lost, "rescuer", 60)
    assert await container.runs.finish(held, status="finished")


async def test_a_run_whose_lease_has_run_out_is_in_the_way_until_it_is_ended(container: Container, at: At) -> None:
    lost = await container.runs.begin(*at, run_id="r1", parent_run_id=None, owner="gone", lease_seconds=-1)
    with pytest.raises(RunActive):
        await container.runs.begin(*at, run_id="r2", parent_run_id=None, owner="o", lease_seconds=60)

    (found,) = await container.runs.expired()
    assert await container.runs.take_over(found, "rescuer", 60)
    assert not await container.runs.finish(lost, status="finished")
    (held,) = [run for run in await container.runs.page(*at) if run.owner == "rescuer"]
    assert await container.runs.finish(held, status="interrupted")
    await container.runs.begin(*at, run_id="r2", parent_run_id=None, owner="o", lease_seconds=60)

    runs = {run.run_id: run.status for run in await container.runs.page(*at)}
    assert runs == {"r1": "interrupted", "r2": "active"}


async def test_a_session_that_is_not_there_has_no_runs(container: Container, at: At) -> None:
    await container.sessions.delete(*at)

    with pytest.raises(NotFound):
        await container.runs.begin(*at, run_id="r1", parent_run_id=None, owner="o", lease_seconds=60)
    with pytest.raises(NotFound):
        await container.runs.page(*at)
