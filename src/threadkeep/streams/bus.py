"""Wake-ups between those who wait for something and those who bring it about.

No data travels: what has happened is in the database, and a wake-up that is lost costs a waiter its patience only.
"""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class News(Protocol):
    """What a listener waits on. News that comes while nobody waits is kept for the next wait."""

    async def wait(self, seconds: float) -> bool:
        """Return True when there is news, or False when there was none for so long."""


class Bus(Protocol):
    """Carries wake-ups by topic, within a process or between processes."""

    def publish(self, topic: str) -> None:
        """Wake whoever listens. Never waits and never fails."""

    def listen(self, topic: str) -> AbstractAsyncContextManager[News]:
        """Be woken from here on, for as long as the block runs."""

    async def close(self) -> None:
        """Let go of every connection and task. Closing twice is closing once."""


def run_topic(space_id: str, session_id: str, run_id: str) -> str:
    """A run has new events, or has ended."""
    return f"run/{space_id}/{session_id}/{run_id}"


def owner_topic(owner: str) -> str:
    """Somebody wants one of this owner's runs to end."""
    return f"owner/{owner}"


def thread_topic(space_id: str, session_id: str) -> str:
    """A run of the thread has ended: the next in line may begin."""
    return f"thread/{space_id}/{session_id}"
