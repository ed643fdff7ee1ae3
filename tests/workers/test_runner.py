"""Workers: many on one database, killed at any point, failing, and stopping when they are asked to."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import select

from tests.passing_time import At, is_there, message, queued, seconds_from_now, work_at
from threadkeep import clock
from threadkeep.domain.job import EXTRACTION, LIFECYCLE, PURGE, Job
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import LeaseLost, Unavailable
from threadkeep.services.container import Container
from threadkeep.services.jobs import LEASE_SECONDS
from threadkeep.settings import Settings
from threadkeep.storage import jobs as queue
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import jobs
from threadkeep.workers.runner import Runner, runner_of, working

_ERRORS = Statement(select(jobs.c.attempts, jobs.c.error).where(jobs.c.kind == "lifecycle"))


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    return alice, (await container.spaces.create(alice, SpaceDraft())).id


async def make(container: Container, at: At, ttl: int = 60, *more: Strategy) -> str:
    strategies = (Strategy("soft_delete", "ttl", ttl), *more)
    return (await container.sessions.create(*at, SessionDraft(("p",), strategies=strategies))).id


async def test_two_workers_on_one_database_run_each_due_strategy_once(
    container: Container, at: At, database: str
) -> None:
    extraction = Strategy("extract_memories", "ttl", 30)
    sessions = [await make(container, at, 60, extraction) for _ in range(40)]
    for session in sessions:
        await container.events.append(*at, session, [message()])
    ran: Counter[tuple[str, str]] = Counter()
    claimed: set[str] = set()
    late = seconds_from_now(61)
    other = await Container.open(Settings(database=database))

    def worker(of: Container) -> Runner:
        async def run(job: Job, now: int) -> None:
            claimed.add(job.worker)
            ran.update((job.session_id, type_) for type_ in await of.lifecycle.run(job, now))

        return Runner(of.jobs, {LIFECYCLE: run})

    async def work(runner: Runner) -> None:
        while await runner.run_due(late):
            pass

    try:
        await asyncio.gather(*[work(worker(of)) for of in (container, other, container, other)])
    finally:
        await other.close()

    assert ran == Counter(
        {(session, type_): 1 for session in sessions for type_ in ("extract_memories", "soft_delete")}
    )
    assert len(claimed) > 1
    assert len(await queued(container, EXTRACTION)) == 40
    assert not any([await is_there(container, at, session) for session in sessions])


async def test_a_worker_killed_between_claim_and_act_loses_nothing(container: Container, at: At) -> None:
    session = await make(container, at)
    late = seconds_from_now(61)
    (lost,) = await container.jobs.claim("killed", [LIFECYCLE], late, limit=1)

    await work_at(container, lost.until - 1)
    assert await is_there(container, at, session)
    await work_at(container, lost.until)

    assert lost.until == late + LEASE_SECONDS * 1_000_000
    assert not await is_there(container, at, session)


async def test_of_many_claims_of_one_job_one_gets_it(container: Container, at: At) -> None:
    await make(container, at)
    late = seconds_from_now(61)

    claims = await asyncio.gather(*[container.jobs.claim(f"w{n}", [LIFECYCLE], late, limit=5) for n in range(10)])

    assert sorted(map(len, claims)) == [0] * 9 + [1]


async def test_jobs_of_a_kind_that_nobody_handles_wait_out_of_the_way(container: Container, at: At) -> None:
    extraction = Strategy("extract_memories", "eventCount", 1)
    for _ in range(20):
        session = await make(container, at, 10**6, extraction)
        await container.events.append(*at, session, [message()])
    await work_at(container, clock.now())

    assert len(await queued(container, EXTRACTION)) == 20
    assert await container.jobs.claim("w", [LIFECYCLE], seconds_from_now(1), limit=50) == []
    assert len(await container.jobs.claim("w", [EXTRACTION], seconds_from_now(1), limit=50)) == 20


async def test_a_job_that_fails_is_told_without_its_words_and_tried_again_later(
    container: Container, at: At, caplog: pytest.LogCaptureFixture
) -> None:
    session = await make(container, at)
    late = seconds_from_now(61)
    attempts: list[int] = []

    async def fail(job: Job, now: int) -> None:
        attempts.append(job.attempts)
        raise ValueError("what somebody said")

    failing = Runner(container.jobs, {LIFECYCLE: fail}, name="w")
    for seconds in (0, 1, 2, 5, 6):
        await failing.run_due(late + seconds * 1_000_000)

    assert attempts == [1, 2, 3]
    rows = await container.database.read(lambda: (yield _ERRORS, {}))
    assert [tuple(row) for row in rows] == [(3, "ValueError")]
    assert f"failed at a lifecycle job, attempt 3, session {session}: ValueError" in caplog.text
    assert "what somebody said" not in caplog.text
    await work_at(container, late + 14 * 1_000_000)
    assert not await is_there(container, at, session)


@pytest.mark.parametrize("error", [Unavailable("no answer"), LeaseLost("another worker has it")])
async def test_one_job_that_cannot_end_does_not_stop_the_others(
    container: Container, at: At, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = [await make(container, at) for _ in range(3)]
    late = seconds_from_now(61)

    async def run(job: Job, now: int) -> None:
        if job.session_id == sessions[0]:
            raise error
        await container.lifecycle.run(job, now)

    await Runner(container.jobs, {LIFECYCLE: run}).run_due(late)

    assert [await is_there(container, at, session) for session in sessions] == [True, False, False]
    assert str(error) in caplog.text


async def test_a_worker_that_is_asked_to_stop_ends_what_it_began_and_gives_back_the_rest(
    container: Container, at: At
) -> None:
    sessions = [await make(container, at) for _ in range(10)]
    late = seconds_from_now(61)

    async def run(job: Job, now: int) -> None:
        stopped.stop()
        await container.lifecycle.run(job, now)

    stopped = Runner(container.jobs, {LIFECYCLE: run})
    assert await stopped.run_due(late) == 10
    left = [session for session in sessions if await is_there(container, at, session)]

    assert 0 < len(left) < 10
    assert len(await container.jobs.claim("next", [LIFECYCLE], late, limit=20)) == len(left)
    await asyncio.wait_for(stopped.run(), 30)


async def test_a_worker_works_beside_the_rest_of_a_process_and_prepares_the_purge(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.workers.runner._POLL_SECONDS", (0, 0))
    session = await make(container, at)
    now = clock.now()
    monkeypatch.setattr("threadkeep.workers.runner.clock.now", lambda: now + 61_000_000)

    async with working(container):
        while await is_there(container, at, session):
            await asyncio.to_thread(lambda: None)

    assert list(await queued(container, PURGE)) == [""]


async def test_a_database_without_an_answer_is_asked_again(
    container: Container, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.workers.runner._POLL_SECONDS", (0, 0))
    runner = runner_of(container, name="w")
    claim, calls = container.jobs.claim, 0

    async def claim_at_the_third_call(*arguments: Any, **options: Any) -> list[Job]:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise Unavailable("gone for lunch")
        runner.stop()
        return await claim(*arguments, **options)

    monkeypatch.setattr(container.jobs, "claim", claim_at_the_third_call)
    with caplog.at_level(logging.WARNING):
        await runner.run()

    assert caplog.text.count("worker=w could not look for jobs: gone for lunch") == 2
    assert calls == 3


async def test_a_slow_job_keeps_a_place_and_no_other_job_waiting(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.workers.runner._POLL_SECONDS", (0, 0))
    for _ in range(6):
        await make(container, at)
    now = clock.now()
    monkeypatch.setattr("threadkeep.workers.runner.clock.now", lambda: now + 61_000_000)
    slow, finished = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def run(job: Job, at: int) -> None:
        if not slow.is_set() and not done:
            done.append("slow")
            await slow.wait()
        await container.lifecycle.run(job, at)
        done.append(job.session_id)
        if len(done) == 6:
            finished.set()

    runner = Runner(container.jobs, {LIFECYCLE: run}, claimed=2, at_once=2)
    working_ = asyncio.create_task(runner.run())
    # All but the slow one are done while it is not.
    await asyncio.wait_for(finished.wait(), 60)
    assert not slow.is_set()
    slow.set()
    runner.stop()
    await working_
    assert len(done) == 7


@pytest.mark.parametrize("is_cut_short", [True, False])
async def test_only_what_may_be_cut_short_is_given_back_in_the_middle(
    container: Container, at: At, is_cut_short: bool
) -> None:
    await make(container, at)
    late = seconds_from_now(61)
    began, gate = asyncio.Event(), asyncio.Event()
    ended: list[object] = []

    async def run(job: Job, now: int) -> None:
        began.set()
        await gate.wait()
        ended.append(await container.lifecycle.run(job, now))

    runner = Runner(container.jobs, {LIFECYCLE: run}, is_cut_short=is_cut_short)
    running = asyncio.create_task(runner.run_due(late))
    await began.wait()
    runner.stop()
    if not is_cut_short:
        gate.set()
    await running

    assert len(ended) == (0 if is_cut_short else 1)
    assert len(await container.jobs.claim("next", [LIFECYCLE], late, limit=2)) == (1 if is_cut_short else 0)


async def test_a_lease_that_is_renewed_holds_for_longer_and_keeps_that_somebody_woke_the_job(
    container: Container, at: At
) -> None:
    session = await make(container, at)
    late = seconds_from_now(61)
    (job,) = await container.jobs.claim("w", [LIFECYCLE], late, limit=1)
    until = job.until + 10_000_000
    await container.database.write(lambda: queue.wake(at[1], session, LIFECYCLE, late + 1))

    held = await container.database.write(lambda: queue.renew(job, until, late + 2))

    assert held.until == until
    assert await container.jobs.claim("other", [LIFECYCLE], job.until + 1, limit=1) == []
    with pytest.raises(LeaseLost):
        await container.database.write(lambda: queue.renew(job, until, late + 3))
    await container.database.write(lambda: queue.check(held, late + 3))
    await container.database.write(lambda: queue.finish(held, None, late + 3))
    assert len(await container.jobs.claim("other", [LIFECYCLE], late + 4, limit=1)) == 1, "it was woken meanwhile"
    with pytest.raises(LeaseLost):
        await container.database.write(lambda: queue.check(held, late + 5))
