"""The snapshot store of the framework's own AG-UI endpoint, on a memory space."""

import asyncio
import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field

from threadkeep.chat_history import session_deduplication_key
from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.persistence import (
    DRDeduplicationKey,
    DREvent,
    DRMemoryNotFoundError,
    DRMemorySpace,
    DRMemoryVersionConflictError,
    DRSession,
)

if TYPE_CHECKING:
    from agent_framework_ag_ui import AGUIThreadSnapshot

_KNOWN = 10_000
_ATTEMPTS = 8
_CONTENT = "An AG-UI thread snapshot"


class SnapshotThread(DRSession):
    """Where the latest snapshot of a thread is: a session for each scope and thread."""

    __description_prefix__ = "ag_ui_snapshot"

    dedup_key: Annotated[str | None, DRDeduplicationKey] = None
    scope: str = ""
    thread_id: str = ""


class SnapshotEvent(DREvent, session=SnapshotThread):
    """The latest snapshot of a thread; each save replaces it."""

    __event_type__ = "ag_ui_snapshot"

    messages: list[Any] = Field(default_factory=list)
    state: dict[str, Any] | None = None
    interrupt: list[Any] | None = None
    session_state: dict[str, Any] | None = None


class _Snapshot(Protocol):
    messages: list[dict[str, Any]]
    state: dict[str, Any] | None
    interrupt: list[dict[str, Any]] | None
    session_state: dict[str, Any] | None


class ThreadkeepSnapshotStore:
    """An `AGUIThreadSnapshotStore`: the latest snapshot of each thread, kept in a memory space.

    ```python
    add_agent_framework_fastapi_endpoint(app, agent, "/agent", snapshot_store=ThreadkeepSnapshotStore(space), ...)
    ```

    It needs the package `agent-framework-ag-ui`. A snapshot is one event and at most 4 MiB of JSON.

    Args:
        space: where the snapshots live.
    """

    def __init__(self, space: DRMemorySpace) -> None:
        self._space = space
        self._threads: BoundedCache[str, SnapshotThread] = BoundedCache(_KNOWN)

    async def save(self, *, scope: str, thread_id: str, snapshot: _Snapshot) -> None:
        """Keep the latest snapshot of a thread. Of two that are saved at the same time, one stands.

        Args:
            scope: whose thread it is, as the application tells users apart.
            thread_id: AG-UI's thread id.
            snapshot: the snapshot.

        Raises:
            ValueError: the scope or the thread id is empty.
            DRMemoryServiceError: as for every call; the snapshot from before stays.
        """
        fields: dict[str, Any] = {
            "messages": list(snapshot.messages),
            "state": snapshot.state,
            "interrupt": snapshot.interrupt,
            "session_state": snapshot.session_state,
        }
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                thread = await self._thread(scope, thread_id, make=True)
                assert thread is not None
                found = await SnapshotEvent.last(thread, n=1)
                if found:
                    await found[0].patch(**fields)
                else:
                    await SnapshotEvent.post(thread, content=_CONTENT, **fields)
            except (DRMemoryNotFoundError, DRMemoryVersionConflictError):
                # It was deleted, or saved by somebody else, meanwhile.
                self._threads.drop(_key(scope, thread_id))
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    async def get(self, *, scope: str, thread_id: str) -> "AGUIThreadSnapshot | None":
        """The latest snapshot of a thread, or None.

        Args:
            scope: whose thread it is.
            thread_id: AG-UI's thread id.

        Raises:
            ValueError: the scope or the thread id is empty.
            DRMemoryServiceError: as for every call.
        """
        from agent_framework_ag_ui import AGUIThreadSnapshot

        thread = await self._thread(scope, thread_id)
        try:
            found = [] if thread is None else await SnapshotEvent.last(thread, n=1)
        except DRMemoryNotFoundError:
            self._threads.drop(_key(scope, thread_id))
            found = []
        if not found:
            return None
        latest = found[0]
        return AGUIThreadSnapshot(
            messages=latest.messages,
            state=latest.state,
            interrupt=latest.interrupt,
            session_state=latest.session_state,
        )

    async def delete(self, *, scope: str, thread_id: str) -> bool:
        """Delete the snapshot of a thread; whether there was one.

        Args:
            scope: whose thread it is.
            thread_id: AG-UI's thread id.

        Raises:
            ValueError: the scope or the thread id is empty.
            DRMemoryServiceError: as for every call.
        """
        thread = await self._thread(scope, thread_id)
        return thread is not None and await self._delete(thread)

    async def clear(self, *, scope: str | None = None) -> None:
        """Delete all snapshots, or those of one scope.

        Args:
            scope: whose threads; all if None.

        Raises:
            ValueError: the scope is empty.
            DRMemoryServiceError: as for every call.
        """
        participant = None if scope is None else _participant(_given(scope, "scope"))
        threads = await SnapshotThread.list(self._space, participant=participant)
        await asyncio.gather(*(self._delete(thread) for thread in threads))

    async def _thread(self, scope: str, thread_id: str, *, make: bool = False) -> SnapshotThread | None:
        key = _key(scope, thread_id)
        thread = self._threads.get(key)
        if thread is None:
            try:
                thread = await SnapshotThread.get(self._space, dedup_key=key)
            except DRMemoryNotFoundError:
                if not make:
                    return None
                thread = await SnapshotThread.post(
                    self._space, participants=[_participant(scope)], dedup_key=key, scope=scope, thread_id=thread_id
                )
            self._threads.put(key, thread)
        return thread

    async def _delete(self, thread: SnapshotThread) -> bool:
        self._threads.drop(thread.dedup_key or "")
        try:
            await thread.delete()
        except DRMemoryNotFoundError:
            return False
        return True


def _key(scope: str, thread_id: str) -> str:
    return session_deduplication_key("ag_ui_snapshot", _given(scope, "scope"), _given(thread_id, "thread_id"))


def _given(value: str, name: str) -> str:
    if not value:
        raise ValueError(f"A snapshot needs a {name}")
    return value


def _participant(scope: str) -> str:
    """The scope as a participant, so that all snapshots of a scope are one query."""
    return hashlib.sha256(scope.encode("utf-8", "surrogatepass")).hexdigest()[:24]
