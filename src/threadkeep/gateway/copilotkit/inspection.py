"""What CopilotKit's inspector asks of a thread: its messages, its state, its events. A thread that is none is empty."""

from collections.abc import AsyncIterator
from typing import Any

from threadkeep.chat_history.attachments import put_back_in
from threadkeep.gateway.answers import body_of, chat_uuid_of
from threadkeep.gateway.branch_pages import BranchPages
from threadkeep.gateway.histories import History, find_session
from threadkeep.gateway.shown_messages import shown_messages
from threadkeep.services.container import Container

MESSAGES = 1_000
"""Stored messages that are shown at most; older ones are read by pages from the gateway's own routes."""
RUNS = 100
"""The newest runs whose events are shown."""
_READ_BYTES = 1024 * 1024


class Inspection:
    """Looks into the threads of whoever asks."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._branches = BranchPages(container)

    async def messages(self, history: History, thread_id: str) -> list[dict[str, Any]]:
        """The newest messages of the thread's newest branch, as AG-UI messages, oldest first."""
        session = await find_session(self._container.sessions, history, thread_id)
        if session is None:
            return []
        page = await self._branches.ending_with(history, session.id, limit=MESSAGES)
        pieces = await self._branches.long_values(history, session.id, page.events)
        return shown_messages([put_back_in(body_of(event), pieces.value) for event in page.events])

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
