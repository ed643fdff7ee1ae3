"""Runs that go on when their reader leaves.

The producer task of a run drains the storage agent into a stream; readers follow the stream. So a reader that goes
away stops nothing, several may read one run, and only `cancel` cancels. The stream ends with the first terminal
event, and it always gets one: where the agent raises, stops without one, or is cancelled, it is made here.

Without a log the stream is a channel of this process: the terminal event waits for no store, and the storing of the
rest goes on behind it; `wait` and `drain` wait for that too. With a log (`logged_stream.py`) events have an index, may
be read from any process and at any time, and the terminal event says that the history is stored.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Generic, ParamSpec

from ag_ui.core import BaseEvent, RunAgentInput

from threadkeep.chat_history.ag_ui.agent import AGUIAgent, close_events
from threadkeep.chat_history.ag_ui.endings import as_events, cancelled, failure
from threadkeep.chat_history.ag_ui.open_blocks import OpenBlocks
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.run_end import ending_of
from threadkeep.chat_history.ag_ui.storage import AGUIStorageAgent, when_stream_ends
from threadkeep.chat_history.ag_ui.wire import WireEvent, event_fields, event_json, event_type
from threadkeep.chat_history.logged_stream import LoggedStream
from threadkeep.streams.local import Channel
from threadkeep.streams.run_log import Batch, RunEnding, RunLog, RunWriter

RUN_BYTES = 32 * 1024 * 1024
"""How many bytes of a run may wait for its log before the agent has to."""

logger = logging.getLogger("threadkeep.chat_history")

P = ParamSpec("P")
Event = BaseEvent | WireEvent


class RunHandle:
    """One run that was started by a StreamPersistenceManager.

    Attributes:
        thread_id: AG-UI's thread id.
        run_id: AG-UI's run id.
    """

    def __init__(self, run_input: Any) -> None:
        self.thread_id: str = run_input.thread_id
        self.run_id: str = run_input.run_id
        self._input = run_input
        self._channel: Channel[Event] = Channel()
        self._logged: LoggedStream | None = None
        self._elsewhere: RunWriter | None = None
        self._ending: RunEnding | None = None
        self._is_abandoned = False
        self._blocks = OpenBlocks()
        self._task: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[Event]:
        """The run's events from the first one on, each as it comes, up to its terminal event.

        May be called several times. A reader that stops early stops nothing. Where the run has a log, the events are
        `WireEvent`s.
        """
        if self._logged is None and self._elsewhere is None:
            async for event in self._channel.follow():
                yield event
        else:
            async with aclosing(self.follow()) as logged:
                async for _, data in logged:
                    yield WireEvent(data)

    async def follow(self, after: int = -1) -> AsyncGenerator[tuple[int | None, bytes], None]:
        """The run's events after an index, each as its JSON, up to the terminal event.

        Args:
            after: the index of the last event that the reader has seen; -1 for all.

        Yields:
            The index of each event and its JSON. The index counts from 0 without a gap. It is None where the log does
            not have the event yet because it does not answer: a reader cannot resume after such an event.
        """
        async with aclosing(self.batches(after)) as batches:
            async for batch in batches:
                for index, data in batch:
                    yield index, data

    def batches(self, after: int = -1) -> AsyncGenerator[Batch, None]:
        """The events that `follow` yields, in the same order: those that are there together come together."""
        return self._one_by_one(after) if self._logged is None else self._logged.batches(after)

    async def _one_by_one(self, after: int) -> AsyncGenerator[Batch, None]:
        if self._elsewhere is not None:
            events = self._elsewhere.follow(after)
            try:
                async for logged in events:
                    yield [(logged.index, logged.data)]
            finally:
                await close_events(events)
        else:
            index = after + 1
            async for event in self._channel.follow(index):
                yield [(index, event_json(event))]
                index += 1

    def cancel(self) -> bool:
        """Cancel the run: what is open is closed, its open records end as interrupted, the agent is stopped.

        Its readers get a terminal event at once; where the run has a log, when the history is stored.

        Returns:
            Whether there was something to cancel; False once the run has had its terminal event, and for a run that
            this process only follows.
        """
        return self._stop(RunEnding("interrupted", {"type": "cancelled"}), None)

    def fail(self, message: str, code: str) -> bool:
        """Stop the run for a reason that is not its agent's. Its readers get a RUN_ERROR, its row is interrupted.

        Returns:
            Whether there was something to stop, as `cancel` does.
        """
        return self._stop(RunEnding("interrupted", error=message), failure(message, code))

    async def wait(self) -> None:
        """Wait until the run is over and its record stored. How it went is in the record; this never raises for it."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def over(self) -> None:
        """Wait until the run's readers have its terminal event."""
        if self._logged is not None:
            await self._logged.over()
        else:
            async for _ in self.follow():
                pass

    def lose(self) -> None:
        """Somebody else has the run: stop its agent. Its readers get from the log how it ends."""
        if self._logged is not None:
            self._logged.lose()

    async def abandon(self) -> None:
        """Let the run go without an end, for a process that ends. What is not stored of it is lost to this process."""
        self._is_abandoned = True
        self._abandon()
        if self._logged is not None:
            await self._logged.close()
        await self.wait()

    def _begin(self, make_agent: Callable[[], AGUIAgent], ended: Callable[[], object]) -> None:
        self._task = asyncio.create_task(self._produce(make_agent), name=f"run {self.run_id}")
        self._task.add_done_callback(lambda _: ended())

    def _log_to(self, writer: RunWriter, max_waiting: int) -> None:
        self._logged = LoggedStream(self.run_id, writer, self._abandon, max_waiting=max_waiting)

    @property
    def _is_closed(self) -> bool:
        return (self._channel if self._logged is None else self._logged).closed

    async def _produce(self, make_agent: Callable[[], AGUIAgent]) -> None:
        agent: AGUIAgent | None = None
        try:
            agent = make_agent()
            if type(agent).run is AGUIStorageAgent.run:
                # One that overrides it may have an end of its own for a stream that broke.
                when_stream_ends.set(self._end_without_terminal)
            events = agent.run(self._input)
            try:
                async for event in events:
                    self._publish(event)
                    if self._logged is not None:
                        await self._logged.room()
            finally:
                await close_events(events)
        except asyncio.CancelledError:
            # Whoever cancels the task itself, as a loop does that closes, has told the readers nothing yet.
            self._end_cancelled(RunEnding("interrupted", {"type": "cancelled"}), None)
        except Exception as error:
            logger.exception("run %r of thread %r failed", self.run_id, self.thread_id)
            self._end_without_terminal(error)
        else:
            self._end_without_terminal(None)
        finally:
            self._channel.close()
        try:
            if isinstance(agent, AGUIStorageAgent) and not self._is_abandoned:
                await agent.stored()
        finally:
            if self._logged is not None:
                self._logged.release()
        if self._logged is not None:
            await self._logged.written()

    def _stop(self, ending: RunEnding, terminal: BaseEvent | None) -> bool:
        if self._is_closed or self._task is None:
            return False
        self._end_cancelled(ending, terminal)
        self._task.cancel()
        return True

    def _abandon(self) -> None:
        """Somebody else has the run: stop the agent, whose events nobody may write any more."""
        if self._task is not None:
            self._task.cancel()

    def _end_without_terminal(self, error: Exception | None) -> None:
        message = "The agent's stream ended without a terminal event" if error is None else str(error)
        self._publish(failure(message or type(error).__name__))

    def _end_cancelled(self, ending: RunEnding, terminal: BaseEvent | None) -> None:
        if self._is_closed:
            return
        events = as_events(cancelled(self._input, self._blocks))
        if terminal is not None:
            events[-1] = terminal
        self._ending = ending
        for event in events:
            self._publish(event)

    def _publish(self, event: Event) -> None:
        if self._is_closed:
            return
        kind = event_type(event)
        fields = event_fields(event)
        is_last = kind in TERMINAL_TYPES
        if self._logged is None:
            self._channel.publish(event)
            if is_last:
                self._channel.close()
        elif is_last:
            self._logged.end(_json(event), self._ending or ending_of(kind, fields))
        else:
            self._logged.publish(_json(event))
        self._blocks.see(kind, fields)


