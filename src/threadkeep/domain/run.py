"""Runs: one turn of an agent on a session, and who is carrying it out."""

from dataclasses import dataclass

QUEUED = "queued"
ACTIVE = "active"
FINISHED = "finished"
ERRORED = "errored"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run. A run id is the client's, and is unique in its session only."""

    space_id: str
    session_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Fence:
    """What whoever writes in the name of a run needs: that the run is this owner's."""

    key: RunKey
    owner: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is kept. JSON is held as text; times are in microseconds since 1970.

    A run is queued, then active, and then it has ended. Until then it is its owner's for as long as the owner renews
    the lease; when the lease has run out, the owner is gone.
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
    cancel_wanted_at: int | None = None
    input: str | None = None
    """What the client sent. None in lists too: it may be large, and `get` has it."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.space_id, self.session_id, self.run_id)

    @property
    def fence(self) -> Fence:
        return Fence(self.key, self.owner)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.finished_at is None
