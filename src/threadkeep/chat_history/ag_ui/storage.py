"""The storage agent: the agent that it wraps, plus history. What goes out is what came in, at once.

`run` stores what the client sent and replays history, then passes the inner agent's events on while two tasks work
behind it: one folds the events through the handlers below, one writes the rows that have changed. However the stream
ends (a terminal event, none, a crash, a cancellation, a consumer that leaves), the records get their end.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from ag_ui.core import BaseEvent, RunAgentInput, RunErrorEvent

from threadkeep.chat_history.ag_ui.agent import AGUIAgent, ErrorCodes, close_events
from threadkeep.chat_history.ag_ui.backlog import Backlog
from threadkeep.chat_history.ag_ui.fold import FOLDED_TYPES
from threadkeep.chat_history.ag_ui.handlers import Routes, default_handlers
from threadkeep.chat_history.ag_ui.inputs import LENIENT, InputRules
from threadkeep.chat_history.ag_ui.kept_events import KeepEvents, is_kept
from threadkeep.chat_history.ag_ui.opening import InvalidInput, OpenedRun, live_runs, open_run
from threadkeep.chat_history.ag_ui.patience import Clock, LoopClock, Patience
from threadkeep.chat_history.ag_ui.policy import FlushPolicy
from threadkeep.chat_history.ag_ui.recording import Recording
from threadkeep.chat_history.ag_ui.refold import refold
from threadkeep.chat_history.ag_ui.reopening import again_with
from threadkeep.chat_history.ag_ui.replayed import ExtendedBaseMessage
from threadkeep.chat_history.ag_ui.shapes import RecordShapes, shape_records
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.stored_rows import StoredRows
from threadkeep.chat_history.ag_ui.wire import WireInput, event_fields, event_type
from threadkeep.chat_history.ag_ui.writer import RowWriter
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.models import Chat, Message
from threadkeep.chat_history.protocols import ChatRepositoryLike, MessageRepositoryLike
from threadkeep.chat_history.repair import repair_messages
from threadkeep.chat_history.translate import translate_messages

logger = logging.getLogger("threadkeep.chat_history")

Translate = Callable[[Sequence[Message]], list[ExtendedBaseMessage]]
Repair = Callable[[Sequence[ExtendedBaseMessage]], list[ExtendedBaseMessage]]

StreamEnded = Callable[[Exception | None], None]
when_stream_ends: ContextVar[StreamEnded | None] = ContextVar("when_stream_ends", default=None)
"""Called when the inner agent's stream has ended, with its exception where it raised one: the generator itself may end
a little later, when the record is stored. For the run that begins next in the task; an agent may carry out several."""

# Tasks that outlive the generator that began them; the loop itself holds them only weakly.
_closing: set[asyncio.Task[None]] = set()


class AGUIStorageAgent(AGUIAgent, RecordShapes):
    """Wraps an AG-UI agent and keeps its runs as chat history.

    ```python
    agent = AGUIStorageAgent("assistant", user_id, chat_repo, message_repo, inner_agent)
    async for event in agent.run(input):
        ...
    ```

    Override what you want to be different: `event_handlers` for new event types, a `handle_*` method for a whole
    family of events, a `build_*` method for the first shape of a record, `message_update_fields` for its last one.
    Handlers may do I/O; the stream does not wait for them.

    Args:
        name: what the agent is called.
        user_id: whose chats these are.
        chat_repo: where chats are kept.
        message_repo: where messages are kept.
        inner: the agent to wrap.
        minimal_chunk_to_persist: characters that make a growing message worth a write of its own; smaller changes
            are written after a second or so, and when the message ends.
        max_queue_size: events that may wait to be recorded.
        put_timeout: seconds that an event waits for room in that queue before it is left out of the record, which then
            ends as errored and says so.
        translate: how stored messages become the history that the inner agent is given; `translate_messages` if None.
        max_pending_bytes: how many bytes of a run may be held because the store has not taken them yet; events beyond
            are left out of the record, which then ends as errored and says so.
        repair: how that history becomes one that model providers accept; None leaves it as it is translated.
        input_rules: how the messages of an input are read: which of them are new, and which are refused.
        keep_events: events to keep as they came, beside what is folded of them: types such as `{"CUSTOM"}`, or a
            function of an event's type and its fields under their wire names. None by default. `get_events` of the
            message repository returns them.

    Attributes:
        patience: how long a failing store is borne with. A class may have its own.
        clock: the time by which it is.
    """

    patience: Patience = Patience()
    clock: Clock = LoopClock()

    def __init__(
        self,
        name: str,
        user_id: UUID,
        chat_repo: ChatRepositoryLike,
        message_repo: MessageRepositoryLike,
        inner: AGUIAgent,
        minimal_chunk_to_persist: int = 5000,
        max_queue_size: int = 10_000,
        put_timeout: float = 0.1,
        translate: Translate | None = None,
        max_pending_bytes: int = 32 * 1024 * 1024,
        *,
        repair: Repair | None = repair_messages,
        input_rules: InputRules = LENIENT,
        keep_events: KeepEvents = (),
    ) -> None:
        super().__init__(name)
        self.user_id = user_id
        self.chat_repo = chat_repo
        self.message_repo = message_repo
        self.inner = inner
        self.minimal_chunk_to_persist = minimal_chunk_to_persist
        self.max_queue_size = max_queue_size
        self.put_timeout = put_timeout
        self.max_pending_bytes = max_pending_bytes
        self.input_rules = input_rules
        self.keep_events = keep_events
        self._translate = translate or translate_messages
        self._repair = repair
        self._routes = _routes(type(self))
        self._storing: set[asyncio.Task[None]] = set()

    async def run(self, input: RunAgentInput | WireInput) -> AsyncGenerator[BaseEvent, None]:
        """Store what the client sent, replay history, then stream the inner agent while its events are recorded.

        Only user messages may be new, and tool messages that answer a stored call which has no result yet. What is
        stored already is recognised when it is sent again, tool results and reasonings included, and under new ids too.

        Args:
            input: the run's input. Its `messages` are replaced in place by the translated history of the chat, new
                messages included, before the inner agent runs. Where the user has edited an earlier message, or asks
                for another answer to it, the history ends there.

        Yields:
            The inner agent's events, unchanged; or one RUN_ERROR with the code INVALID_INPUT, where the input has a
            new message of another kind. Nothing is stored then and the inner agent is not called.

        Raises:
            Exception: what the inner agent raises, once the records have ended as errored; what the repositories
                raise before the inner agent is called, since a chat that cannot be read is not an empty one.

        The end of the stream waits for the record, but not longer than `patience.settle`: then the record is stored
        behind it, and `stored` waits for that.
        """
        tell_end = when_stream_ends.get() or (lambda error: None)
        # Agents inside this one are not meant.
        when_stream_ends.set(None)
        try:
            opened = await open_run(self.user_id, self.chat_repo, self.message_repo, input, self.input_rules)
        except InvalidInput as error:
            yield RunErrorEvent(message=str(error), code=ErrorCodes.INVALID_INPUT.value)
            return
        try:
            input.messages[:] = self.repair(self.translate(opened.history))  # type: ignore[assignment]
            recording = self._record(opened)
        except BaseException:
            live_runs.leave(opened.chat.chat_uuid, opened.run_id)
            raise
        cancellations = _cancellations()
        try:
            events = self.inner.run(input)  # type: ignore[arg-type]
            try:
                async for event in events:
                    if _cancellations() > cancellations:
                        # The inner agent was told to stop and took no notice.
                        raise asyncio.CancelledError
                    if not recording.take(event):
                        await recording.take_or_miss(event)
                    yield event
            finally:
                await close_events(events)
        except (asyncio.CancelledError, GeneratorExit):
            recording.end(MessageStatus.INTERRUPTED)
            raise
        except Exception as error:
            recording.end(MessageStatus.ERRORED, str(error) or type(error).__name__)
            tell_end(error)
            raise
        else:
            recording.end(MessageStatus.ERRORED, "The agent's stream ended without a terminal event")
            tell_end(None)
        finally:
            await self._see_to_the_end(recording, opened)

    async def refold(self, input: RunAgentInput | WireInput, events: Sequence[object], error: str) -> None:
        """Bring the record of a run that broke off up to the events that are known of it, and end it.

        What is stored of the run is found and brought up to date, what is missing is added, and nothing is stored
        twice, however often this is done. Nothing may write the record meanwhile.

        Args:
            input: the run's input, as it came.
            events: its events from the first one on, in order, as objects or as WireEvent.
            error: why it ends, where none of them is terminal; what is open ends as interrupted then.

        Raises:
            Exception: what the repositories raise; it can be tried again.
        """
        try:
            opened = await open_run(
                self.user_id, self.chat_repo, self.message_repo, input, self.input_rules, again_with(events)
            )
        except InvalidInput:
            # It was refused the first time too, and nothing was stored.
            return
        try:
            state, stored = self._begin_record(opened)

            async def handle(event: object) -> None:
                await self._dispatch(state, event)

            await refold(state, stored, handle, lambda: shape_records(self, state, None), events, opened.own, error)
        finally:
            live_runs.leave(opened.chat.chat_uuid, opened.run_id)

    async def stored(self) -> None:
        """Wait until the records of this agent's runs that have ended are stored, or given up. Never raises for it."""
        if self._storing:
            await asyncio.wait([*self._storing])

    def translate(self, messages: Sequence[Message]) -> list[ExtendedBaseMessage]:
        """The history that the inner agent is given, made from stored messages."""
        return self._translate(messages)

    def repair(self, messages: Sequence[ExtendedBaseMessage]) -> list[ExtendedBaseMessage]:
        """The translated history in the form that model providers accept; the stored record is not touched by it."""
        return [*messages] if self._repair is None else self._repair(messages)

    # Which events are handled, and how

    @classmethod
    def event_handlers(cls) -> dict[type[BaseEvent] | str, str]:
        """The handler method's name for each class of events; subclasses of a class go the same way.

        Override it to add your own: `{**super().event_handlers(), MyCustomEvent: "handle_my_custom_event"}`. A key may
        also be an event's type as a string, for events that have no class.
        """
        return default_handlers()

    async def handle_text_message(self, state: StorageState, chat: Chat, event: Any) -> None:
        """Record a text message event."""
        self._fold(state, event)

    async def handle_tool_call(self, state: StorageState, chat: Chat, event: Any) -> None:
        """Record a tool call event."""
        self._fold(state, event)

    async def handle_reasoning(self, state: StorageState, chat: Chat, event: Any) -> None:
        """Record a reasoning event; the older THINKING_* events are the same thing."""
        self._fold(state, event)

    async def handle_run_lifecycle(self, state: StorageState, chat: Chat, event: Any) -> None:
        """Record the beginning or the end of the run; its end is the end of all records that are still open."""
        self._fold(state, event)

    async def handle_step(self, state: StorageState, chat: Chat, event: Any) -> None:
        """Keep track of the step that new messages belong to."""
        self._fold(state, event)

    async def handle_messages_snapshot(self, state: StorageState, chat: Chat, event: Any) -> None:
        """Take from a snapshot of the conversation what the stream did not bring."""
        self._fold(state, event)

    async def handle_unknown_event(self, state: StorageState, chat: Chat, event: Any) -> None:
        """An event without a handler. Nothing is recorded of it; override this to do so."""

    # Writing early

    async def flush_message_buffer(self, state: StorageState) -> None:
        """Store now what has come of the messages, instead of when it is due."""
        await self._flush(state)

    async def flush_tool_call_buffer(self, state: StorageState) -> None:
        """Store now what has come of the tool calls."""
        await self._flush(state)

    async def flush_reasoning_buffer(self, state: StorageState) -> None:
        """Store now what has come of the reasonings."""
        await self._flush(state)

    # The machinery

    def _begin_record(self, opened: OpenedRun) -> tuple[StorageState, StoredRows]:
        state = StorageState(
            chat=opened.chat,
            thread_id=opened.thread_id,
            run_id=opened.run_id,
            fold=opened.fold,
            current_event_timestamp=datetime.now(UTC),
            follows=opened.follows,
            take=opened.take,
        )
        stored = StoredRows(state, self.message_repo)
        for record, uuid in opened.carried.items():
            stored.adopt(record, uuid)
        return state, stored

    def _record(self, opened: OpenedRun) -> Recording:
        state, stored = self._begin_record(opened)
        policy = FlushPolicy(minimal_chunk=self.minimal_chunk_to_persist)
        backlog = Backlog(self.max_pending_bytes)
        writer = state.writer = RowWriter(state, stored, self.message_repo, policy, self.patience, backlog, self.clock)

        async def handle(event: object) -> None:
            await self._dispatch(state, event)

        return Recording(
            state,
            writer,
            handle,
            finished=lambda: shape_records(self, state, None),
            backlog=backlog,
            max_queue_size=self.max_queue_size,
            put_timeout=self.put_timeout,
        )

    async def _dispatch(self, state: StorageState, event: object) -> None:
        kind = event_type(event)
        if self.keep_events:
            self._keep(state, kind, event)
        name = self._routes.handler_of(event, kind)
        try:
            if name is not None:
                await getattr(self, name)(state, state.chat, event)
            else:
                if kind in FOLDED_TYPES:
                    self._fold(state, event)
                await self.handle_unknown_event(state, state.chat, event)
        finally:
            turn = state.fold.turn
            if turn.born or turn.ended:
                shape_records(self, state, event)

    def _keep(self, state: StorageState, kind: str, event: object) -> None:
        fields = event_fields(event)
        try:
            wanted = is_kept(self.keep_events, kind, fields)
        except Exception:
            logger.exception("run %r: whether a %s event is to be kept could not be told", state.run_id, kind)
            return
        if wanted:
            state.fold.keep_event(kind, fields, state.current_event_timestamp)

    def _fold(self, state: StorageState, event: object) -> None:
        state.fold.apply(event_type(event), event_fields(event), state.current_event_timestamp)

    async def _flush(self, state: StorageState) -> None:
        if state.writer is not None:
            await state.writer.flush()

    async def _see_to_the_end(self, recording: Recording, opened: OpenedRun) -> None:
        """Wait until the record is stored, not for ever. A second cancellation ends the waiting, not the storing."""

        async def close() -> None:
            try:
                await recording.close()
            except Exception:
                # How the run itself ended is what its caller must hear of.
                logger.exception("run %r: its record could not be ended", opened.run_id)
            finally:
                live_runs.leave(opened.chat.chat_uuid, opened.run_id)

        task = asyncio.create_task(close(), name=f"store the rest of {opened.run_id}")
        for tasks in (_closing, self._storing):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.wait([task], timeout=self.patience.settle)


@lru_cache(maxsize=64)
def _routes(agent: type[AGUIStorageAgent]) -> Routes:
    return Routes(agent.event_handlers())


def _cancellations() -> int:
    """How often the present task was asked to stop."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
