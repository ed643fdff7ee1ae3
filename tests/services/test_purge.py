"""What was deleted is removed for good after the operator's retention, a few rows at a time, on both engines."""

import itertools
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, literal_column, select, table

from tests.passing_time import At, message, seconds_from_now, work_at
from threadkeep import clock
from threadkeep.domain.interrupt import InterruptDraft
from threadkeep.domain.job import PURGE
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.services.purge import Purge
from threadkeep.storage import interrupts, purge
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import idempotency_keys, metadata

DAY = 86_400
OF_SESSIONS = ("sessions", "events", "session_counters", "participants", "jobs", "runs")
OF_RUNS = ("run_events", "interrupts")
KEYS = 3
"""Lookup keys of the first event of a session, and of its last."""
_COUNTS = {
    name: Statement(select(func.count()).select_from(metadata.tables[name]))
    for name in (*OF_SESSIONS, *OF_RUNS, "event_lookup_keys", "spaces", "idempotency_keys")
}
_SEARCHED = Statement(select(func.count()).select_from(table("session_search")), only="sqlite")


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    return alice, (await container.spaces.create(alice, SpaceDraft())).id


@pytest.fixture
async def purging(container: Container) -> Container:
    """The services, with the job of the purge in place."""
    await container.jobs.prepare(clock.now())
    return container


async def make(container: Container, at: At, events: int) -> str:
    keep = (Strategy("soft_delete", "never", True),)
    session = (await container.sessions.create(*at, SessionDraft(("p", "q"), "described", strategies=keep))).id
    drafts = [message()] * events
    for edge in {0, events - 1} if events else ():
        drafts[edge] = replace(message(), lookup_keys=tuple(f"{session} {edge} {n}" for n in range(KEYS)))
    for start in range(0, events, 200):
        await container.events.append(*at, session, drafts[start : start + 200])
    run = await container.runs.begin(*at, session, run_id=session, parent_run_id=None, owner="o", lease_seconds=1)
    await container.run_log.append(run, 0, [b"a"])
    await container.database.write(lambda: interrupts.put(run.key, [InterruptDraft("i", "{}")], clock.now()))
    return session


async def count(container: Container, name: str) -> int:
    rows = await container.database.read(lambda: (yield _COUNTS[name], {}))
    return int(rows[0][0])


async def counts(container: Container, *names: str) -> list[int]:
    return [await count(container, name) for name in names]


async def searched(container: Container) -> int:
    """Rows of the trigram table, which only SQLite has."""
    rows = await container.database.read(lambda: (yield _SEARCHED, {}))
    return int(rows[0][0]) if rows else 0


async def test_a_deleted_session_stays_for_the_retention_and_then_goes_with_all_of_it(
    purging: Container, at: At
) -> None:
    gone, kept = await make(purging, at, 3), await make(purging, at, 2)
    await purging.sessions.delete(*at, gone)

    await work_at(purging, seconds_from_now(30 * DAY - 60))
    assert await counts(purging, "sessions", "events", "runs") == [2, 5, 2]
    await work_at(purging, seconds_from_now(30 * DAY + 1))

    assert await counts(purging, *OF_SESSIONS, *OF_RUNS, "event_lookup_keys") == [1, 2, 1, 2, 2, 1, 1, 1, 2 * KEYS]
    assert (await purging.events.page(*at, kept))[1] == 2


async def test_a_deleted_space_goes_with_all_in_it_in_steps_that_can_stop_anywhere(
    purging: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "ROWS", 7)
    other = (at[0], (await purging.spaces.create(at[0], SpaceDraft())).id)
    await make(purging, other, 4)
    for events in (0, 30, 5, 7):
        await make(purging, at, events)
    await purging.spaces.delete(*at)
    late = seconds_from_now(31 * DAY)

    left = [await count(purging, "events")]
    while True:
        (job,) = await purging.jobs.claim("w", [PURGE], late, limit=1)
        await purging.purge.run(job, late)
        left.append(await count(purging, "events"))
        if not await purging.jobs.claim("peek", [PURGE], late, limit=1):
            break
        late = late + 31_000_000

    assert left[0] == 46
    assert max(before - after for before, after in itertools.pairwise(left)) <= 7
    assert await counts(purging, *OF_SESSIONS, "event_lookup_keys", "spaces") == [1, 4, 1, 2, 2, 1, 2 * KEYS, 1]
    assert await counts(purging, *OF_RUNS) == [1, 1]
    assert await searched(purging) in (0, 1)


async def test_a_single_event_goes_and_its_number_is_never_given_out_again(purging: Container, at: At) -> None:
    session = await make(purging, at, 3)
    await purging.events.delete(*at, session, 3)
    await purging.events.delete(*at, session, 1)

    await work_at(purging, seconds_from_now(30 * DAY + 1))

    assert await count(purging, "events") == 1
    (made,) = await purging.events.append(*at, session, [message()])
    assert made.sequence_id == 4
    found, total = await purging.events.page(*at, session)
    assert ([event.sequence_id for event in found], total) == ([2, 4], 2)


async def test_with_0_days_what_was_deleted_stays(purging: Container, at: At) -> None:
    session = await make(purging, at, 3)
    await purging.sessions.delete(*at, session)
    keeping = replace(purging, purge=Purge(purging.database, after_days=0))

    await work_at(keeping, seconds_from_now(10_000 * DAY))

    assert await counts(purging, "sessions", "events") == [1, 3]


async def test_kept_answers_go_after_a_day_whatever_the_retention(purging: Container) -> None:
    now = clock.now()
    add = Statement(
        insert(idempotency_keys).values(
            space_id=literal_column("''"),
            user_id=literal_column("'u'"),
            idempotency_key=literal_column("'k'"),
            fingerprint=literal_column("'f'"),
            answer=literal_column("'a'"),
            created_at=literal_column(str(now)),
        )
    )
    await purging.database.write(lambda: (yield add, {}))
    keeping = replace(purging, purge=Purge(purging.database, after_days=0))

    await work_at(keeping, now + (DAY - 61) * 1_000_000)
    assert await count(purging, "idempotency_keys") == 1
    await work_at(keeping, now + DAY * 1_000_000)

    assert await count(purging, "idempotency_keys") == 0
