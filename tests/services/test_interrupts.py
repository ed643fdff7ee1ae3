"""Interrupts that are kept, answered once and cancelled once, on both engines."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.services.run_stage import At, a_session
from threadkeep import clock
from threadkeep.domain.interrupt import drafts_of
from threadkeep.domain.resume import Answers, read_answers
from threadkeep.domain.run import Run
from threadkeep.errors import (
    Conflict,
    InterruptAnswered,
    InterruptExpired,
    InterruptsChanged,
    InterruptsOpen,
    Invalid,
    NotFound,
    RunActive,
)
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.storage import interrupts

LONG_AGO = "2020-01-01T00:00:00Z"


class Thread:
    """One thread and what its clients and agents do."""

    def __init__(self, container: Container, at: At) -> None:
        self.container = container
        self.at = at

    async def begin(self, run: str, *said: tuple[str, str], parent: str | None = None, **options: Any) -> Run:
        answers = Answers(dict(said), **{"may_leave": False, **options})
        seen = await self.container.interrupts.preview(*self.at, answers, run_id=run, parent_run_id=parent)
        return await self.container.runs.begin(
            *self.at, run_id=run, parent_run_id=parent, owner="o", lease_seconds=60, answers=answers, seen=seen
        )

    async def end(self, run: Run, *asked: Any, **options: Any) -> bool:
        said = [each if isinstance(each, dict) else {"id": each} for each in asked]
        options = {"status": "finished", **options}
        return await self.container.runs.finish(run, interrupts=drafts_of(said, run.run_id), **options)

    async def asks(self, run: str, *asked: Any, parent: str | None = None) -> None:
        assert await self.end(await self.begin(run, parent=parent), *asked)

    async def states(self) -> list[tuple[str, str, str, str | None]]:
        now = clock.now()
        return [
            (each.run_id, each.interrupt_id, each.state(now), each.ended_by)
            for each in await self.container.interrupts.page(*self.at)
        ]


@pytest.fixture
async def thread(container: Container) -> Thread:
    return Thread(container, await a_session(container))


async def test_what_a_run_asks_is_kept_with_its_end_and_outlives_the_process(thread: Thread, database: str) -> None:
    odd = {"id": "i\x00\ud83d", "reason": "x", "metadata": {"b": 1, "a": [None, 12345678901234567890123]}}
    await thread.asks("r1", {"id": "i1", "expiresAt": "2999-01-01T00:00:00Z"}, odd)

    again = await Container.open(Settings(database=database))
    try:
        first, second = await again.interrupts.page(*thread.at)
    finally:
        await again.close()
    assert (first.interrupt_id, first.run_id, first.status, first.ended_at) == ("i1", "r1", "open", None)
    assert first.expires_at == clock.parse_timestamp("2999-01-01T00:00:00Z")
    assert second.interrupt_id == "i\x00\ud83d"
    assert second.payload == (
        '{"id": "i\\u0000\\ud83d", "reason": "x", "metadata": {"b": 1, "a": [null, 12345678901234567890123]}}'
    )


async def test_a_run_that_lost_its_lease_asks_nothing(thread: Thread) -> None:
    run = await thread.begin("r1")
    assert await thread.container.runs.take_over(run, "other", 60)
    assert not await thread.end(run, "i1")
    assert await thread.states() == []


async def test_a_run_that_answers_all_of_them_begins_and_they_are_answered(thread: Thread) -> None:
    await thread.asks("r1", "i1", "i2")
    await thread.begin("r2", ("i1", "resolved"), ("i2", "cancelled"))
    assert await thread.states() == [("r1", "i1", "resolved", "r2"), ("r1", "i2", "cancelled", "r2")]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ([("i1", "resolved")], Invalid),
        ([], InterruptsOpen),
        ([("i1", "resolved"), ("i2", "resolved"), ("late", "resolved")], InterruptExpired),
    ],
)
async def test_a_run_whose_answers_will_not_do_is_no_run(
    thread: Thread, said: Sequence[tuple[str, str]], error: type[Exception]
) -> None:
    await thread.asks("r1", "i1", "i2", {"id": "late", "expiresAt": LONG_AGO})
    answers = Answers(dict(said), may_leave=False)
    with pytest.raises(error):
        await thread.begin("r2", *said)
    with pytest.raises(error):
        await thread.container.runs.begin(
            *thread.at, run_id="r2", parent_run_id=None, owner="o", lease_seconds=60, answers=answers
        )
    assert [run.run_id for run in await thread.container.runs.page(*thread.at)] == ["r1"]
    assert [state for _, _, state, _ in await thread.states()] == ["open", "open", "expired"]


async def test_of_many_devices_that_answer_at_once_one_does(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    answers = await asyncio.gather(
        *[thread.begin(f"r{n}", ("i1", "resolved")) for n in range(2, 12)], return_exceptions=True
    )
    (won,) = [answer for answer in answers if isinstance(answer, Run)]
    lost = [answer for answer in answers if isinstance(answer, RunActive | InterruptAnswered)]
    assert len(lost) == 9
    assert {error.run_id for error in lost} == {won.run_id}
    assert await thread.states() == [("r1", "i1", "resolved", won.run_id)]


async def test_who_answers_late_is_told_which_run_did_it(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    assert await thread.end(await thread.begin("r2", ("i1", "resolved")))
    for said in ("resolved", "cancelled"):
        with pytest.raises(InterruptAnswered, match="'i1' was resolved by the run 'r2'"):
            await thread.begin("r3", ("i1", said))


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ({"status": "errored", "error": "503"}, "open"),
        ({"status": "interrupted", "error": "The process that ran it has gone"}, "open"),
        ({"status": "interrupted", "outcome": {"type": "cancelled"}}, "resolved"),
        ({"status": "finished"}, "resolved"),
    ],
)
async def test_what_a_run_that_failed_has_answered_is_open_again(
    thread: Thread, ending: dict[str, Any], state: str
) -> None:
    await thread.asks("r1", "i1")
    await thread.end(await thread.begin("r2", ("i1", "resolved")), **ending)
    assert await thread.states() == [("r1", "i1", state, None if state == "open" else "r2")]
    if state == "open":
        await thread.begin("r3", ("i1", "cancelled"))
        assert await thread.states() == [("r1", "i1", "cancelled", "r3")]


async def test_only_what_the_failed_run_itself_answered_is_open_again(thread: Thread) -> None:
    await thread.asks("r1", "i0")
    assert await thread.end(await thread.begin("r2", ("i0", "resolved")), "i1", "i2")
    assert await thread.container.interrupts.cancel(*thread.at, "i2")
    await thread.end(await thread.begin("r3", ("i1", "resolved")), status="errored")
    # What was cancelled stays so, and its agent is told with the next run.
    assert await thread.states() == [
        ("r2", "i1", "open", None),
        ("r2", "i2", "cancelled", None),
        ("r1", "i0", "resolved", "r2"),
    ]
    await thread.begin("r4", ("i1", "resolved"))
    assert (await thread.states())[:2] == [("r2", "i1", "resolved", "r4"), ("r2", "i2", "cancelled", "r4")]


async def test_one_is_cancelled_without_a_run_once_and_told_with_the_next(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    assert await thread.container.interrupts.cancel(*thread.at, "i1")
    assert not await thread.container.interrupts.cancel(*thread.at, "i1")
    assert await thread.states() == [("r1", "i1", "cancelled", None)]
    (settled,) = await thread.container.interrupts.preview(*thread.at, Answers({}, may_leave=False), run_id="r9")
    assert (settled.interrupt.interrupt_id, settled.is_told) == ("i1", True)
    await thread.end(await thread.begin("r2"))
    assert await thread.states() == [("r1", "i1", "cancelled", "r2")]
    assert await thread.container.interrupts.preview(*thread.at, Answers({}, may_leave=False), run_id="r9") == []


async def test_a_cancel_and_an_answer_at_once_are_one_of_them(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    cancelled, begun = await asyncio.gather(
        thread.container.interrupts.cancel(*thread.at, "i1"),
        thread.begin("r2", ("i1", "resolved")),
        return_exceptions=True,
    )
    assert isinstance(begun, Run) is not cancelled
    expected = ("cancelled", None) if cancelled else ("resolved", "r2")
    assert await thread.states() == [("r1", "i1", *expected)]


async def test_what_changes_between_the_preview_and_the_run_stops_the_run(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    answers = Answers({}, may_leave=True)
    for seen, change in (
        ([], False),
        (await thread.container.interrupts.preview(*thread.at, answers, run_id="r3"), True),
    ):
        if change:
            await thread.begin("r2", ("i1", "resolved"))
            await thread.end((await thread.container.runs.page(*thread.at))[0])
        with pytest.raises(Conflict, match="have changed in this moment; try again"):
            await thread.container.runs.begin(
                *thread.at, run_id="r3", parent_run_id=None, owner="o", lease_seconds=60, answers=answers, seen=seen
            )


async def test_what_was_read_before_somebody_else_ended_it_is_not_ended_again(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    (stale,) = await thread.container.interrupts.page(*thread.at)
    run = await thread.begin("r2", ("i1", "cancelled"))
    settled = await thread.container.database.write(lambda: interrupts.settle(run, stale, "resolved"))
    assert not settled
    (cancelled,) = await thread.container.interrupts.page(*thread.at)
    settled = await thread.container.database.write(lambda: interrupts.settle(run, cancelled, "resolved"))
    assert not settled
    assert await thread.states() == [("r1", "i1", "cancelled", "r2")]


async def test_an_id_that_a_later_run_uses_again_is_another_question(thread: Thread) -> None:
    await thread.asks("r1", "i1", "i1")
    await thread.end(await thread.begin("r2", ("i1", "cancelled")), "i1")
    await thread.begin("r3", ("i1", "resolved"))
    assert await thread.states() == [("r2", "i1", "resolved", "r3"), ("r1", "i1", "cancelled", "r2")]


async def test_what_waits_on_another_branch_is_not_in_the_way(thread: Thread) -> None:
    await thread.asks("r1")
    await thread.asks("r2", "i1", parent="r1")
    await thread.asks("r3", parent="r1")
    with pytest.raises(InterruptsOpen):
        await thread.begin("r4", parent="r2")
    with pytest.raises(InterruptsOpen):
        await thread.begin("r4")
    await thread.end(await thread.begin("r4", ("i1", "resolved"), parent="r2"))
    assert (await thread.states()) == [("r2", "i1", "resolved", "r4")]


async def test_an_answer_counts_from_another_branch_too(thread: Thread) -> None:
    await thread.asks("r1")
    await thread.asks("r2", "i1", parent="r1")
    await thread.begin("r3", ("i1", "cancelled"), parent="r1")
    assert (await thread.states()) == [("r2", "i1", "cancelled", "r3")]


async def test_the_list_has_those_that_can_be_answered_first_and_pages(thread: Thread) -> None:
    await thread.asks("r1", "a1", {"id": "late", "expiresAt": LONG_AGO})
    await thread.end(await thread.begin("r2", ("a1", "resolved")), "b1", "b2")
    assert [each[1:3] for each in await thread.states()] == [
        ("b1", "open"),
        ("b2", "open"),
        ("a1", "resolved"),
        ("late", "cancelled"),
    ]
    await thread.asks("r3", "c1", parent="r1")
    await thread.begin("r4", ("c1", "resolved"), parent="r3")
    assert [each[1:3] for each in await thread.states()][:3] == [("b1", "open"), ("b2", "open"), ("c1", "resolved")]
    page = await thread.container.interrupts.page(*thread.at, offset=1, limit=3)
    assert [each.interrupt_id for each in page] == ["b2", "c1", "a1"]


async def test_interrupts_of_somebody_else_are_not_there(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    bob = await thread.container.tokens.local_principal("bob")
    at = (bob, *thread.at[1:])
    for call in (
        thread.container.interrupts.page(*at),
        thread.container.interrupts.cancel(*at, "i1"),
        thread.container.interrupts.preview(*at, read_answers({}, "block"), run_id="r9"),
    ):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(NotFound, match="no interrupt 'i2' in this thread"):
        await thread.container.interrupts.cancel(*thread.at, "i2")


async def test_a_run_without_answers_to_give_touches_none(thread: Thread) -> None:
    """As library users do who have no interrupts of the service's."""
    await thread.asks("r1", "i1")
    await thread.container.runs.begin(*thread.at, run_id="r2", parent_run_id=None, owner="o", lease_seconds=60)
    assert await thread.states() == [("r1", "i1", "open", None)]


