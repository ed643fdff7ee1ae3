"""Removing a person for good: the operator's answer to a request to be forgotten."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

from threadkeep import clock
from threadkeep.domain import limits
from threadkeep.storage import erasure, memory_removal
from threadkeep.storage.database import Database

_PAGE = 500


@dataclass(slots=True)
class Erased:
    """What there is of a person, or what was removed of them."""

    spaces: int = 0
    """Memory spaces that the person owns, with all in them."""
    sessions: int = 0
    """Sessions in which the person was alone with agents."""
    shared: int = 0
    """Sessions that others go on with, and that the person is taken out of."""
    events: int = 0
    """Events of both kinds of session."""
    memories: int = 0
    """Memories about the person, or said by them, that are left when the sessions are done."""
    tokens: int = 0


class Erasure:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, person: str) -> Erased:
        """Count the spaces and sessions of the person, deleted ones included. Raises Invalid."""
        limits.check_text(person, limits.PARTICIPANT, "participant", minimum=1)
        found = Erased()
        owned = set(await self._database.scan(lambda: erasure.spaces_of(person)))
        found.spaces = len(owned)
        async for space_id, _, people in self._sessions(person):
            if space_id not in owned:
                found.sessions += set(people) == {person}
                found.shared += set(people) != {person}
        return found

    async def erase(self, person: str, progress: Callable[[], None] = lambda: None) -> Erased:
        """Remove the person for good; `progress` is called for each space and session that is done.

        Many transactions: where it stops, calling again goes on. Raises Invalid.
        """
        limits.check_text(person, limits.PARTICIPANT, "participant", minimum=1)
        erased = Erased()
        for space_id in await self._database.scan(lambda: erasure.spaces_of(person)):
            await self._remove_space(space_id)
            erased.spaces += 1
            progress()
        async for space_id, session_id, people in self._sessions(person):
            others = tuple(name for name in people if name != person)
            if others:
                erased.events += await self._leave(space_id, session_id, person, others)
                erased.shared += 1
            else:
                erased.events += await self._remove_session(space_id, session_id)
                erased.sessions += 1
            progress()
        erased.memories = await self._remove_memories(person)
        erased.tokens = await self._database.write(lambda: erasure.remove_user(person))
        return erased

    async def _remove_memories(self, person: str) -> int:
        count, after = 0, ("", "")
        while page := await self._database.scan(partial(memory_removal.about, person, after, _PAGE)):
            for space_id, memory_id in page:
                after = (space_id, memory_id)
                await self._database.write(partial(memory_removal.remove, space_id, [memory_id]))
            count += len(page)
        while not await self._database.write(partial(memory_removal.remove_handed_in, person, _PAGE)):
            pass
        return count

    async def _sessions(self, person: str) -> AsyncIterator[tuple[str, str, tuple[str, ...]]]:
        after = ("", "")
        while page := await self._database.scan(partial(erasure.sessions_of, person, after, _PAGE)):
            for space_id, session_id, people in page:
                after = (space_id, session_id)
                if person in people:
                    yield space_id, session_id, people

    async def _remove_space(self, space_id: str) -> None:
        await self._database.write(lambda: erasure.close_space(space_id, clock.now()))
        while not await self._database.write(lambda: erasure.remove_space(space_id)):
            pass

    async def _remove_session(self, space_id: str, session_id: str) -> int:
        count = await self._database.scan(lambda: erasure.event_count(space_id, session_id))
        while not await self._database.write(lambda: erasure.remove_session(space_id, session_id, clock.now())):
            pass
        return count

    async def _leave(self, space_id: str, session_id: str, person: str, others: tuple[str, ...]) -> int:
        events, done = 0, False
        while not done:
            gone, done = await self._database.write(lambda: erasure.leave(space_id, session_id, person, others, _PAGE))
            events += gone
        return events
