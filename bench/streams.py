"""Streams: what the storage agent adds to each event, beside the bare agent."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from bench import report
from bench.databases import ENGINES
from threadkeep import embedded
from threadkeep.chat_history import (
    AGUIAgent,
    AGUIStorageAgent,
    ChatRepository,
    ChatSessionRegistry,
    MessageRepository,
)
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace

DELTAS = 2_000
ROUNDS = 5


class Talker(AGUIAgent):
    """50 pieces of reasoning, two tool calls and 2,000 pieces of text; it notes when it lets each event go."""

    def __init__(self) -> None:
        super().__init__("talker")
        self.sent: list[float] = []

    async def run(self, input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        for event in _script(input):
            # As a model would, it leaves the loop to others between two pieces.
            await asyncio.sleep(0)
            self.sent.append(time.perf_counter())
            yield event


def _script(input: RunAgentInput) -> list[BaseEvent]:
    events: list[BaseEvent] = [RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)]
    events.append(ReasoningMessageStartEvent(message_id="z", role="reasoning"))
    events += [ReasoningMessageContentEvent(message_id="z", delta="hm, ") for _ in range(50)]
    events.append(ReasoningMessageEndEvent(message_id="z"))
    for call in ("c1", "c2"):
        events += [
            ToolCallStartEvent(tool_call_id=call, tool_call_name="look", parent_message_id="m1"),
            ToolCallArgsEvent(tool_call_id=call, delta='{"at":1}'),
            ToolCallEndEvent(tool_call_id=call),
            ToolCallResultEvent(message_id=f"r-{call}", tool_call_id=call, content="seen", role="tool"),
        ]
    events.append(TextMessageStartEvent(message_id="m2", role="assistant"))
    events += [TextMessageContentEvent(message_id="m2", delta="word ") for _ in range(DELTAS)]
    return [*events, TextMessageEndEvent(message_id="m2"), RunFinishedEvent(thread_id="t", run_id=input.run_id)]


async def storage_agent(engine: str) -> None:
    report.title(f"A run of {DELTAS:,} deltas, two tool calls and reasoning through the storage agent: {engine}")
    bare: list[float] = []
    stored: list[float] = []
    requests: list[int] = []
    with ENGINES[engine]() as url:
        async with embedded.client(url) as client:
            space = await DRMemorySpace.post(client, deduplication_key="bench")
            registry = ChatSessionRegistry(space)
            chats, messages = ChatRepository(space, registry), MessageRepository(space, registry)
            user = uuid4()
            counted = count_requests(client)
            for round_ in range(ROUNDS):
                talker = Talker()
                bare += await _delays(talker, talker.run(run_input(f"bare-{round_}", "run")))
                talker = Talker()
                agent = AGUIStorageAgent("bench", user, chats, messages, talker)
                before = counted[0]
                stored += await _delays(talker, agent.run(run_input(f"run-{round_}", "run")))
                requests.append(counted[0] - before)
    report.line("bare agent: median to the reader", f"{statistics.median(bare) * 1e6:10.1f} us an event")
    report.line("storage agent: median to the reader", f"{statistics.median(stored) * 1e6:10.1f} us an event")
    report.ratio("added: us", (statistics.median(stored) - statistics.median(bare)) * 1e6, at_most=100)
    report.line("storage agent: mean, the storing included", f"{statistics.fmean(stored) * 1e6:10.1f} us an event")
    report.line("requests to the service", f"{statistics.median(requests):10.0f} a run")


async def _delays(talker: Talker, stream: AsyncGenerator[BaseEvent, None]) -> list[float]:
    """The seconds from the agent's hand to the reader's, for each event."""
    received = [time.perf_counter() async for _ in stream]
    return [there - here for here, there in zip(talker.sent, received, strict=True)]


def run_input(thread: str, run: str) -> RunAgentInput:
    return RunAgentInput(
        thread_id=thread,
        run_id=run,
        messages=[UserMessage(id=f"u-{run}", role="user", content="Talk.")],
        tools=[],
        context=[],
        state={},
        forwarded_props={},
    )


def count_requests(client: DRMemoryServiceClient) -> list[int]:
    """A counter of the requests that the client sends from now on."""
    counted = [0]
    send = client.send

    async def send_counted(call: Any) -> Any:
        counted[0] += 1
        return await send(call)

    setattr(client, "send", send_counted)  # noqa: B010 (a method is no variable to mypy)
    return counted
