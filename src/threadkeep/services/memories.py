"""What can be done with memories: add, read, search, change, delete. Extraction has a file of its own."""

from collections.abc import Sequence

from threadkeep import clock, ids
from threadkeep.domain import limits, memory, memory_filter
from threadkeep.domain.memory import HistoryEntry, Memory, MemoryChange, MemoryEdit, MemoryScope
from threadkeep.domain.memory_filter import Filter
from threadkeep.domain.principal import Principal
from threadkeep.errors import Invalid, NotFound
from threadkeep.services.embedding import Embedding
from threadkeep.services.idempotency import Once, write
from threadkeep.services.memory_finding import Finding, Found, Hit, Wish
from threadkeep.services.spaces import check_id as check_space_id
from threadkeep.services.spaces import no_space
from threadkeep.storage import memories, memory_history, memory_pages
from threadkeep.storage.database import Database
from threadkeep.storage.memory_pages import Entity, Narrowed
from threadkeep.storage.statement import Steps

__all__ = ["Entity", "Found", "Hit", "Memories", "Wish", "today"]


class Memories:
    def __init__(self, database: Database, embedding: Embedding) -> None:
        self._database = database
        self._embedding = embedding
        self._finding = Finding(database, embedding)

    async def check(self, principal: Principal, space_id: str) -> None:
        """Whether the space is there, and the caller's, before anything else is said of a request. Raises NotFound."""
        check_space_id(space_id)
        await self._database.read(lambda: _check_mine(space_id, principal))

    async def add(
        self,
        principal: Principal,
        space_id: str,
        scope: MemoryScope,
        drafts: Sequence[MemoryChange],
        *,
        once: Once[list[Memory]] | None = None,
    ) -> list[Memory]:
        """Add memories as they are given, all or none. Raises Invalid, NotFound, Answered."""
        memory.check_scope(scope)
        limits.check_count(len(drafts), limits.MEMORY_BATCH, "memories")
        for draft in drafts:
            memory.check_change(draft)
        check_space_id(space_id)

        def operation() -> Steps[list[Memory]]:
            yield from _check_mine(space_id, principal)
            made = yield from memories.apply(space_id, scope, drafts, clock.now(), keeps_doubles=True)
            return [each for each in made if each is not None]

        made = await write(self._database, operation, once)
        await self._embedding.embed_now(space_id, made)
        return made

    async def get(self, principal: Principal, space_id: str, memory_id: str) -> Memory:
        """Raises NotFound."""
        check_ids(space_id, memory_id)
        found = await self._database.read(lambda: memory_pages.get(space_id, principal.user_id, memory_id))
        if found is None:
            raise no_memory(memory_id)
        return found

    async def page(
        self,
        principal: Principal,
        space_id: str,
        wanted: Filter,
        *,
        offset: int = 0,
        limit: int = limits.PAGE,
        on: str | None = None,
    ) -> tuple[list[Memory], int]:
        """A page of the memories that a filter holds for, newest first, and the number of all of them.

        `on` is the day (YYYY-MM-DD) on which they have to count: today; '' shows expired ones too.
        Raises Invalid, NotFound.
        """
        limits.check_range(offset, 0, limits.INTEGER, "offset")
        limits.check_range(limit, 1, limits.MEMORY_PAGE, "limit")
        check_space_id(space_id)
        narrowed = Narrowed.by(wanted, today() if on is None else on)

        def operation() -> Steps[tuple[list[Memory], int]]:
            yield from _check_mine(space_id, principal)
            if memory_filter.is_everything(wanted) or memory_filter.is_scope_alone(wanted):
                found, total = yield from memory_pages.page(space_id, narrowed, offset, limit)
            else:
                every = yield from memory_pages.every(space_id, narrowed)
                fitting = [each for each in every if memory_filter.matches(wanted, each)]
                found, total = fitting[offset : offset + limit], len(fitting)
            return (yield from memory_pages.with_sources(space_id, found)), total

        return await self._database.scan(operation)

    async def search(self, principal: Principal, space_id: str, wish: Wish) -> Found:
        """What is near the query by meaning and by words, best first. Raises Invalid, NotFound, MissingExtra."""
        limits.check_text(wish.query, limits.QUERY, "query", minimum=1)
        limits.check_range(wish.limit, 1, limits.MEMORIES_FOUND, "top_k")
        if not 0 <= wish.threshold <= 1:
            raise Invalid(f"{wish.threshold} is not between 0 and 1", ["threshold"], "out_of_range")
        await self.check(principal, space_id)
        return await self._finding.search(space_id, wish)

    async def candidates(self, space_id: str, scope: MemoryScope, texts: Sequence[str], limit: int) -> list[Memory]:
        """What is known that is near one of the texts, of exactly this scope, whoever's the space is."""
        return await self._finding.candidates(space_id, scope, texts, limit)

    async def edit(self, principal: Principal, space_id: str, memory_id: str, wanted: MemoryEdit) -> Memory:
        """Change a memory. Raises Invalid, NotFound."""
        (changed,) = await self.edit_many(principal, space_id, [(memory_id, wanted)])
        return changed

    async def edit_many(
        self, principal: Principal, space_id: str, edits: Sequence[tuple[str, MemoryEdit]]
    ) -> list[Memory]:
        """Change memories, all or none. Raises Invalid, NotFound."""
        limits.check_count(len(edits), limits.MEMORY_BATCH, "memories", minimum=1)
        for memory_id, wanted in edits:
            memory.check_edit(wanted)
            check_ids(space_id, memory_id)

        def operation() -> Steps[list[Memory]]:
            yield from _check_mine(space_id, principal)
            changed = []
            for memory_id, wanted in edits:
                made = yield from memories.edit(space_id, memory_id, wanted, clock.now())
                if made is None:
                    raise no_memory(memory_id)
                changed.append(made)
            return changed

        changed = await self._database.write(operation)
        await self._embedding.embed_now(space_id, changed)
        return changed

    async def delete(self, principal: Principal, space_id: str, memory_id: str) -> None:
        """Soft-delete a memory. Raises NotFound."""
        await self.delete_many(principal, space_id, [memory_id])

    async def delete_many(self, principal: Principal, space_id: str, memory_ids: Sequence[str]) -> None:
        """Soft-delete memories, all or none. Raises Invalid, NotFound."""
        limits.check_count(len(memory_ids), limits.MEMORY_BATCH, "memories", minimum=1)
        wanted = list(dict.fromkeys(memory_ids))
        for memory_id in wanted:
            check_ids(space_id, memory_id)

        def operation() -> Steps[None]:
            yield from _check_mine(space_id, principal)
            gone = yield from memories.remove(space_id, wanted, clock.now())
            missing = [memory_id for memory_id in wanted if memory_id not in set(gone)]
            if missing:
                raise no_memory(missing[0])

        await self._database.write(operation)

    async def delete_all(self, principal: Principal, space_id: str, wanted: Filter) -> int:
        """Soft-delete what a filter holds for, expired memories included. Returns how many there were.

        In steps: where it stops, calling again goes on. Raises NotFound.
        """
        count = 0
        while True:
            found, _ = await self.page(principal, space_id, wanted, limit=limits.MEMORY_PAGE, on="")
            if not found:
                return count
            chosen = [each.id for each in found]

            def operation(chosen: list[str] = chosen) -> Steps[list[str]]:
                yield from _check_mine(space_id, principal)
                return (yield from memories.remove(space_id, chosen, clock.now()))

            count += len(await self._database.write(operation))

    async def history(self, principal: Principal, space_id: str, memory_id: str) -> tuple[Memory, list[HistoryEntry]]:
        """The memory, which may have been deleted, and what happened to it, in order. Raises NotFound."""
        check_ids(space_id, memory_id)

        def operation() -> Steps[tuple[Memory, list[HistoryEntry]]]:
            mine = yield from memory_pages.is_mine(space_id, principal.user_id)
            kept = (yield from memories.find_kept(space_id, memory_id)) if mine else None
            if kept is None:
                raise no_memory(memory_id)
            return kept, (yield from memory_history.history(space_id, memory_id))

        return await self._database.read(operation)

    async def entities(self, principal: Principal, space_id: str) -> list[Entity]:
        """Everybody and everything that the memories of the space are about. Raises NotFound."""
        check_space_id(space_id)

        def operation() -> Steps[list[Entity]]:
            yield from _check_mine(space_id, principal)
            return (yield from memory_pages.entities(space_id))

        return await self._database.scan(operation)


def today() -> str:
    """The day that it is in UTC, as YYYY-MM-DD."""
    return clock.to_datetime(clock.now()).date().isoformat()


def check_ids(space_id: str, memory_id: str) -> None:
    """Raise NotFound for what can't be ids, before any database sees them."""
    check_space_id(space_id)
    if not ids.is_id(memory_id):
        raise no_memory(memory_id)


def no_memory(memory_id: str) -> NotFound:
    return NotFound(f"There is no memory {memory_id!r} in this memory space")


def _check_mine(space_id: str, principal: Principal) -> Steps[None]:
    if not (yield from memory_pages.is_mine(space_id, principal.user_id)):
        raise no_space(space_id)
