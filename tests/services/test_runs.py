"""Runs and their leases, on both engines."""

import asyncio
from dataclasses import replace

import pytest

from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
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


async def test_whoever_renews_hears_which_runs_are_still_theirs(container: Container, at: At) -> None:
    run = await container.runs.begin(*at, run_id="r\ud83d", parent_run_id=None, owner="mine", lease_seconds=60)
    assert await container.runs.renew("mine", -1) == {run.key}
    assert await container.runs.renew("somebody", 60) == set()
    (found,) = await container.runs.expired()
    assert await container.runs.take_over(found, "other", 60)
    assert await container.runs.renew("mine", 60) == set()
    assert await container.runs.owner_of(run.key) == "other"
    assert await container.runs.owner_of(replace(run, run_id="r2").key) is None


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


async def test_runs_wait_in_line_and_begin_one_after_the_other(container: Container, at: At) -> None:
    first, second, third = [await _queued(container, at, f"r{n}") for n in range(3)]
    assert (first.status, second.status, third.status) == ("active", "queued", "queued")
    assert [run.run_id for run in await container.runs.in_line(at[1], at[2])] == ["r1", "r2"]

    assert not await container.runs.promote(second), "one is active"
    await container.runs.finish(first, status="finished")
    assert not await container.runs.promote(third), "another was there before"
    assert await container.runs.promote(second)
    assert not await container.runs.promote(second)
    with pytest.raises(RunActive) as caught:
        await container.runs.begin(*at, run_id="r4", parent_run_id=None, owner="o", lease_seconds=60)
    assert caught.value.run_id == "r1"
    await container.runs.finish(second, status="finished")
    late = await _queued(container, at, "r5")
    assert late.status == "queued", "nobody passes those who wait"
    assert await asyncio.gather(container.runs.promote(third), container.runs.promote(late)) == [True, False]

    assert {run.run_id: run.status for run in await container.runs.page(*at)} == {
        "r0": "finished",
        "r1": "finished",
        "r2": "active",
        "r5": "queued",
    }


async def test_a_queued_run_is_known_by_its_id_and_may_end_in_line(container: Container, at: At) -> None:
    active, waiting, last = [await _queued(container, at, f"r{n}") for n in range(3)]
    with pytest.raises(RunActive) as caught:
        await _queued(container, at, "r1")
    assert caught.value.run_id == "r1"

    assert await container.runs.finish(waiting, status="interrupted", events=[b"end"], first=0)
    assert not await container.runs.promote(waiting)
    await container.runs.finish(active, status="finished")
    assert await container.runs.promote(last)


async def test_a_queued_run_whose_owner_is_gone_is_found(container: Container, at: At) -> None:
    await _queued(container, at, "r0")
    await _queued(container, at, "r1", owner="gone")
    await container.runs.renew("gone", -1)

    (lost,) = await container.runs.expired()

    assert (lost.run_id, lost.status) == ("r1", "queued")
    assert await container.runs.take_over(lost, "rescuer", 60)


async def test_a_cancel_is_wanted_by_anybody_who_has_the_session_and_told_to_the_owner(
    container: Container, at: At
) -> None:
    run = await _queued(container, at, "odd \0 id")
    stranger = (await container.tokens.local_principal("mallory"), *at[1:])
    with pytest.raises(NotFound):
        await container.runs.want_cancel(*stranger, run.run_id)
    assert await container.runs.cancels_wanted("o") == []

    async with container.bus.listen("owner/o") as news:
        assert await container.runs.want_cancel(*at, run.run_id)
        assert await news.wait(0)
    wanted_at = (await container.runs.get(*at, run.run_id)).cancel_wanted_at
    assert await container.runs.want_cancel(*at, run.run_id)

    assert wanted_at is not None
    assert (await container.runs.get(*at, run.run_id)).cancel_wanted_at == wanted_at
    assert await container.runs.cancels_wanted("o") == [run.key]
    assert await container.runs.cancels_wanted("another") == []
    await container.runs.finish(run, status="interrupted")
    assert await container.runs.cancels_wanted("o") == []
    assert not await container.runs.want_cancel(*at, run.run_id)
    assert not await container.runs.want_cancel(*at, "no such run")


async def test_a_run_keeps_its_input_and_lists_leave_it_out(container: Container, at: At) -> None:
    given = '{"threadId":"t","x":"\\ud800 \\u0000 ü"}'
    await container.runs.begin(*at, run_id="r", parent_run_id=None, owner="o", lease_seconds=60, input=given)

    assert (await container.runs.get(*at, "r")).input == given
    assert [run.input for run in await container.runs.page(*at)] == [None]
    with pytest.raises(NotFound, match="There is no run 'x' in this session"):
        await container.runs.get(*at, "x")


async def test_the_last_events_and_the_end_come_together_or_not_at_all(container: Container, at: At) -> None:
    run = await _queued(container, at, "r")
    await container.run_log.append(run, 0, [b"a"])
    wrong = await container.runs.finish(run, status="finished", events=[b"other"], first=0)
    assert not wrong, "others have written there"
    assert (await container.runs.get(*at, "r")).status == "active"

    async with container.bus.listen(f"thread/{at[1]}/{at[2]}") as news:
        for _ in range(2):
            # The second call stands for one whose first answer was lost.
            assert await container.runs.finish(run, status="finished", events=[b"a", b"b"], first=0)
        assert await news.wait(0)
    assert not await container.runs.finish(run, status="errored", events=[b"c"], first=2)

    found = [event.data for event in await container.run_log.read(run.key)]
    assert (found, (await container.runs.get(*at, "r")).status) == ([b"a", b"b"], "finished")


async def _queued(container: Container, at: At, run_id: str, owner: str = "o") -> Run:
    return await container.runs.begin(*at, run_id=run_id, parent_run_id=None, owner=owner, lease_seconds=60, queue=True)