def _json(event: Event) -> bytes:
    try:
        return event_json(event)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("The agent sent an event that is no JSON") from error


class StreamPersistenceManager(Generic[P]):
    """Starts runs of storage agents, and knows those that are under way.

    ```python
    manager = StreamPersistenceManager(
        lambda: AGUIStorageAgent("assistant", user_id, chat_repo, message_repo, inner_agent)
    )
    handle = await manager.run(input)
    async for event in handle.events():
        ...
    await handle.wait()
    ```

    Args:
        agent_factory: makes the agent of one run, from the further arguments of `run`.
        run_log: where the events of runs are kept, so that any process can follow them at any time; None keeps them
            for as long as their handles are there.
        max_waiting_bytes: how many bytes of a run may wait for that log before its agent has to wait.
    """

    def __init__(
        self,
        agent_factory: Callable[P, AGUIAgent],
        run_log: RunLog | None = None,
        *,
        max_waiting_bytes: int = RUN_BYTES,
    ) -> None:
        self._agent_factory = agent_factory
        self._run_log = run_log
        self._max_waiting = max_waiting_bytes
        self._live: dict[tuple[str, str], RunHandle] = {}
        self._beginning: dict[tuple[str, str], asyncio.Task[RunHandle]] = {}

    async def run(self, input: RunAgentInput, *args: P.args, **kwargs: P.kwargs) -> RunHandle:
        """Start a run and return its handle; one that is under way is not started twice, nor one that the log has.

        Args:
            input: the run's input; its thread id and run id name the run.
            *args: for the agent factory.
            **kwargs: for the agent factory.

        Raises:
            RunActive: the log has another run of the thread that is active.
            Unavailable: the log does not answer.
        """
        key = (input.thread_id, input.run_id)
        if (live := self._live.get(key)) is not None:
            return live
        if self._run_log is None:
            handle = RunHandle(input)
            self._carry_out(key, handle, lambda: self._agent_factory(*args, **kwargs))
        else:
            beginning = self._beginning.get(key)
            if beginning is None:
                beginning = asyncio.create_task(
                    self._begin(self._run_log, key, input, lambda: self._agent_factory(*args, **kwargs))
                )
                self._beginning[key] = beginning
                beginning.add_done_callback(lambda _: self._beginning.pop(key))
            # A caller that leaves in this moment must not leave a run in the log that nobody carries out.
            handle = await asyncio.shield(beginning)
        # The task has begun before the caller can cancel it; one that never begins would store nothing.
        await asyncio.sleep(0)
        return handle

    async def _begin(
        self, run_log: RunLog, key: tuple[str, str], input: RunAgentInput, make_agent: Callable[[], AGUIAgent]
    ) -> RunHandle:
        handle = RunHandle(input)
        writer = await run_log.begin(input, handle.cancel)
        if writer.is_new:
            handle._log_to(writer, self._max_waiting)
            self._carry_out(key, handle, make_agent)
        else:
            handle._elsewhere = writer
        return handle

    def _carry_out(self, key: tuple[str, str], handle: RunHandle, make_agent: Callable[[], AGUIAgent]) -> None:
        self._live[key] = handle
        handle._begin(make_agent, lambda: self._live.pop(key, None))

    def cancel(self, thread_id: str, run_id: str) -> bool:
        """Cancel a run.

        Returns:
            Whether it was found and had something to cancel; False for one that is unknown or has ended.
        """
        handle = self._live.get((thread_id, run_id))
        return handle is not None and handle.cancel()

    async def drain(self, seconds: float = 30.0, *, cancel: bool = False) -> int:
        """Wait until the runs that are under way are over and their records stored: what to do before a shutdown.

        Args:
            seconds: how long to wait at most.
            cancel: whether to cancel the runs first.

        Returns:
            How many are not over, or not stored, after that time. A process that ends then loses what is missing of
            their records; the next run of their threads ends those as interrupted.
        """
        handles = [*self._live.values()]
        if cancel:
            for handle in handles:
                handle.cancel()
        tasks = [handle._task for handle in handles if handle._task is not None]
        if not tasks:
            return 0
        _, left = await asyncio.wait(tasks, timeout=seconds)
        return len(left)
