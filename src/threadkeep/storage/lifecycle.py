"""The lifecycle of sessions in the database: what is due is done in one transaction. Nothing here commits.

The session and its counters are locked first, as whoever patches, deletes or appends locks them. So two workers on one
session come one after the other, and the second reads what the first did; and no append slips in between the look at
the facts and the act.
"""

from dataclasses import dataclass

from sqlalchemy import bindparam, literal_column, select, update
from sqlalchemy.types import BigInteger

from threadkeep.domain import lifecycle
from threadkeep.domain.job import LIFECYCLE, Job
from threadkeep.domain.lifecycle import Facts, Strategy
from threadkeep.storage import extractions, jobs, sessions
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import session_counters, spaces
from threadkeep.storage.tables import sessions as sessions_table

_SPACE_LIVES = (
    select(literal_column("1"))
    .select_from(spaces)
    .where(spaces.c.space_id == sessions_table.c.space_id, spaces.c.deleted_at.is_(None))
    .exists()
)
_LOCK = Statement(
    select(sessions_table.c.strategies, sessions_table.c.ran, sessions_table.c.created_at)
    .where(
        sessions_table.c.space_id == bindparam("at_space"),
        sessions_table.c.session_id == bindparam("at_session"),
        sessions_table.c.deleted_at.is_(None),
        _SPACE_LIVES,
    )
    .with_for_update()
)
_AT = (
    session_counters.c.space_id == bindparam("at_space"),
    session_counters.c.session_id == bindparam("at_session"),
)
_LOCK_COUNTERS = Statement(
    select(session_counters.c.last_activity_at, session_counters.c.event_count, session_counters.c.last_seq)
    .where(*_AT)
    .with_for_update()
)
_WAKE_AT = Statement(
    update(session_counters).where(*_AT).values(wake_count=bindparam("new_wake_count", type_=BigInteger))
)
_COUNT_ANEW = Statement(
    update(session_counters)
    .where(*_AT)
    .values(token_count=0, tokens_to=0, token_edits=session_counters.c.token_edits + 1)
)


@dataclass(frozen=True, slots=True)
class Held:
    """A session that is locked until the transaction ends."""

    strategies: tuple[Strategy, ...]
    ran: frozenset[str]
    facts: Facts
    last_seq: int


def hold(space_id: str, session_id: str, token_count: int = 0) -> Steps[Held | None]:
    """Lock a session that lives, in a space that lives, and read what its triggers look at."""
    at = {"at_space": space_id, "at_session": session_id}
    rows = yield _LOCK, at
    for strategies, ran, created_at in rows:
        for last_activity_at, event_count, last_seq in (yield _LOCK_COUNTERS, at):
            facts = Facts(created_at, last_activity_at, event_count, token_count)
            return Held(lifecycle.from_json(strategies), lifecycle.parse_ran(ran), facts, last_seq)
    return None


def act(job: Job, token_count: int, now: int, *, is_counted: bool, final_extraction: bool) -> Steps[tuple[str, ...]]:
    """Do what is due and say when to look again. Returns the types of strategy that ran now. Raises LeaseLost.

    `is_counted` is False where there are more tokens than `token_count` says.
    """
    place = (job.space_id, job.session_id)
    held = yield from hold(*place, token_count)
    if held is None:
        yield from jobs.remove(job, now)
        return ()
    due = lifecycle.due(held.strategies, held.ran, held.facts, now)
    ran = held.ran
    if due.extract is not None:
        ran = yield from extractions.queue(*place, due.extract, ran, held.last_seq, now, is_final=False)
    if due.delete:
        yield from jobs.remove(job, now)
        ran = yield from extractions.mark(*place, {*ran, lifecycle.SOFT_DELETE})
        yield from sessions.expire(*place, now, final_extraction=final_extraction)
    else:
        if ran != held.ran:
            yield from _set_wake_count(*place, held.strategies, ran)
        at = lifecycle.next_due_at(held.strategies, ran, held.facts) if is_counted else now
        yield from jobs.finish(job, at, now)
    return tuple(sorted(ran - held.ran))


def change(space_id: str, session_id: str, held: Held, strategies: tuple[Strategy, ...], now: int) -> Steps[None]:
    """Let other strategies take effect, each from its own anchor."""
    yield from _set_wake_count(space_id, session_id, strategies, held.ran)
    if lifecycle.counts_tokens(strategies, held.ran):
        # Nobody noted what was changed while no strategy asked.
        yield _COUNT_ANEW, {"at_space": space_id, "at_session": session_id}
    at = lifecycle.look_at(strategies, held.ran, held.facts, now)
    yield from jobs.schedule(space_id, session_id, LIFECYCLE, at)


def _set_wake_count(
    space_id: str, session_id: str, strategies: tuple[Strategy, ...], ran: frozenset[str]
) -> Steps[None]:
    count = lifecycle.wake_count(strategies, ran)
    yield _WAKE_AT, {"at_space": space_id, "at_session": session_id, "new_wake_count": count}
