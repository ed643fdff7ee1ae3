"""Lifecycle strategies as they run, on both engines. Time is told to the workers; nothing waits."""

from typing import Any

import pytest
from sqlalchemy import select

from tests.passing_time import At, is_there, load_case, message, queued, seconds_from_now, work_at
from threadkeep import clock
from threadkeep.domain.job import EXTRACTION, LIFECYCLE
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.session import SessionChange, SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import LeaseLost, NotFound, StrategyClosed
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage import lifecycle as stored
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import sessions

KEEP = Strategy("soft_delete", "never", True)
_RAN = Statement(select(sessions.c.session_id, sessions.c.ran))


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    return alice, (await container.spaces.create(alice, SpaceDraft())).id


async def make(container: Container, at: At, *strategies: Strategy, **fields: Any) -> str:
    return (await container.sessions.create(*at, SessionDraft(("p",), strategies=strategies, **fields))).id


async def say(container: Container, at: At, session_id: str, *texts: str) -> None:
    await container.events.append(*at, session_id, [message(text) for text in texts])


async def types_that_ran(container: Container, session_id: str) -> str:
    rows = await container.database.read(lambda: (yield _RAN, {}))
    return str(next(row[1] for row in rows if row[0] == session_id))


async def change(container: Container, at: At, session_id: str, *strategies: Strategy) -> None:
    await container.sessions.patch(*at, session_id, SessionChange(strategies=strategies))


async def test_a_ttl_deletes_the_session_whole_and_frees_its_key(container: Container, at: At) -> None:
    kept = await make(container, at, Strategy("soft_delete", "ttl", 3_600))
    gone = await make(container, at, Strategy("soft_delete", "ttl", 60), deduplication_key="k")
    await say(container, at, gone, "a", "b")

    await work_at(container, seconds_from_now(50))
    assert await is_there(container, at, gone)
    await work_at(container, seconds_from_now(60))

    assert (await is_there(container, at, kept), await is_there(container, at, gone)) == (True, False)
    with pytest.raises(NotFound):
        await container.events.page(*at, gone)
    with pytest.raises(NotFound):
        await say(container, at, gone, "too late")
    assert gone not in await queued(container, LIFECYCLE)
    assert await types_that_ran(container, gone) == "soft_delete"
    await make(container, at, deduplication_key="k")


async def test_idle_counts_from_the_last_event_without_an_append_touching_the_job(container: Container, at: At) -> None:
    silent = await make(container, at, Strategy("soft_delete", "idle", 1))
    busy = await make(container, at, Strategy("soft_delete", "idle", 60))
    made_at = (await container.sessions.get(*at, busy)).created_at
    await say(container, at, busy, "a")
    last_at = (await container.events.last(*at, busy, 1))[0][0].created_at
    assert last_at > made_at

    await work_at(container, last_at + 59_999_999)
    assert (await is_there(container, at, silent), await is_there(container, at, busy)) == (False, True)
    await work_at(container, last_at + 60_000_000)

    assert not await is_there(container, at, busy)


async def test_an_event_count_deletes_at_once_when_it_is_reached(container: Container, at: At) -> None:
    session = await make(container, at, Strategy("soft_delete", "eventCount", 3))
    await say(container, at, session, "a", "b")
    await container.events.delete(*at, session, 1)
    await say(container, at, session, "c")

    await work_at(container, clock.now())
    assert await is_there(container, at, session)
    await say(container, at, session, "d")
    await work_at(container, clock.now())

    assert not await is_there(container, at, session)


async def test_never_is_never_and_a_session_without_work_is_left_alone(container: Container, at: At) -> None:
    session = await make(container, at, KEEP)
    await say(container, at, session, *"abc")

    await work_at(container, seconds_from_now(10 * 365 * 86_400))

    assert await is_there(container, at, session)


async def test_case_115_a_strategy_given_later_counts_from_the_creation_and_is_due_at_once(
    container: Container, at: At
) -> None:
    case = load_case("115-ttl-for-idle-and-existing-sessions")
    patch, clock_step, _ = case["input"]["calls"]
    ((trigger, seconds),) = patch["body"]["lifecycleStrategies"][0]["trigger"].items()
    session = await make(container, at, KEEP)
    created_at = (await container.sessions.get(*at, session)).created_at
    await say(container, at, session, "a", "b")

    await change(container, at, session, Strategy("soft_delete", trigger, seconds))
    await work_at(container, created_at + 59_000_000)
    page, _ = await container.events.page(*at, session)
    assert [event.sequence_id for event in page] == [1, 2]
    await work_at(container, created_at + clock_step["advance_clock"] * 1_000_000)

    assert not await is_there(container, at, session)


