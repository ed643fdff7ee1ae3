"""The prelude of a stream that somebody joins: all that there was, in few events, so that what comes next fits. Pure.

It begins a run, brings the messages and the state as a client has them that saw everything, and opens again what is
open: the published clients refuse the rest of a message whose beginning they have not seen, and add to one that is
opened again. Nothing of it is in the log, so none of its events has a cursor.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from threadkeep.chat_history.ag_ui.chunk_streams import ChunkStreams
from threadkeep.chat_history.ag_ui.client_view import ClientView
from threadkeep.chat_history.ag_ui.older_clients import message_for
from threadkeep.chat_history.ag_ui.open_blocks import Fields, OpenBlocks, opening_again

HISTORY = "threadkeep.history"
"""The CUSTOM event that says where the messages before those of the prelude are."""


class Prelude:
    """What a reader is told before the events behind the last one that was seen here.

    Args:
        messages: what a client shows before the run, as AG-UI messages.
        state: the state before it; what the run was given, where it was given one.
    """

    def __init__(self, messages: Iterable[Mapping[str, Any]] = (), state: Any = None) -> None:
        self._view = ClientView(messages, state)
        self._chunks = ChunkStreams()
        self._blocks = OpenBlocks()
        self._begin: Fields = {}
        self._unanswered: dict[str, list[Fields]] = {}

    @property
    def has_started(self) -> bool:
        """Whether the run's own RUN_STARTED was seen. Where it was not, and comes next, the prelude stands for it."""
        return self._blocks.started

    def see(self, kind: str, fields: Mapping[str, Any]) -> None:
        """An event of the run that lies behind the reader."""
        if kind == "RUN_STARTED" and not self._begin:
            self._begin = opening_again(kind, {**fields, "input": None})
        self._blocks.see(kind, fields)
        for expanded in self._chunks.expand(kind, fields):
            self._view.see(*expanded)
            self._note_call(*expanded)

    def events(
        self, thread_id: str, run_id: str, *, speaks_1_x: bool, before: str | None = None, total: int | None = None
    ) -> list[Fields]:
        """The prelude, as fields under their wire names.

        Args:
            thread_id: of the run, where it has not said so itself.
            run_id: the same.
            speaks_1_x: whether the reader said that it speaks AG-UI 1.x.
            before: where there are messages before the first one: the cursor of their page.
            total: how many messages there are, where that is known.
        """
        messages = [message_for(message, speaks_1_x=speaks_1_x) for message in self._view.messages()]
        events = [self._run_started(thread_id, run_id, speaks_1_x), {"type": "MESSAGES_SNAPSHOT", "messages": messages}]
        state = self._view.state
        if state.changed or state.value not in (None, {}):
            events.append({"type": "STATE_SNAPSHOT", "snapshot": state.value})
        if before is not None:
            value = {"before": before} | ({} if total is None else {"total": total})
            events.append({"type": "CUSTOM", "name": HISTORY, "value": value})
        # Chunks last: whatever else came would end their lanes.
        return [*events, *self._reopening(), *map(dict, self._chunks.openers())]

    def _run_started(self, thread_id: str, run_id: str, speaks_1_x: bool) -> Fields:
        begin = {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id, **self._begin}
        if not speaks_1_x:
            begin.pop("protocolVersion", None)
        return begin

    def _note_call(self, kind: str, fields: Mapping[str, Any]) -> None:
        call_id = str(fields.get("toolCallId"))
        if kind == "TOOL_CALL_START":
            self._unanswered[call_id] = [opening_again(kind, fields)]
        elif kind == "TOOL_CALL_END" and call_id in self._unanswered:
            self._unanswered[call_id][1:] = [opening_again(kind, fields)]
        elif kind == "TOOL_CALL_RESULT":
            self._unanswered.pop(call_id, None)

    def _reopening(self) -> Iterable[Fields]:
        # A call without a result is open too, though all of it was said: clients count those that they saw begin.
        yield from (event for events in self._unanswered.values() if len(events) > 1 for event in events)
        for event in self._blocks.reopening():
            yield event
            if event["type"] == "THINKING_TEXT_MESSAGE_START" and self._view.thinking:
                # Clients make up the id of such a block, so its text cannot stand among the messages.
                yield {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": str(self._view.thinking)}
