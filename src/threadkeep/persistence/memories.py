"""The memories of a space, in the async ORM: list, search, add, change, and what matters for a prompt."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from threadkeep.contract.mem0 import MemoryEvent
from threadkeep.persistence.client import DRMemoryServiceClient
from threadkeep.transport import memories as calls
from threadkeep.transport.memories import Filters, FoundMemories, FoundMemory, Memory, MemoryChange, Source
from threadkeep.transport.not_given import NOT_GIVEN, NotGiven

__all__ = ["FoundMemories", "FoundMemory", "Memory", "MemoryChange", "Source", "SpaceMemories"]


class SpaceMemories:
    """The memories of one space: `space.memories`.

    Whom a memory is about is said by `user_id`, `agent_id`, `app_id` and `run_id`. What is asked for without any of
    them is about anybody in the space.

    ```python
    await space.memories.add("likes green tea", user_id="ann")
    found = await space.memories.search("what does she drink?", user_id="ann")
    ```
    """

    def __init__(self, client: DRMemoryServiceClient, space_id: str) -> None:
        self._client = client
        self._space_id = space_id

    async def add(
        self,
        text: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | None = None,
    ) -> Memory:
        """Keep a text as a memory, as it is.

        Args:
            text: What is remembered, 1 to 20,000 characters.
            user_id, agent_id, app_id, run_id: Whom and what it is about; at least one of them.
            metadata: Anything JSON can say, at most 256 KiB.
            expiration_date: The last day on which it counts, `YYYY-MM-DD`.

        Raises:
            DRMemoryBadRequestError: A value breaks a rule.
            DRMemoryNotFoundError: The space or the memory is gone.
        """
        ids = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id, "run_id": run_id}
        more = {"metadata": metadata, "expiration_date": expiration_date}
        (memory_id,) = await self._client.send(calls.add(self._space_id, [text], ids, **more))
        return await self.get(memory_id)

    async def infer(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Hand in messages, each with a `role` and a `content`, for a worker to find memories in them.

        Returns the id of an event: `status` tells how it goes.

        Raises:
            DRMemoryBadRequestError: A value breaks a rule.
            DRMemoryNotFoundError: The space or the memory is gone.
        """
        ids = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id, "run_id": run_id}
        return await self._client.send(calls.infer(self._space_id, messages, ids, metadata=metadata))

    async def status(self, event_id: str) -> MemoryEvent:
        """How it goes with messages that were handed in: `status` is PENDING, RUNNING, SUCCEEDED or FAILED.

        Raises:
            DRMemoryNotFoundError: It is not there, or it belongs to somebody else.
        """
        return await self._client.send(calls.get_event(self._space_id, event_id))

    async def get(self, memory_id: str) -> Memory:
        """Read a memory.

        Raises:
            DRMemoryNotFoundError: It is not there, or it belongs to somebody else.
        """
        return await self._client.send(calls.get(self._space_id, memory_id))

    async def list(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
        filters: Filters | None = None,
        page: int = 1,
        page_size: int = 100,
        show_expired: bool = False,
    ) -> builtins.list[Memory]:
        """One page of the memories, newest first.

        Args:
            user_id, agent_id, app_id, run_id: Only memories with exactly these ids.
            filters: More conditions, in the grammar of mem0: `{"metadata": {"topic": "food"}}`.
            page: From 1.
            page_size: How many to return, 1 to 200.
            show_expired: Whether to list those whose last day is over, too.

        Raises:
            DRMemoryBadRequestError: A value breaks a rule.
            DRMemoryNotFoundError: The space or the memory is gone.
        """
        ids = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id, "run_id": run_id}
        at = {"page": page, "page_size": page_size}
        return await self._client.send(calls.list_page(self._space_id, ids, filters, **at, show_expired=show_expired))

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
        filters: Filters | None = None,
        limit: int = 10,
        threshold: float = 0.1,
    ) -> FoundMemories:
        """The memories that are near a text by meaning and by words, best first.

        Args:
            query: What to look for, 1 to 20,000 characters.
            user_id, agent_id, app_id, run_id: Only memories with exactly these ids.
            filters: More conditions, in the grammar of mem0.
            limit: How many to return, 1 to 1,000.
            threshold: The least score, 0 to 1.

        Raises:
            DRMemoryBadRequestError: A value breaks a rule.
            DRMemoryNotFoundError: The space or the memory is gone.
        """
        ids = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id, "run_id": run_id}
        wanted = calls.search(self._space_id, query, ids, filters, limit=limit, threshold=threshold)
        return await self._client.send(wanted)

    async def context(
        self,
        prompt: str,
        *,
        tokens: int = 500,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
        filters: Filters | None = None,
        count: Callable[[str], int] = calls.estimate_tokens,
    ) -> str:
        """What is remembered that matters for a prompt, as a text to put in front of it; '' where nothing is.

        Args:
            prompt: What an agent is about to answer; of a long one, its last 20,000 characters count.
            tokens: How long the text may be.
            user_id, agent_id, app_id, run_id: Only memories with exactly these ids.
            filters: More conditions, in the grammar of mem0.
            count: How many tokens a text has; by default an estimate from its bytes.

        Raises:
            DRMemoryBadRequestError: A value breaks a rule.
            DRMemoryNotFoundError: The space or the memory is gone.
        """
        ids = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id, "run_id": run_id}
        found = await self._client.send(calls.search_for_context(self._space_id, prompt, ids, filters))
        return calls.context(found.items, tokens, count)

    async def update(
        self,
        memory_id: str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | NotGiven | None = NOT_GIVEN,
    ) -> Memory:
        """Change what is given, and return the memory as it is then. An `expiration_date` of `None` clears it.

        Raises:
            DRMemoryBadRequestError: A value breaks a rule.
            DRMemoryNotFoundError: The space or the memory is gone.
        """
        return await self._client.send(
            calls.update(self._space_id, memory_id, text=text, metadata=metadata, expiration_date=expiration_date)
        )

    async def delete(self, memory_id: str) -> None:
        """Delete a memory.

        Raises:
            DRMemoryNotFoundError: It is not there, or it belongs to somebody else.
        """
        await self._client.send(calls.delete(self._space_id, memory_id))

    async def history(self, memory_id: str) -> builtins.list[MemoryChange]:
        """What happened to a memory, in order; also to one that is deleted.

        Raises:
            DRMemoryNotFoundError: It is not there, or it belongs to somebody else.
        """
        return await self._client.send(calls.history(self._space_id, memory_id))
