"""What can be done with a user's threads: list, find, rename, delete, read messages and runs. No HTTP here."""

from collections.abc import Sequence
from uuid import UUID

from threadkeep.chat_history.attachment_events import ATTACHMENT_EVENT_TYPE, Pieces
from threadkeep.chat_history.attachments import references_in
from threadkeep.chat_history.models import Chat
from threadkeep.contract.threads import MessagePage, RunPage, Thread, ThreadPage
from threadkeep.domain import limits
from threadkeep.domain.event import Event
from threadkeep.domain.session import Session
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.gateway.answers import body_of, chat_uuid_of, message_answer, run_answer, thread_answer
from threadkeep.gateway.histories import History, find_session
from threadkeep.gateway.runs import Runs
from threadkeep.persistence.codec import encode_description
from threadkeep.services.container import Container
from threadkeep.services.sessions import RecentSession

NAME = 200
"""Characters of a thread's name."""
_PREFIX = Chat.__description_prefix__
_ALL = encode_description(_PREFIX)
_MESSAGE = "message"
# Each may be of 4 MiB.
_ATTACHMENTS = 8


class Threads:
    """The threads of whoever asks. One that does not exist and one of somebody else are both NotFound."""

    def __init__(self, container: Container, runs: Runs) -> None:
        self._container = container
        self._runs = runs

    async def page(self, history: History, limit: int, cursor: str | None) -> ThreadPage:
        """Threads by newest activity, in one query. Raises Invalid."""
        page = await self._container.sessions.recent(
            history.principal,
            history.space_id,
            participant=history.participant,
            prefix=_ALL,
            limit=limit,
            before=cursor,
        )
        return {"items": [thread_answer(found) for found in page.items], "cursor": page.next}

    async def get(self, history: History, thread_id: str) -> Thread:
        """Raises NotFound."""
        return thread_answer(await self._find_recent(history, thread_id))

    async def rename(self, history: History, thread_id: str, name: str) -> Thread:
        """Raises Invalid, NotFound."""
        limits.check_text(name, NAME, "name", minimum=1)
        session = await self._find(history, thread_id)
        await history.chats.update_chat_name(_chat_uuid(history, session), name)
        return await self.get(history, thread_id)

    async def delete(self, history: History, thread_id: str) -> None:
        """Stop what runs in the thread, and delete it with all its messages. Raises NotFound."""
        session = await self._find(history, thread_id)
        await self._runs.cancel_thread(history, thread_id)
        await history.chats.delete_chat(_chat_uuid(history, session))

    async def messages(self, history: History, thread_id: str, limit: int, before: str | None) -> MessagePage:
        """The newest messages before a cursor, oldest first, in one query. Raises Invalid, NotFound.

        Long values cost a query for each few of them; messages without any cost none.
        """
        session = await self._find(history, thread_id)
        events = await self._container.events.page_back(
            history.principal,
            history.space_id,
            session.id,
            event_type=_MESSAGE,
            before=None if before is None else _number(before, "before"),
            limit=limit,
        )
        has_more = len(events) == limit and events[0].sequence_id > 1
        pieces = await self._attachments(history, session, events)
        return {
            "items": [message_answer(event, pieces.value) for event in events],
            "before": str(events[0].sequence_id) if has_more else None,
        }

    async def _attachments(self, history: History, session: Session, events: Sequence[Event]) -> Pieces:
        """The long values of messages, looked for among the newest ones first."""
        pieces = Pieces({uuid for event in events for uuid in references_in(body_of(event))})
        before: int | None = None
        while not pieces.are_complete:
            page = await self._container.events.page_back(
                history.principal,
                history.space_id,
                session.id,
                event_type=ATTACHMENT_EVENT_TYPE,
                before=before,
                limit=_ATTACHMENTS,
            )
            for event in page:
                pieces.take_body(body_of(event))
            if len(page) < _ATTACHMENTS:
                break
            before = page[0].sequence_id
        return pieces

    async def runs(self, history: History, thread_id: str, limit: int, cursor: str | None) -> RunPage:
        """The thread's runs, newest first. Raises Invalid, NotFound."""
        session = await self._find(history, thread_id)
        offset = 0 if cursor is None else _number(cursor, "cursor")
        found = await self._container.runs.page(
            history.principal, history.space_id, session.id, offset=offset, limit=limit
        )
        return {
            "items": [run_answer(run) for run in found],
            "cursor": str(offset + limit) if len(found) == limit else None,
        }

    async def cancel(self, history: History, thread_id: str, run_id: str) -> bool:
        """Stop a run. Returns False where it has ended already. Raises NotFound, Conflict."""
        found = await self._find_recent(history, thread_id)
        if await self._runs.cancel(history, thread_id, run_id):
            return True
        if found.active_run_id == run_id and not self._runs.is_known(history, thread_id, run_id):
            raise Conflict(f"The run {run_id!r} is carried out by another process; it has to be cancelled there")
        return False

    async def _find(self, history: History, thread_id: str) -> Session:
        session = await find_session(self._container.sessions, history, thread_id)
        if session is None:
            raise _no_thread(thread_id)
        return session

    async def _find_recent(self, history: History, thread_id: str) -> RecentSession:
        """The thread with its newest message and active run."""
        description = encode_description(_PREFIX, [thread_id]) if thread_id else ""
        cursor: str | None = None
        while True:
            # The search folds case, so that threads whose ids differ in case only come together.
            page = await self._container.sessions.recent(
                history.principal,
                history.space_id,
                participant=history.participant,
                prefix=description,
                before=cursor,
            )
            for found in page.items:
                if found.session.description == description:
                    return found
            if page.next is None:
                raise _no_thread(thread_id)
            cursor = page.next


def _chat_uuid(history: History, session: Session) -> UUID:
    """The chat's own id. Its session is made known to the repositories, so that nothing depends on a locator."""
    uuid = chat_uuid_of(session.metadata)
    if uuid is None:
        raise NotFound(f"The session {session.id!r} holds no thread of the gateway")
    history.registry.register(uuid, session.id)
    return uuid


def _no_thread(thread_id: str) -> NotFound:
    return NotFound(f"There is no thread {thread_id!r}")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Invalid(f"{text!r} is no cursor of this list", ["query", name])
    return int(text)
