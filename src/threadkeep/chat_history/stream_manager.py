"""Runs that go on when their reader leaves.

The producer task of a run drains the storage agent into a channel; readers follow the channel. So a reader that goes
away stops nothing, several may read one run, and only `cancel` cancels. The channel ends with the first terminal
event, and it always gets one: where the agent raises, stops without one, or is cancelled, it is made here, without
waiting for any store. The storing of the rest goes on behind the terminal event; `wait` and `drain` wait for that too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, ParamSpec

from ag_ui.core import BaseEvent, RunAgentInput

from threadkeep.chat_history.ag_ui.agent import AGUIAgent
from threadkeep.chat_history.ag_ui.endings import as_events, cancelled, failure
from threadkeep.chat_history.ag_ui.open_blocks import OpenBlocks
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.storage import AGUIStorageAgent, when_stream_ends
from threadkeep.chat_history.ag_ui.wire import WireEvent, event_fields, event_type
from threadkeep.streams.local import Channel

logger = logging.getLogger("threadkeep.chat_history")

P = ParamSpec("P")


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
        self._channel: Channel[BaseEvent | WireEvent] = Channel()
        self._blocks = OpenBlocks()
        self._task: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[BaseEvent | WireEvent]:
        """The run's events from the first one on, each as it comes, up to its terminal event.

        May be called several times. A reader that stops early stops nothing.
        """
        async for event in self._channel.follow():
            yield event

    def cancel(self) -> bool:
        """Cancel the run: its readers get a terminal event at once, its open records end as interrupted.

        Returns:
            Whether there was something to cancel; False once the run has had its terminal event.
        """
        if self._channel.closed or self._task is None:
            return False
        self._end_cancelled()
        self._task.cancel()
        return True

    async def wait(self) -> None:
        """Wait until the run is over and its record stored. How it went is in the record; this never raises for it."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _begin(self, make_agent: Callable[[], AGUIAgent], ended: Callable[[], object]) -> None:
        self._task = asyncio.create_task(self._produce(make_agent), name=f"run {self.run_id}")
        self._task.add_done_callback(lambda _: ended())

    async def _produce(self, make_agent: Callable[[], AGUIAgent]) -> None:
        agent: AGUIAgent | None = None
        try:
            agent = make_agent()
            if type(agent).run is AGUIStorageAgent.run:
                # One that overrides it may have an end of its own for a stream that broke.
                when_stream_ends.set(self._end_without_terminal)
            async for event in agent.run(self._input):
                self._publish(event)
        except asyncio.CancelledError:
            # Whoever cancels the task itself, as a loop does that closes, has told the readers nothing yet.
            self._end_cancelled()
        except Exception as error:
            logger.exception("run %r of thread %r failed", self.run_id, self.thread_id)
            self._end_without_terminal(error)
        else:
            self._end_without_terminal(None)
        finally:
            self._channel.close()
        if isinstance(agent, AGUIStorageAgent):
            await agent.stored()

    def _end_without_terminal(self, error: Exception | None) -> None:
        message = "The agent's stream ended without a terminal event" if error is None else str(error)
        self._publish(failure(message or type(error).__name__))

    def _end_cancelled(self) -> None:
        if not self._channel.closed:
            for event in as_events(cancelled(self._input, self._blocks)):
                self._channel.publish(event)
            self._channel.close()

    def _publish(self, event: BaseEvent) -> None:
        if self._channel.closed:
            return
        kind = event_type(event)
        self._blocks.see(kind, event_fields(event))
        self._channel.publish(event)
        if kind in TERMINAL_TYPES:
            self._channel.close()


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
    """

    def __init__(self, agent_factory: Callable[P, AGUIAgent]) -> None:
        self._agent_factory = agent_factory
        self._live: dict[tuple[str, str], RunHandle] = {}

    async def run(self, input: RunAgentInput, *args: P.args, **kwargs: P.kwargs) -> RunHandle:
        """Start a run and return its handle; one that is under way is not started twice.

        Args:
            input: the run's input; its thread id and run id name the run.
            *args: for the agent factory.
            **kwargs: for the agent factory.
        """
        key = (input.thread_id, input.run_id)
        if (live := self._live.get(key)) is not None:
            return live
        handle = self._live[key] = RunHandle(input)
        handle._begin(lambda: self._agent_factory(*args, **kwargs), lambda: self._live.pop(key, None))
        # The task has begun before the caller can cancel it; one that never begins would store nothing.
        await asyncio.sleep(0)
        return handle

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
