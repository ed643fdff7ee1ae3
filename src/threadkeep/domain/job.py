"""Jobs: work that waits for its time, and the lease under which a worker has it."""

from dataclasses import dataclass

LIFECYCLE = "lifecycle"
"""Looks whether a strategy of a session is due."""
EXTRACTION = "extract_memories"
"""Extracts the memories of a session."""
ADDITION = "add_memories"
"""Finds the memories in messages that were handed in. It belongs to the request, whose id is in the session's place."""
EMBEDDING = "embed_memories"
"""Gives the memories of a space their vectors. It belongs to the space, and to no session."""
COMPACTION = "compact_runs"
"""Rewrites the logs of a session's runs that have ended as few rows, deflated."""
PURGE = "purge"
"""Removes for good what was deleted long ago. There is one, and it belongs to no session."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that a worker has claimed. Worker and time together are the lease: nobody else has the same two."""

    space_id: str
    session_id: str
    kind: str
    worker: str
    until: int
    """When the lease ends, in microseconds since 1970."""
    attempts: int
    """How often it was claimed since it was last finished, this time included."""
    payload: str | None = None


def retry_at(job: Job, now: int) -> int:
    """When a job that failed is due again: after 2, 4, 8 ... seconds, at most five minutes."""
    return now + min(1 << min(job.attempts, 9), 300) * 1_000_000