async def test_a_changed_strategy_takes_effect_from_its_own_anchor(container: Container, at: At) -> None:
    counted = await make(container, at, KEEP)
    await say(container, at, counted, "a", "b")
    await change(container, at, counted, Strategy("soft_delete", "eventCount", 2))
    put_off = await make(container, at, Strategy("soft_delete", "ttl", 60))
    await change(container, at, put_off, Strategy("soft_delete", "ttl", 600))
    waiting = await make(container, at, KEEP)
    await change(container, at, waiting, Strategy("soft_delete", "eventCount", 1))
    await say(container, at, waiting, "a")
    raised = await make(container, at, Strategy("soft_delete", "eventCount", 1))
    await change(container, at, raised, Strategy("soft_delete", "eventCount", 2))
    await say(container, at, raised, "a")

    await work_at(container, clock.now())
    assert [await is_there(container, at, one) for one in (counted, waiting, put_off, raised)] == [
        *(False, False),
        *(True, True),
    ]
    await say(container, at, raised, "b")
    await work_at(container, seconds_from_now(599))
    assert [await is_there(container, at, one) for one in (put_off, raised)] == [True, False]
    await work_at(container, seconds_from_now(601))

    assert not await is_there(container, at, put_off)


async def test_an_extraction_is_queued_with_what_it_needs_and_the_session_stays(container: Container, at: At) -> None:
    opts = '{"agentId": "a", "metadata": {"n": 1.50, "big": 100000000000000000000}}'
    session = await make(container, at, KEEP, Strategy("extract_memories", "eventCount", 2, opts))
    await say(container, at, session, "a", "b")

    await work_at(container, clock.now())

    rows = await queued(container, EXTRACTION)
    assert rows == {
        session: {
            "trigger": {"eventCount": 2},
            "opts": {"agentId": "a", "metadata": {"n": 1.5, "big": 100000000000000000000}},
            "lastSequenceId": 2,
            "isFinal": False,
        }
    }
    assert await is_there(container, at, session)


async def test_the_strategies_of_a_type_that_ran_are_closed_and_inert(container: Container, at: At) -> None:
    ran = Strategy("extract_memories", "eventCount", 1, '{"agentId":"a"}')
    session = await make(container, at, ran, KEEP)
    await say(container, at, session, "a")
    await work_at(container, clock.now())

    for strategies in (
        (KEEP,),
        (Strategy("extract_memories", "eventCount", 2, '{"agentId":"a"}'), KEEP),
        (Strategy("extract_memories", "eventCount", 1), KEEP),
        (ran, Strategy("extract_memories", "idle", 5)),
    ):
        with pytest.raises(StrategyClosed, match="extract_memories has run for this session and is closed to change"):
            await change(container, at, session, *strategies)
    assert (await container.sessions.get(*at, session)).version == 1
    same = Strategy("extract_memories", "eventCount", 1, '{ "agentId": "a" }')
    await change(container, at, session, Strategy("soft_delete", "ttl", 60), same)
    await say(container, at, session, "b")
    await work_at(container, clock.now())

    assert (await container.sessions.get(*at, session)).version == 2
    assert [row["lastSequenceId"] for row in (await queued(container, EXTRACTION)).values()] == [1]
    await work_at(container, seconds_from_now(61))
    assert not await is_there(container, at, session)


@pytest.mark.parametrize("ending", ["idle", "restart", "deleted", "expired"])
async def test_case_116_a_short_session_is_extracted_once_however_it_ends(
    container: Container, at: At, database: str, ending: str
) -> None:
    case = load_case("116-idle-trigger-short-session")
    created, batch, clock_step, _ = case["input"]["calls"]
    triggers = [dict(item["trigger"]) for item in created["lifecycleStrategies"]]
    strategies = [Strategy("extract_memories", *next(iter(trigger.items()))) for trigger in triggers]
    session = await make(
        container, at, *strategies, Strategy("soft_delete", "ttl", 200 if ending == "expired" else 10**7)
    )
    await say(container, at, session, *"ab"[: batch["body"]["events"]["n"]])

    await work_at(container, seconds_from_now(150))
    assert await queued(container, EXTRACTION) == {}
    end = seconds_from_now(201 if ending == "expired" else clock_step["advance_clock"])
    if ending == "deleted":
        await container.sessions.delete(*at, session)
    elif ending == "restart":
        other = await Container.open(Settings(database=database))
        try:
            await work_at(other, end)
        finally:
            await other.close()
    for _ in range(2):
        await work_at(container, end)

    (row,) = (await queued(container, EXTRACTION)).values()
    assert row["lastSequenceId"] == 2
    assert row["isFinal"] is (ending in ("deleted", "expired"))
    assert row["trigger"] == (triggers[0] if row["isFinal"] else triggers[1])
    assert await is_there(container, at, session) is (ending in ("idle", "restart"))


