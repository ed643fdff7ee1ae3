"""Pages of one branch of a thread, from its end backwards: at the cost of the page, whatever the length of the thread.

A window of the newest messages is read and walked back; where a message follows one that is further back, the next
window is read there. Runs that stored by turns are told apart inside a window, as far as it shows them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from threadkeep.chat_history.attachment_events import ATTACHMENT_EVENT_TYPE, Pieces
from threadkeep.chat_history.attachments import references_in
from threadkeep.chat_history.branches import NOTHING, Branches
from threadkeep.chat_history.constants import LOCATOR_KIND_MESSAGE, MEMORY_CHAT_MESSAGE_EVENT_TYPE, Role, locator_key
from threadkeep.domain import limits
from threadkeep.domain.event import Event
from threadkeep.domain.run import Run
from threadkeep.gateway.answers import body_of
from threadkeep.gateway.histories import History
from threadkeep.ids import new_id
from threadkeep.services.container import Container

_MARGIN = 20
"""Messages beyond the page that are read with it, to see what runs at once have stored by turns."""
# Each may be of 4 MiB.
_ATTACHMENTS = 8


@dataclass(frozen=True, slots=True)
class BranchPage:
    """Some messages of a branch, oldest first, and the number of the first one if there are more before it."""

    events: list[Event]
    before: int | None


@dataclass(frozen=True, slots=True)
class _Link:
    message_uuid: UUID
    role: str
    run_id: str | None
    follows: UUID | None


class BranchPages:
    """Reads the branches of threads."""

    def __init__(self, container: Container) -> None:
        self._container = container

    async def ending_with(
        self, history: History, session_id: str, last: int | None = None, *, limit: int = limits.PAGE
    ) -> BranchPage:
        """The newest messages of the branch that ends with the message numbered `last`; None is the newest one.

        Where there is no such message, the branch ends with the one before it. Raises Invalid, NotFound.
        """
        path: list[Event] = []
        edge = None if last is None else last + 1
        while len(path) < limit:
            stretch, edge = await self._stretch(history, session_id, edge, limit - len(path))
            path += stretch
            if edge is None:
                return BranchPage(path[::-1], None)
        return BranchPage(path[::-1], path[-1].sequence_id)

    async def before(self, history: History, session_id: str, number: int, *, limit: int = limits.PAGE) -> BranchPage:
        """The page of a branch before the message with a number, which is of it. Raises Invalid, NotFound."""
        page = await self.ending_with(history, session_id, number, limit=limit + 1)
        has_it = bool(page.events) and page.events[-1].sequence_id == number
        events = page.events[:-1] if has_it else page.events[-limit:]
        is_cut = len(events) < len(page.events) - 1
        return BranchPage(events, events[0].sequence_id if is_cut else page.before)

    async def last_of(self, history: History, run: Run) -> int:
        """The number of the last message of a run; where it has stored none, of the last event before it.

        Raises NotFound.
        """
        begin = await self._container.events.last_before(
            history.principal, run.space_id, run.session_id, run.started_at
        )
        last, after = begin, begin
        while True:
            page, _ = await self._container.events.page_after(
                history.principal, run.space_id, run.session_id, after, event_type=MEMORY_CHAT_MESSAGE_EVENT_TYPE
            )
            own = [event.sequence_id for event in page if body_of(event).get("run_id") == run.run_id]
            last = own[-1] if own else last
            if not own or len(page) < limits.PAGE:
                return last
            after = page[-1].sequence_id

    async def long_values(self, history: History, session_id: str, events: Sequence[Event]) -> Pieces:
        """The long values of messages that are stored beside them, looked for among the newest ones first."""
        pieces = Pieces({uuid for event in events for uuid in references_in(body_of(event))})
        before: int | None = None
        while not pieces.are_complete:
            page = await self._container.events.page_back(
                history.principal,
                history.space_id,
                session_id,
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

    async def _stretch(
        self, history: History, session_id: str, edge: int | None, wanted: int
    ) -> tuple[list[Event], int | None]:
        """The messages of a branch below an edge, newest first, as far as one window has them, and the edge below which
        it goes on; None where it begins there.
        """
        size = min(wanted + _MARGIN, limits.PAGE)
        window = await self._container.events.page_back(
            history.principal,
            history.space_id,
            session_id,
            event_type=MEMORY_CHAT_MESSAGE_EVENT_TYPE,
            before=edge,
            limit=size,
        )
        branches = Branches([_link(event) for event in window])
        stretch: list[Event] = []
        place = branches.newest
        while place >= 0:
            if len(stretch) == wanted:
                return stretch, window[place].sequence_id + 1
            stretch.append(window[place])
            follows = branches.stored[place].follows
            if follows == NOTHING:
                return stretch, None
            number = await self._number_of(history, session_id, follows, branches)
            if number is not None and number < window[place].sequence_id:
                return stretch, number + 1
            place = branches.before(place)
        is_first = len(window) < size or window[0].sequence_id == 1
        return stretch, None if is_first else window[0].sequence_id

    async def _number_of(
        self, history: History, session_id: str, message_uuid: UUID | None, branches: Branches[_Link]
    ) -> int | None:
        """The number of a message that another one follows; None where that is in the window, or nobody knows it."""
        if message_uuid is None or any(link.message_uuid == message_uuid for link in branches.stored):
            return None
        found, _ = await self._container.space_events.having(
            history.principal,
            history.space_id,
            [locator_key(LOCATOR_KIND_MESSAGE, message_uuid)],
            event_type=MEMORY_CHAT_MESSAGE_EVENT_TYPE,
        )
        return next((event.sequence_id for at, event in found if at == session_id), None)


def _link(event: Event) -> _Link:
    """What a message's body says of its place, whatever another writer has left in it."""
    body = body_of(event)
    run_id, role = body.get("run_id"), body.get("role")
    return _Link(
        _uuid(body, "message_uuid") or UUID(new_id()),
        role if isinstance(role, str) else Role.ASSISTANT.value,
        run_id if isinstance(run_id, str) else None,
        _uuid(body, "follows"),
    )


def _uuid(body: Mapping[str, Any], name: str) -> UUID | None:
    try:
        return UUID(str(body.get(name)))
    except ValueError:
        return None
