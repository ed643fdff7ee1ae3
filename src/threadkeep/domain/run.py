"""Runs: one turn of an agent on a session, and who is carrying it out."""

from dataclasses import dataclass

ACTIVE = "active"
FINISHED = "finished"
ERRORED = "errored"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is kept. JSON is held as text; times are in microseconds since 1970.

    A run is active for as long as its owner renews the lease; when the lease has run out, the owner is gone.
    """

    space_id: str
    session_id: str
    run_id: str
    parent_run_id: str | None
    user_id: str
    tenant_id: str
    owner: str
    status: str
    outcome: str | None
    usage: str | None
    error: str | None
    started_at: int
    finished_at: int | None
    lease_until: int
