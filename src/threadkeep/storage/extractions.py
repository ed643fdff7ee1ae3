"""Extractions that wait in the queue. Nothing here commits.

They are queued once for a session and outlive it: the events of a deleted session are there until they are purged.
"""

from collections.abc import Collection

from sqlalchemy import bindparam, update

from threadkeep.domain import lifecycle
from threadkeep.domain.job import EXTRACTION
from threadkeep.domain.lifecycle import Strategy
from threadkeep.storage import jobs
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import sessions

_MARK = Statement(
    update(sessions)
    .where(sessions.c.space_id == bindparam("at_space"), sessions.c.session_id == bindparam("at_session"))
    .values(ran=bindparam("new_ran"))
)


def queue(
    space_id: str,
    session_id: str,
    strategy: Strategy,
    ran: Collection[str],
    last_sequence_id: int,
    now: int,
    *,
    is_final: bool,
) -> Steps[frozenset[str]]:
    """Queue the extraction and mark its type as run. Returns the types that have run now."""
    payload = lifecycle.extraction_payload(strategy, last_sequence_id, is_final=is_final)
    yield from jobs.put_once(space_id, session_id, EXTRACTION, now, now, payload)
    return (yield from mark(space_id, session_id, {*ran, strategy.type}))


def mark(space_id: str, session_id: str, ran: Collection[str]) -> Steps[frozenset[str]]:
    """Note which types of strategy have run for the session."""
    yield _MARK, {"at_space": space_id, "at_session": session_id, "new_ran": ",".join(sorted(ran))}
    return frozenset(ran)