async def queued(thread: Thread, run: str, *said: tuple[str, str], parent: str | None = None) -> tuple[Run, Answers]:
    """A run in line behind an active one, and what it answers."""
    answers = Answers(dict(said), may_leave=not said)
    seen = await thread.container.interrupts.preview(*thread.at, answers, run_id=run, parent_run_id=parent)
    begun = await thread.container.runs.begin(
        *thread.at,
        run_id=run,
        parent_run_id=parent,
        owner="o",
        lease_seconds=60,
        queue=True,
        answers=answers,
        seen=seen,
    )
    assert begun.status == "queued"
    return begun, answers


async def test_a_run_in_line_settles_what_was_asked_meanwhile_when_its_turn_comes(thread: Thread) -> None:
    active = await thread.begin("r1")
    waiting, answers = await queued(thread, "r2")
    promote = thread.container.runs.promote
    assert not await promote(waiting, answers=answers)
    await thread.end(active, "i1")
    with pytest.raises(InterruptsOpen):
        await promote(waiting, answers=Answers({}, may_leave=False))
    with pytest.raises(InterruptsChanged):
        await promote(waiting, answers=answers)
    assert [run.status for run in await thread.container.runs.page(*thread.at)] == ["queued", "finished"]
    seen = await thread.container.interrupts.preview(*thread.at, answers, run_id="r2")
    assert await promote(waiting, answers=answers, seen=seen)
    assert await thread.states() == [("r1", "i1", "cancelled", "r2")]
    (asked,) = await thread.container.interrupts.page(*thread.at)
    assert asked.ended_at is not None
    assert asked.ended_at >= asked.created_at
    await thread.end(waiting, status="errored")
    assert await thread.states() == [("r1", "i1", "open", None)], "it may be answered again"


async def test_what_a_run_in_line_has_answered_stays_answered_when_its_turn_comes(thread: Thread) -> None:
    await thread.end(await thread.begin("r0"))
    await thread.asks("r1", "i1", "i2")
    active = await thread.begin("r2", parent="r0")
    waiting, answers = await queued(thread, "r3", ("i1", "resolved"), ("i2", "cancelled"), parent="r1")
    answered = [("r1", "i1", "resolved", "r3"), ("r1", "i2", "cancelled", "r3")]
    assert await thread.states() == answered
    await thread.end(active, "on another branch")
    assert await thread.container.runs.promote(waiting, answers=answers)
    assert await thread.states() == [("r2", "on another branch", "open", None), *answered]


async def test_what_a_run_was_to_tell_its_agent_is_known_again(thread: Thread) -> None:
    await thread.asks("r1", "i1")
    assert await thread.container.interrupts.cancel(*thread.at, "i1")
    await thread.begin("r2")
    for run, told in (("r2", [("i1", True)]), ("r3", [])):
        seen = await thread.container.interrupts.preview(*thread.at, Answers({}), run_id=run)
        assert [(each.interrupt.interrupt_id, each.is_told) for each in seen] == told
