"""What can be done with a user's threads: list, find, rename, delete, read messages and runs. No HTTP here."""

from uuid import UUID

from threadkeep.chat_history.constants import MEMORY_CHAT_MESSAGE_EVENT_TYPE
from threadkeep.chat_history.models import Chat
from threadkeep.contract.threads import MessagePage, RunPage, Thread, ThreadPage
from threadkeep.domain import limits
from threadkeep.domain.session import Session
from threadkeep.errors import Invalid, NotFound
from threadkeep.gateway.answers import chat_uuid_of, message_answer, run_answer, thread_answer
from threadkeep.gateway.branch_pages import BranchPage, BranchPages
from threadkeep.gateway.histories import History, find_session
from threadkeep.gateway.runs import Runs, no_thread
from threadkeep.persistence.codec import encode_description
from threadkeep.services.container import Container
from threadkeep.services.sessions import RecentSession

NAME = 200
"""Characters of a thread's name."""
_PREFIX = Chat.__description_prefix__
_ALL = encode_description(_PREFIX)


class Threads:
    """The threads of whoever asks. One that does not exist and one of somebody else are both NotFound."""

    def __init__(self, container: Container, runs: Runs) -> None:
        self._container = container
        self._runs = runs
        self._branches = BranchPages(container)

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
        await self._runs.cancel_session(history, session.id)
        await history.chats.delete_chat(_chat_uuid(history, session))

    async def messages(
        self,
        history: History,
        thread_id: str,
        limit: int,
        before: str | None,
        *,
        run_id: str | None = None,
        of_all_branches: bool = False,
    ) -> MessagePage:
        """The newest messages before a cursor, oldest first, in one query. Raises Invalid, NotFound.

        They are those of one branch: the newest one, the one that ends with a run, or the one of the cursor; or those
        of all branches, as they came. A step to another place of the thread costs two queries, long values one for
        each few of them.
        """
        limits.check_page(0, limit)
        number = None if before is None else _number(before, "before")
        session = await self._find(history, thread_id)
        if of_all_branches:
            page = await self._page_of_all(history, session, limit, number)
        elif number is not None:
            page = await self._branches.before(history, session.id, number, limit=limit)
        else:
            last = None if run_id is None else await self._last_of(history, session, thread_id, run_id)
            page = await self._branches.ending_with(history, session.id, last, limit=limit)
        pieces = await self._branches.long_values(history, session.id, page.events)
        return {
            "items": [message_answer(event, pieces.value) for event in page.events],
            "before": None if page.before is None else str(page.before),
        }

    async def _last_of(self, history: History, session: Session, thread_id: str, run_id: str) -> int:
        try:
            run = await self._container.runs.get(history.principal, history.space_id, session.id, run_id)
        except NotFound:
            raise NotFound(f"There is no run {run_id!r} in the thread {thread_id!r}") from None
        return await self._branches.last_of(history, run)

    async def _page_of_all(self, history: History, session: Session, limit: int, before: int | None) -> BranchPage:
        events = await self._container.events.page_back(
            history.principal,
            history.space_id,
            session.id,
            event_type=MEMORY_CHAT_MESSAGE_EVENT_TYPE,
            before=before,
            limit=limit,
        )
        has_more = len(events) == limit and events[0].sequence_id > 1
        return BranchPage(events, events[0].sequence_id if has_more else None)

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

    async def _find(self, history: History, thread_id: str) -> Session:
        session = await find_session(self._container.sessions, history, thread_id)
        if session is None:
            raise no_thread(thread_id)
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
                raise no_thread(thread_id)
            cursor = page.next


def _chat_uuid(history: History, session: Session) -> UUID:
    """The chat's own id. Its session is made known to the repositories, so that nothing depends on a locator."""
    uuid = chat_uuid_of(session.metadata)
    if uuid is None:
        raise NotFound(f"The session {session.id!r} holds no thread of the gateway")
    history.registry.register(uuid, session.id)
    return uuid


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Invalid(f"{text!r} is no cursor of this list", ["query", name])
    return int(text)
