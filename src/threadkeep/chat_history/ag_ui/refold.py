"""A run that broke off, folded once more from the log of its events, over what is stored of it.

Every record gets the uuid that it got the first time (`identities`), so that what is stored is found and brought up to
the log, and what is missing is added: however often this is done, and wherever it is broken off itself. Where the store
knows more than the log, as of what came last before a process died, the store is right.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from threadkeep.chat_history.ag_ui.patience import Verdict, verdict_on
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.records import Reasoning, Row
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.stored_rows import StoredRecord, StoredRows
from threadkeep.chat_history.ag_ui.turn import Written
from threadkeep.chat_history.ag_ui.wire import event_fields, event_type
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.models import Message, ToolCall

logger = logging.getLogger("threadkeep.chat_history")

Handle = Callable[[object], Awaitable[None]]


async def refold(
    state: StorageState,
    stored: StoredRows,
    handle: Handle,
    finished: Callable[[], None],
    events: Sequence[object],
    own: Sequence[Message],
    error: str,
) -> None:
    """Fold the events, and store what is not stored of them.

    Args:
        state: that of a run that was opened again.
        stored: what is known of its rows.
        handle: what folds one event.
        finished: called when all records have their end.
        events: all that the log has of the run, in order.
        own: what is stored of the run.
        error: why the run ends, where its events do not say.

    Raises what the repositories raise; what is stored by then stays.
    """
    stored.found(own)
    terminal: object = None
    for event in events:
        kind = event_type(event)
        terminal = event if terminal is None and kind in TERMINAL_TYPES else terminal
        state.current_event_timestamp = datetime.now(UTC)
        try:
            await handle(event)
        except Exception:
            logger.exception("run %r: recording a %s event failed", state.run_id, kind)
    for row in state.fold.turn.rows:
        _keep_more(row, state, stored)
    now = datetime.now(UTC)
    if terminal is not None:
        state.fold.apply(event_type(terminal), event_fields(terminal), now)
    state.fold.finish(MessageStatus.INTERRUPTED, now, error)
    finished()
    places: dict[Written, int] = {row: place for place, row in enumerate(state.fold.turn.rows)}
    await _store(sorted(state.fold.turn.dirty, key=lambda row: places.get(row, -1)), state, stored)


async def _store(rows: Sequence[Written], state: StorageState, stored: StoredRows) -> None:
    """All rows at once; where the store refuses one, all the others."""
    try:
        if rows:
            await stored.store(rows)
    except Exception as error:
        verdict = verdict_on(error)
        if verdict is not Verdict.REFUSED:
            raise
        if len(rows) == 1:
            logger.exception("run %r: the store refuses a message; it is not stored in full", state.run_id)
            return
        for row in rows:
            await _store([row], state, stored)


def _keep_more(row: Row, state: StorageState, stored: StoredRows) -> None:
    """Take from what is stored what the events do not have."""
    if row not in state.message_creates:
        return
    _take_text(row, stored.seen(row))
    for call in row.calls:
        seen = stored.seen(call)
        if isinstance(seen, ToolCall):
            if _is_longer(seen.arguments, str(call.arguments)):
                call.arguments.replace(seen.arguments)
            if not call.answered and seen.status in (MessageStatus.COMPLETE, MessageStatus.ERRORED):
                call.content, call.parts, call.result_id = seen.content, seen.parts, seen.tool_call_id
                call.status, call.error, call.answered = seen.status, seen.error, True
    for step in row.reasonings:
        _take_text(step, stored.seen(step))


def _take_text(record: Row | Reasoning, seen: StoredRecord | None) -> None:
    if seen is None:
        return
    if _is_longer(seen.content, str(record.content)):
        record.content.replace(seen.content)
    if record.status is MessageStatus.ACTIVE and seen.status == MessageStatus.COMPLETE:
        record.status = MessageStatus.COMPLETE


def _is_longer(seen: str, text: str) -> bool:
    return len(seen) > len(text) and seen.startswith(text)