async def test_a_queued_extraction_outlives_its_session(container: Container, at: At) -> None:
    session = await make(container, at, Strategy("extract_memories", "eventCount", 1), KEEP)
    await say(container, at, session, "a")
    await work_at(container, clock.now())

    await container.sessions.delete(*at, session)

    assert [row["isFinal"] for row in (await queued(container, EXTRACTION)).values()] == [False]
    assert await queued(container, LIFECYCLE) == {}


async def test_appends_no_longer_wake_a_session_for_what_has_run(container: Container, at: At) -> None:
    session = await make(
        container, at, Strategy("extract_memories", "eventCount", 1), Strategy("soft_delete", "eventCount", 3)
    )
    await say(container, at, session, "a")
    await work_at(container, clock.now())

    await say(container, at, session, "b")
    assert await container.jobs.claim("w", [LIFECYCLE], clock.now(), limit=1) == []
    await say(container, at, session, "c")
    await work_at(container, clock.now())

    assert not await is_there(container, at, session)


async def test_at_one_moment_the_extraction_comes_before_the_deletion(container: Container, at: At) -> None:
    session = await make(
        container, at, Strategy("soft_delete", "eventCount", 1), Strategy("extract_memories", "eventCount", 1)
    )
    await say(container, at, session, "a")

    await work_at(container, clock.now())

    assert not await is_there(container, at, session)
    assert [row["isFinal"] for row in (await queued(container, EXTRACTION)).values()] == [False]


@pytest.mark.parametrize(("setting", "deleted", "expired"), [("always", 1, 1), ("expired", 0, 1), ("never", 0, 0)])
async def test_the_final_extraction_is_the_operators_choice(
    database: str, setting: str, deleted: int, expired: int
) -> None:
    container = await Container.open(Settings(database=database, final_extraction=setting))
    try:
        alice = await container.tokens.local_principal("alice")
        at = (alice, (await container.spaces.create(alice, SpaceDraft())).id)
        wanted = Strategy("extract_memories", "ttl", 10**6)
        by_caller = await make(container, at, wanted)
        by_time = await make(container, at, wanted, Strategy("soft_delete", "ttl", 60))
        empty = await make(container, at, wanted)
        unwanted = await make(container, at, Strategy("extract_memories", "never", True))
        for session in (by_caller, by_time, unwanted):
            await say(container, at, session, "a")

        for session in (by_caller, empty, unwanted):
            await container.sessions.delete(*at, session)
        await work_at(container, seconds_from_now(61))

        assert set(await queued(container, EXTRACTION)) == {*[by_caller] * deleted, *[by_time] * expired}
    finally:
        await container.close()


async def test_a_deleted_space_ends_the_lifecycle_of_its_sessions(container: Container, at: At) -> None:
    session = await make(container, at, Strategy("extract_memories", "ttl", 60))
    await say(container, at, session, "a")
    await container.spaces.delete(*at)

    await work_at(container, seconds_from_now(61))

    assert await queued(container, EXTRACTION) == {}
    assert await queued(container, LIFECYCLE) == {}


async def test_what_happens_under_a_lease_that_ran_out_is_undone(container: Container, at: At) -> None:
    session = await make(container, at, Strategy("soft_delete", "ttl", 60))
    late = seconds_from_now(61)
    (first,) = await container.jobs.claim("first", [LIFECYCLE], late, limit=1)
    with pytest.raises(LeaseLost):
        await container.lifecycle.run(first, first.until)
    (second,) = await container.jobs.claim("second", [LIFECYCLE], first.until, limit=1)

    with pytest.raises(LeaseLost, match=r"session .* is no longer 'first'"):
        await container.lifecycle.run(first, first.until - 1)
    assert await is_there(container, at, session)

    assert await container.lifecycle.run(second, first.until + 1) == ("soft_delete",)
    assert not await is_there(container, at, session)


async def test_an_append_between_the_look_and_the_end_of_a_job_is_not_missed(container: Container, at: At) -> None:
    session = await make(container, at, Strategy("soft_delete", "tokenCount", 5))
    await say(container, at, session, "one")
    (job,) = await container.jobs.claim("w", [LIFECYCLE], clock.now(), limit=1)
    # One token was counted; then come the others, while the job is still claimed.
    await say(container, at, session, "two three four five")

    ran = await container.database.write(
        lambda: stored.act(job, 1, clock.now(), is_counted=True, final_extraction=True)
    )
    assert ran == ()
    await work_at(container, clock.now())

    assert not await is_there(container, at, session)
