"""Who writes an agent's history, and when: the matrix of its two settings. Pure."""

from enum import Enum, auto


class Persistence(Enum):
    """What becomes of a run's messages.

    `INJECTED`: middleware between the function loop and the client stores or marks them.
    `CALLERS_OWN`: the caller's client stack stores them, or nobody does.
    `AT_END`: the provider stores them at the end of the run: the marked ones where the caller's stack marks, else all.
    """

    INJECTED = auto()
    CALLERS_OWN = auto()
    AT_END = auto()


def persistence(*, client_as_is: bool, at_end_of_run: bool) -> Persistence:
    """The matrix: whether middleware is injected, and whether the provider writes at the end."""
    if not client_as_is:
        return Persistence.INJECTED
    return Persistence.AT_END if at_end_of_run else Persistence.CALLERS_OWN


def persistence_of(agent: object) -> Persistence:
    """What an agent asks for; one that was never asked stores at the end of a run, as the framework does."""
    found = getattr(agent, "chat_history_persistence", None)
    return found if isinstance(found, Persistence) else Persistence.AT_END
