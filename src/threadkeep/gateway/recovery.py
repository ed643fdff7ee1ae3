"""The end of a run that has lost its process, made by whoever has taken it over.

Its log is folded again over what is stored of it, so that the history has all that a reader has seen; what is open
after that ends as interrupted; and the last event goes into the log together with the end of the row. All of it can be
done again: a process that dies in the middle leaves the run to the next one.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from threadkeep.chat_history import MessageReasoningUpdate, MessageToolCallUpdate, MessageUpdate
from threadkeep.chat_history.ag_ui.endings import as_events, cancelled, failure
from threadkeep.chat_history.ag_ui.leftovers import interrupted, leftovers
from threadkeep.chat_history.ag_ui.open_blocks import OpenBlocks
from threadkeep.chat_history.ag_ui.patience import Verdict, verdict_on
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.run_end import ending_of
from threadkeep.chat_history.ag_ui.wire import WireEvent, WireInput, event_json
from threadkeep.chat_history.models import Message, ToolCall
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run
from threadkeep.domain.session import Session
from threadkeep.errors import Invalid, LeaseLost, NotFound
from threadkeep.gateway.agents import AgentSource
from threadkeep.gateway.answers import chat_uuid_of
from threadkeep.gateway.failures import FailureCode
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.gateway.histories import Histories, History, in_the_name_of
from threadkeep.gateway.inputs import RunBody, parse_body
from threadkeep.gateway.local_runs import storing
from threadkeep.services.container import Container
from threadkeep.services.run_writer import RunWriter
from threadkeep.streams.run_log import RunEnding

WHY = "The process that ran it has gone"
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0
_ATTEMPTS = 3
"""How often the history is tried where it is no outage that fails it: the thread must not be closed for ever."""

_log = logging.getLogger("threadkeep.gateway")


async def end_lost_run(container: Container, histories: Histories, source: AgentSource, row: Run) -> None:
    """End a run that this process has taken over. `row` is as it is now, but for its input.

    A store that is down is waited for. Returns early where another process has taken the run over meanwhile.
    """
    attempts, delay, with_history = 0, _FIRST_RETRY, True
    while True:
        try:
            await _end(container, histories, source, row, with_history=with_history)
            return
        except LeaseLost:
            _log.warning("another process has ended run=%s", row.run_id)
            return
        except Exception as error:
            verdict = verdict_on(error)
            if verdict is Verdict.GONE and with_history:
                # The thread was deleted in this moment, or the run taken: without the history, that is told apart.
                with_history = False
                continue
            if verdict is Verdict.DOWN:
                _log.warning("lost run cannot be ended yet run=%s: %s", row.run_id, error)
            else:
                _log.exception("lost run could not be ended run=%s", row.run_id)
                attempts += 1
                with_history = with_history and attempts < _ATTEMPTS
        await asyncio.sleep(delay)
        delay = min(2 * delay, _LONGEST_RETRY)


async def _end(
    container: Container, histories: Histories, source: AgentSource, row: Run, *, with_history: bool
) -> None:
    principal = Principal(row.user_id, row.tenant_id)
    events = await _read(container, row)
    body = await _input_of(container, principal, row)
    if with_history:
        with in_the_name_of(row):
            await _bring_history_up(container, histories, source, row, body, events)
    terminal = next((event for event in events if event.type in TERMINAL_TYPES), None)
    last: list[bytes] = []
    if terminal is not None:
        ending = ending_of(terminal.type, terminal.fields)
    else:
        last, ending = _last_events(row, body, events)
    await RunWriter(container.runs, container.run_log, row).finish(len(events), last, ending)


async def _read(container: Container, row: Run) -> list[WireEvent]:
    events: list[WireEvent] = []
    while some := await container.run_log.read(row.key, len(events) - 1):
        events += [WireEvent(event.data) for event in some]
    return events


async def _input_of(container: Container, principal: Principal, row: Run) -> RunBody | None:
    try:
        run = await container.runs.get(principal, row.space_id, row.session_id, row.run_id)
        return None if run.input is None else parse_body(run.input.encode("utf-8", "surrogatepass"))
    except (NotFound, Invalid):
        # The thread is deleted: nobody sees what became of it.
        return None


async def _bring_history_up(
    container: Container,
    histories: Histories,
    source: AgentSource,
    row: Run,
    body: RunBody | None,
    events: Sequence[WireEvent],
) -> None:
    principal = Principal(row.user_id, row.tenant_id)
    try:
        session = await container.sessions.get(principal, row.space_id, row.session_id)
    except NotFound:
        return
    history = await histories.of(principal)
    if history.space_id != row.space_id:
        # A library's run, whose chats are elsewhere: the next run there ends what is open.
        return
    if body is not None:
        try:
            given, agent = source.prepare(body)
        except Invalid:
            # Whoever took this input was of another release. What there is to see of the run is seen all the same.
            _log.warning("the input of a lost run is not taken any more run=%s", row.run_id)
        else:
            await storing(GuardedAgent(agent), history, container.settings).refold(given, events, WHY)
    await close_records(history, session)


def _last_events(row: Run, body: RunBody | None, events: Sequence[WireEvent]) -> tuple[list[bytes], RunEnding]:
    """What ends a run whose log has no end."""
    if row.cancel_wanted_at is None or body is None:
        last = [event_json(failure(WHY, FailureCode.STOPPED))]
        return last, RunEnding("interrupted", error=WHY)
    blocks = OpenBlocks()
    for event in events:
        blocks.see(event.type, event.fields)
    given: Any = WireInput(body.fields)
    last = [event_json(event) for event in as_events(cancelled(given, blocks))]
    return last, RunEnding("interrupted", {"type": "cancelled"})


async def close_records(history: History, session: Session) -> None:
    """End the records of the chat in `session` that no run is writing any more."""
    chat_uuid = chat_uuid_of(session.metadata)
    if chat_uuid is None:
        return
    # The session is known, so that nothing depends on a locator.
    history.registry.register(chat_uuid, session.id)
    for record in leftovers(await history.messages.get_chat_messages(chat_uuid), live_runs=()):
        fields = interrupted(record, WHY)
        if isinstance(record, Message):
            await history.messages.update_message(record.message_uuid, MessageUpdate.model_validate(fields))
        elif isinstance(record, ToolCall):
            await history.messages.update_message_tool_call(record.uuid, MessageToolCallUpdate.model_validate(fields))
        else:
            await history.messages.update_message_reasoning(record.uuid, MessageReasoningUpdate.model_validate(fields))
