"""What CopilotKit's inspector asks of a thread: its messages, its state, its events. A thread that is none is empty."""

from collections.abc import AsyncIterator
from typing import Any

from threadkeep.contract.threads import ThreadMessage
from threadkeep.domain import limits
from threadkeep.errors import NotFound
from threadkeep.gateway.answers import chat_uuid_of
from threadkeep.gateway.histories import History, find_session
from threadkeep.gateway.threads import Threads
from threadkeep.services.container import Container

MESSAGES = 1_000
"""The newest messages of a thread that are shown; older ones are read by pages from the gateway's own routes."""
RUNS = 100
"""The newest runs whose events are shown."""
_READ_BYTES = 1024 * 1024


class Inspection:
    """Looks into the threads of whoever asks."""

    def __init__(self, container: Container, threads: Threads) -> None:
        self._container = container
        self._threads = threads

    async def messages(self, history: History, thread_id: str) -> list[ThreadMessage]:
        """The thread's newest messages, oldest first; of a thread that does not exist, none."""
        newest_first: list[list[ThreadMessage]] = []
        before: str | None = None
        try:
            while len(newest_first) * limits.PAGE < MESSAGES:
                page = await self._threads.messages(history, thread_id, limits.PAGE, before)
                newest_first.append(page["items"])
                before = page["before"]
                if before is None:
                    break
        except NotFound:
            return []
        return [message for items in reversed(newest_first) for message in items]

    async def state(self, history: History, thread_id: str) -> Any:
        """The thread's last state; None where there is none."""
        session = await find_session(self._container.sessions, history, thread_id)
        chat_uuid = None if session is None else chat_uuid_of(session.metadata)
        if session is None or chat_uuid is None:
            return None
        # The session is known, so that nothing depends on a locator.
        history.registry.register(chat_uuid, session.id)
        return await history.messages.get_state(chat_uuid)

    async def events(self, history: History, thread_id: str) -> AsyncIterator[bytes]:
        """The events of the thread's newest runs as they came, the oldest run first, up to now."""
        session = await find_session(self._container.sessions, history, thread_id)
        if session is None:
            return
        runs = await self._container.runs.page(history.principal, history.space_id, session.id, limit=RUNS)
        for run in reversed(runs):
            after = -1
            while events := await self._container.run_log.read(run.key, after, max_bytes=_READ_BYTES):
                for event in events:
                    yield event.data
                after = events[-1].index
