"""The branches of a chat: which stored messages lead to one of them. Pure.

A user who edits an earlier message, or asks for another answer to it, begins a branch. All of it stays stored, in the
order in which it came; `Message.follows` says where a branch leaves the one before it.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from threadkeep.chat_history.constants import Role

NOTHING = UUID(int=0)
"""What a message follows that begins the conversation anew."""


class Linked(Protocol):
    """What must be known of a stored message to find its place; see the attributes of Message."""

    @property
    def message_uuid(self) -> UUID: ...
    @property
    def role(self) -> str: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def follows(self) -> UUID | None: ...


L = TypeVar("L", bound=Linked)


class Branches(Generic[L]):
    """The stored messages of a chat by their place, and what each of them comes after."""

    def __init__(self, stored: Sequence[L]) -> None:
        self.stored = stored
        self._before: list[int] = []
        places = {message.message_uuid: place for place, message in enumerate(stored)}
        last_of_run: dict[str, int] = {}
        last_fork = -1
        apart: set[str] = set()
        for place, message in enumerate(stored):
            before = place - 1
            if message.run_id is not None:
                in_run = last_of_run.get(message.run_id, -1)
                if message.run_id in apart or 0 <= in_run <= last_fork:
                    # Runs on two branches at once store by turns, and neither goes on with what the other says.
                    before = in_run
                    apart.add(message.run_id)
                last_of_run[message.run_id] = place
            if message.follows is not None:
                named = -1 if message.follows == NOTHING else places.get(message.follows, before)
                # Whatever another writer has left there: a message never leads to itself.
                before = named if named < place else before
                last_fork = place
            self._before.append(before)

    @property
    def newest(self) -> int:
        """The place of the message that was stored last; -1 where there is none."""
        return len(self.stored) - 1

    def before(self, place: int) -> int:
        """The place of the message that the one at `place` comes after; -1 where it is the first."""
        return self._before[place]

    def leading_to(self, place: int) -> list[int]:
        """The places of the messages that lead to the one at `place`, itself included, oldest first."""
        path: list[int] = []
        while place >= 0:
            path.append(place)
            place = self._before[place]
        return path[::-1]

    def end_of_run(self, run_id: str | None) -> int | None:
        """The place of a run's last message; None where there is none of it, and where no run is named."""
        places = (place for place in range(self.newest, -1, -1) if self.stored[place].run_id == run_id)
        return None if run_id is None else next(places, None)

    def end_of_turn(self, place: int) -> int:
        """The place of the last message before the user speaks again, by the newest answer where there are several."""
        while answers := [after for after in self._after.get(place, ()) if not self.is_user(after)]:
            place = answers[-1]
        return place

    def said_next(self, place: int) -> list[int]:
        """The user messages that follow the turn at `place`: several where the user has edited one; -1: the first."""
        return [after for after in self._after.get(self.end_of_turn(place), ()) if self.is_user(after)]

    def question_of(self, place: int) -> int:
        """The user message that begins the turn at `place`; -1 where no user message does."""
        while place >= 0 and not self.is_user(place):
            place = self._before[place]
        return place

    def is_user(self, place: int) -> bool:
        return self.stored[place].role == Role.USER

    @cached_property
    def _after(self) -> dict[int, list[int]]:
        """The messages that directly follow each one, oldest first."""
        after: defaultdict[int, list[int]] = defaultdict(list)
        for place, before in enumerate(self._before):
            after[before].append(place)
        return after


def leading_to(stored: Sequence[L], message_uuid: UUID | None = None) -> list[L]:
    """The messages of one branch, oldest first.

    Args:
        stored: all messages of the chat, in the order in which they are stored.
        message_uuid: where the branch ends, the message included; the newest message if None, nothing if nil.
    """
    if message_uuid == NOTHING:
        return []
    branches = Branches(stored)
    end = next((place for place, each in enumerate(stored) if each.message_uuid == message_uuid), branches.newest)
    return [stored[place] for place in branches.leading_to(end)]
