"""What chat history costs: requests and bytes of a run, and a write to a long chat beside one to a short chat."""

import asyncio
import os
import statistics
import time
from typing import Any
from uuid import UUID, uuid4

import httpx

from bench import report
from bench.databases import ENGINES
from bench.streams import DELTAS, Talker, run_input
from threadkeep import embedded
from threadkeep.chat_history import (
    AGUIStorageAgent,
    Chat,
    ChatCreate,
    ChatRepository,
    ChatSessionRegistry,
    MessageCreate,
    MessageRepository,
    MessageUpdate,
    Role,
)
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace

LONG = int(os.environ.get("BENCH_LONG_CHAT", "10000"))
"""Messages of the long chat."""
SHORT = 10
WRITES = 200
_AT_ONCE = 200


class _Counted:
    """Requests that a client sends from now on, and the bytes of their bodies."""

    def __init__(self, client: DRMemoryServiceClient) -> None:
        self.requests = 0
        self.bytes = 0
        self._send = client._http.send
        setattr(client._http, "send", self._counting)  # noqa: B010 (a method is no variable to mypy)

    async def _counting(self, request: httpx.Request, **options: Any) -> httpx.Response:
        self.requests += 1
        self.bytes += len(request.content)
        return await self._send(request, **options)

    def taken(self) -> tuple[int, int]:
        found = self.requests, self.bytes
        self.requests = self.bytes = 0
        return found


class _Place:
    """The repositories of a process, with lookup keys or as on a service without them."""

    def __init__(self, space: DRMemorySpace) -> None:
        registry = ChatSessionRegistry(space)
        self.chats = ChatRepository(space, registry)
        self.messages = MessageRepository(space, registry)

    async def fill(self, thread_id: str, user: UUID, messages: int) -> Chat:
        chat = await self.chats.create_chat(ChatCreate(user_uuid=user, thread_id=thread_id))
        for start in range(0, messages, _AT_ONCE):
            async with self.messages.transaction():
                for _ in range(start, min(messages, start + _AT_ONCE)):
                    await self.messages.create_message(_message(chat))
        return chat


async def of_a_run(engine: str) -> None:
    report.title(f"Requests and bytes of a run of {DELTAS:,} deltas, two tool calls and reasoning: {engine}")
    with ENGINES[engine]() as url:
        async with embedded.client(url) as client:
            counted = _Counted(client)
            for way, features in (("lookup keys", None), ("locators", frozenset[str]())):
                client._features = features
                place = _Place(await DRMemorySpace.post(client, deduplication_key=way))
                counted.taken()
                user = uuid4()
                for which in ("first", "next"):
                    agent = AGUIStorageAgent("bench", user, place.chats, place.messages, Talker())
                    async for _ in agent.run(run_input("thread", which)):
                        pass
                    requests, sent = counted.taken()
                    report.line(f"{way}, the {which} run: bytes", f"{sent:10,}")
                    if features is None:
                        report.ratio(f"{way}, the {which} run: requests", requests, at_most=12)
                    else:
                        # One for each locator is what the hosted service asks for.
                        report.line(f"{way}, the {which} run: requests", f"{requests:10}")


async def of_a_write(engine: str) -> None:
    report.title(f"A write to a chat of {LONG:,} messages beside a chat of {SHORT}: {engine}")
    with ENGINES[engine]() as url:
        async with embedded.client(url) as client:
            for way, features in (("lookup keys", None), ("locators", frozenset[str]())):
                client._features = features
                place = _Place(await DRMemorySpace.post(client, deduplication_key=way))
                user = uuid4()
                short, long = await place.fill("short", user, SHORT), await place.fill("long", user, LONG)
                times: dict[str, list[float]] = {"short": [], "long": []}
                for _ in range(WRITES):
                    # In turns, so that whatever else the machine does meets both.
                    for name, chat in (("short", short), ("long", long)):
                        times[name].append(await _write(place.messages, chat))
                medians = {name: statistics.median(found) * 1e3 for name, found in times.items()}
                for name, median in medians.items():
                    report.line(f"{way}: a new message and its change, {name} chat", f"{median:10.3f} ms")
                report.ratio(f"{way}: long / short", medians["long"] / medians["short"], at_most=1.2)


async def _write(messages: MessageRepository, chat: Chat) -> float:
    begun = time.perf_counter()
    message = await messages.create_message(_message(chat))
    await messages.update_message(message.message_uuid, MessageUpdate(content="A longer word."))
    await asyncio.sleep(0)
    return time.perf_counter() - begun


def _message(chat: Chat) -> MessageCreate:
    return MessageCreate(chat_uuid=chat.chat_uuid, role=Role.ASSISTANT, content="A word.", in_progress=False)
