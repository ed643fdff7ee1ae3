"""How the time within which the run of a dead process is ended is shared out. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds: a lease is held for `held`, and every `look` it is renewed and others are looked for that ran out.

    A process that dies right after it has renewed is found at most `held + look` later. What is left of the whole is
    for ending its runs. A lease outlives two renewals that fail.
    """

    held: float
    look: float

    @classmethod
    def within(cls, seconds: float) -> "LeaseTimes":
        """The times by which the runs of a process that dies are ended within so many seconds."""
        return cls(held=0.6 * seconds, look=0.2 * seconds)
