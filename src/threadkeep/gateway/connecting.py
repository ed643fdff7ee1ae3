"""Opening a thread: a prelude of all that was said, then the live tail of its active run, or its end.

What the active run has said comes from its log, not from the rows, which lag behind. The prelude goes up to one event
of the log, and the tail begins with the next: whatever happens in between, nothing is missing and nothing comes twice.
Where no run is active the stream ends at once; one that begins later has a stream of its own.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from threadkeep.chat_history import Chat, Message
from threadkeep.chat_history.ag_ui.inputs import read_input
from threadkeep.chat_history.ag_ui.open_blocks import Fields
from threadkeep.chat_history.ag_ui.prelude import Prelude
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.wire import WireEvent, event_json
from threadkeep.chat_history.attachments import put_back_in
from threadkeep.chat_history.branches import NOTHING
from threadkeep.chat_history.constants import Role
from threadkeep.chat_history.message_pages import last_messages
from threadkeep.domain import limits
from threadkeep.domain import run as states
from threadkeep.domain.event import Event
from threadkeep.domain.run import Run
from threadkeep.domain.session import Session
from threadkeep.errors import NotFound
from threadkeep.gateway.answers import body_of, chat_uuid_of
from threadkeep.gateway.branch_pages import BranchPage, BranchPages
from threadkeep.gateway.histories import History, find_session
from threadkeep.gateway.inputs import INPUT_RULES
from threadkeep.gateway.runs import Runs, RunStream, no_thread
from threadkeep.gateway.shown_messages import shown_messages
from threadkeep.ids import new_id
from threadkeep.services.container import Container
from threadkeep.streams.run_log import Batch

WINDOW = 100
"""Stored messages that a prelude shows at most; what is before them comes by pages."""


@dataclass(frozen=True, slots=True)
class _Thread:
    """An opened thread: who asks, for which one, and whether they speak AG-UI 1.x."""

    history: History
    thread_id: str
    session: Session
    chat_uuid: UUID
    speaks_1_x: bool


class Connecting:
    """Opens threads for readers."""

    def __init__(self, container: Container, runs: Runs) -> None:
        self._container = container
        self._runs = runs
        self._branches = BranchPages(container)

    async def open(
        self,
        history: History,
        thread_id: str,
        *,
        speaks_1_x: bool,
        run_id: str | None = None,
        or_new: str | None = None,
    ) -> RunStream:
        """The stream of a page that opens a thread. Events without an index are the prelude.

        Args:
            history: whose thread it is.
            thread_id: which one.
            speaks_1_x: whether the reader said that it speaks AG-UI 1.x; others get nothing that they would fail on.
            run_id: the branch that ends with this run; the newest one, and what happens on it, if None.
            or_new: where there is no such thread, show an empty one, under this run id.

        Raises NotFound.
        """
        session = await find_session(self._container.sessions, history, thread_id)
        chat_uuid = None if session is None else chat_uuid_of(session.metadata)
        if session is None or chat_uuid is None:
            if or_new is None:
                raise no_thread(thread_id)
            return _at_once(Prelude(), thread_id, or_new, speaks_1_x)
        history.registry.register(chat_uuid, session.id)
        thread = _Thread(history, thread_id, session, chat_uuid, speaks_1_x)
        newest = [
            run
            for run in await self._container.runs.page(history.principal, history.space_id, session.id)
            if run.status != states.QUEUED
        ]
        active = next((run for run in newest if run.status == states.ACTIVE), None)
        if active is not None and run_id in (None, active.run_id):
            return await self._join(thread, await self._run(thread, active.run_id))
        if run_id is not None:
            return await self._show(thread, await self._run(thread, run_id), is_newest=False)
        return await self._show(thread, newest[0] if newest else None, is_newest=True)

    async def _run(self, thread: _Thread, run_id: str) -> Run:
        try:
            return await self._container.runs.get(
                thread.history.principal, thread.history.space_id, thread.session.id, run_id
            )
        except NotFound:
            raise NotFound(f"There is no run {run_id!r} in the thread {thread.thread_id!r}") from None

    async def _show(self, thread: _Thread, run: Run | None, *, is_newest: bool) -> RunStream:
        """A branch on which nothing runs."""
        last = None if run is None or is_newest else await self._branches.last_of(thread.history, run)
        page = await self._branches.ending_with(thread.history, thread.session.id, last, limit=WINDOW)
        # The state is the thread's, as its newest run left it.
        state = await thread.history.messages.get_state(thread.chat_uuid) if is_newest else None
        prelude = Prelude(await self._shown(thread, page.events), state)
        outcome = None if run is None else await self._outcome(thread, run)
        run_id = new_id() if run is None else run.run_id
        return _at_once(prelude, thread.thread_id, run_id, thread.speaks_1_x, outcome, page.before)

    async def _join(self, thread: _Thread, run: Run) -> RunStream:
        """The branch on which a run is active, and the run."""
        given: Mapping[str, Any] = json.loads(run.input) if run.input else {}
        messages, before = await self._before_run(thread, run, given)
        state = given.get("state")
        if state is None:
            state = await thread.history.messages.get_state(thread.chat_uuid)
        prelude = Prelude(messages, state)
        last = await self._see(prelude, run)
        told = prelude.events(thread.thread_id, run.run_id, speaks_1_x=thread.speaks_1_x, before=_cursor(before))
        tail = await self._runs.follow(thread.history, thread.thread_id, run.run_id, last)
        batches = _joined(told, tail.batches, skips_start=not prelude.has_started, speaks_1_x=thread.speaks_1_x)
        return RunStream(run.run_id, batches)

    async def _see(self, prelude: Prelude, run: Run) -> int:
        """Show the prelude what is in the log of a run, but for its end. The index of the last event that it saw."""
        last = -1
        while page := await self._container.run_log.read(run.key, last):
            for logged in page:
                event = WireEvent(logged.data)
                if event.type in TERMINAL_TYPES:
                    return last
                prelude.see(event.type, event.fields)
                last = logged.index
            # A long log is many pages, and others are served between them.
            await asyncio.sleep(0)
        return last

    async def _before_run(
        self, thread: _Thread, run: Run, given: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], int | None]:
        """What a client shows before the first event of a run, and where the messages before that are."""
        history, session_id = thread.history, thread.session.id
        page = await self._branches.ending_with(history, session_id, limit=WINDOW)
        own = [event for event in page.events if body_of(event).get("run_id") == run.run_id]
        if not own:
            return await self._before_rows(thread, run, given)
        if own[-1] is not page.events[-1]:
            page = await self._branches.ending_with(history, session_id, own[-1].sequence_id, limit=WINDOW)
        while page.before is not None and all(_is_said_by(run, event) for event in page.events):
            page = await self._branches.before(history, session_id, page.before, limit=WINDOW)
        return await self._shown(thread, [event for event in page.events if not _is_said_by(run, event)]), page.before

    async def _before_rows(
        self, thread: _Thread, run: Run, given: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], int | None]:
        """The same for a run of which nothing is stored yet: read from its input, as the run itself reads it."""
        chat = thread.history.registry.known(thread.chat_uuid, thread.session.id, Chat)
        stored = [message for message in await last_messages(Message, chat, limits.PAGE) if message.is_readable()]
        rules = INPUT_RULES[self._container.settings.client_messages]
        arrival = read_input(given.get("messages") or [], given.get("resume") or [], stored, rules, run.parent_run_id)
        page = BranchPage([], None)
        if arrival.after != NOTHING:
            numbers = {message.message_uuid: message.sequence_id for message in stored}
            last = None if arrival.after is None else numbers.get(arrival.after)
            page = await self._branches.ending_with(thread.history, thread.session.id, last, limit=WINDOW)
        asked = [{name: value for name, value in fields.items() if value is not None} for fields in arrival.users]
        return [*await self._shown(thread, page.events), *asked], page.before

    async def _shown(self, thread: _Thread, events: Sequence[Event]) -> list[dict[str, Any]]:
        pieces = await self._branches.long_values(thread.history, thread.session.id, events)
        return shown_messages([put_back_in(body_of(event), pieces.value) for event in events])

    async def _outcome(self, thread: _Thread, run: Run) -> Any:
        """How a run has ended, for the reader. What waits for an answer is told, whichever run has asked it.

        One that failed, or was refused, has answered nothing: the questions before it are open again, or still.
        """
        outcome = None if run.outcome is None else json.loads(run.outcome)
        known = outcome if isinstance(outcome, dict) else {}
        if waiting := await self._container.interrupts.waiting(thread.history.principal, run.key):
            said = known if known.get("type") == "interrupt" else {"type": "interrupt"}
            return {**said, "interrupts": [json.loads(each.payload) for each in waiting]}
        return known if known and known.get("type") != "interrupt" and thread.speaks_1_x else None


def _is_said_by(run: Run, event: Event) -> bool:
    body = body_of(event)
    return body.get("run_id") == run.run_id and body.get("role") != Role.USER


def _cursor(number: int | None) -> str | None:
    return None if number is None else str(number)


def _at_once(
    prelude: Prelude,
    thread_id: str,
    run_id: str,
    speaks_1_x: bool,
    outcome: Any = None,
    before: int | None = None,
) -> RunStream:
    """A prelude and its end."""
    told = prelude.events(thread_id, run_id, speaks_1_x=speaks_1_x, before=_cursor(before))
    end = {"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id}
    return RunStream(run_id, _told([*told, end if outcome is None else {**end, "outcome": outcome}]))


async def _told(events: Sequence[Fields]) -> AsyncGenerator[Batch, None]:
    yield [(None, event_json(event)) for event in events]


async def _joined(
    told: Sequence[Fields], tail: AsyncGenerator[Batch, None], *, skips_start: bool, speaks_1_x: bool
) -> AsyncGenerator[Batch, None]:
    """A prelude and its tail, whose first event the prelude may stand for."""
    yield [(None, event_json(event)) for event in told]
    async with aclosing(tail):
        async for batch in tail:
            is_start = skips_start and WireEvent(batch[0][1]).type == "RUN_STARTED"
            skips_start = False
            if rest := batch[1:] if is_start else batch:
                yield rest if speaks_1_x else [(index, _for_older(data)) for index, data in rest]


def _for_older(data: bytes) -> bytes:
    """An event for a client that does not say that it speaks 1.x: to it a run that was cancelled has finished."""
    if b'"cancelled"' not in data:
        return data
    event = WireEvent(data)
    outcome = event.fields.get("outcome")
    if event.type != "RUN_FINISHED" or not isinstance(outcome, dict) or outcome.get("type") != "cancelled":
        return data
    return event_json({name: value for name, value in event.fields.items() if name != "outcome"})
