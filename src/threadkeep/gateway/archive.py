"""Threads that are put away: the flag in the metadata of a thread's session, and lists without such threads."""

import json

from threadkeep.chat_history.ag_ui.wire import read_object
from threadkeep.chat_history.models import Chat
from threadkeep.domain.session import Session, SessionChange, is_archived
from threadkeep.errors import SessionVersionMismatch
from threadkeep.gateway.histories import History, find_session
from threadkeep.gateway.runs import no_thread
from threadkeep.persistence.codec import encode_description
from threadkeep.services.container import Container
from threadkeep.services.sessions import RecentPage

_ALL = encode_description(Chat.__description_prefix__)
_ATTEMPTS = 5


class Archive:
    """The user's threads, the archived ones among them."""

    def __init__(self, container: Container) -> None:
        self._sessions = container.sessions

    async def page(self, history: History, limit: int, cursor: str | None, *, with_archived: bool) -> RecentPage:
        """Threads by newest activity, in one query. Raises Invalid."""
        return await self._sessions.recent(
            history.principal,
            history.space_id,
            participant=history.participant,
            prefix=_ALL,
            limit=limit,
            before=cursor,
            with_archived=with_archived,
        )

    async def is_archived(self, history: History, thread_id: str) -> bool:
        """Raises NotFound."""
        return is_archived((await self._find(history, thread_id)).metadata)

    async def put(self, history: History, thread_id: str, *, archived: bool) -> None:
        """Archive the thread, or take it out again. Nothing changes where it is so already.

        Raises NotFound, SessionVersionMismatch (others were faster time and again).
        """
        for attempt in range(1, _ATTEMPTS + 1):
            session = await self._find(history, thread_id)
            if is_archived(session.metadata) is archived:
                return
            change = SessionChange(metadata=_with_flag(session.metadata, archived=archived))
            try:
                await self._sessions.patch(
                    history.principal, history.space_id, session.id, change, expected_version=session.version
                )
            except SessionVersionMismatch:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    async def _find(self, history: History, thread_id: str) -> Session:
        session = await find_session(self._sessions, history, thread_id)
        if session is None:
            raise no_thread(thread_id)
        return session


def _with_flag(metadata: str | None, *, archived: bool) -> str:
    """The metadata with the flag, or without it: threads that were never archived do not have it."""
    fields = {**read_object((metadata or "{}").encode("utf-8", "surrogatepass"))}
    fields.pop("archived", None)
    if archived:
        fields["archived"] = True
    return json.dumps(fields, separators=(",", ":"))
