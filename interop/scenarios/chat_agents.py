"""A scripted AG-UI agent and what it says, for the chat-history layer of a root."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import ag_ui.core as agui

from interop.names import Root

USER = UUID("00000000-0000-4000-8000-00000000000a")
OTHER_USER = UUID("00000000-0000-4000-8000-00000000000b")


def scripted(root: Root, script: Sequence[Any]) -> Any:
    """An agent that plays a script: events to emit, an `asyncio.Event` to wait for, an exception to raise.

    `seen` has the messages of each input that it was given.
    """

    class ScriptedAgent(root.chat_history.AGUIAgent):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__("scripted")
            self.seen: list[list[Any]] = []

        async def run(self, input: agui.RunAgentInput) -> AsyncGenerator[agui.BaseEvent, None]:
            self.seen.append(list(input.messages))
            for step in script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    yield step

    return ScriptedAgent()


@asynccontextmanager
async def wired(root: Root) -> AsyncIterator[Any]:
    """A space with repositories, and `play`, which starts a run of an agent behind the manager."""
    chat_history, orm = root.chat_history, root.persistence
    async with orm.DRMemoryServiceClient() as client:
        space = await orm.DRMemorySpace.post(client, deduplication_key="my-chat-app-v1")
        registry = chat_history.ChatSessionRegistry(space)
        chats = chat_history.ChatRepository(space, registry)
        messages = chat_history.MessageRepository(space, registry)
        manager = chat_history.StreamPersistenceManager(
            lambda agent: chat_history.AGUIStorageAgent("assistant", USER, chats, messages, agent)
        )

        async def play(script: Sequence[Any], *said: Any, run_id: str = "run-1", thread_id: str = "thread-1") -> Any:
            agent = scripted(root, script)
            handle = await manager.run(run_input(*said, run_id=run_id, thread_id=thread_id), agent)
            return SimpleNamespace(handle=handle, agent=agent)

        async def history(thread_id: str = "thread-1") -> list[Any]:
            chat = await chats.get_chat_by_thread_id(USER, thread_id)
            return list(await messages.get_chat_messages(chat.chat_uuid))

        yield SimpleNamespace(
            space=space, registry=registry, chats=chats, messages=messages, manager=manager, play=play, history=history
        )


def run_input(*said: Any, run_id: str = "run-1", thread_id: str = "thread-1") -> agui.RunAgentInput:
    return agui.RunAgentInput(
        thread_id=thread_id, run_id=run_id, messages=list(said), tools=[], context=[], state={}, forwarded_props={}
    )


def user(text: str, agui_id: str = "m1") -> agui.UserMessage:
    return agui.UserMessage(id=agui_id, role="user", content=text)


def started(run_id: str = "run-1", thread_id: str = "thread-1") -> agui.BaseEvent:
    return agui.RunStartedEvent(thread_id=thread_id, run_id=run_id)


def finished(run_id: str = "run-1", thread_id: str = "thread-1") -> agui.BaseEvent:
    return agui.RunFinishedEvent(thread_id=thread_id, run_id=run_id)


def begun(agui_id: str, *deltas: str) -> list[agui.BaseEvent]:
    """A text message that has not ended."""
    return [
        agui.TextMessageStartEvent(message_id=agui_id, role="assistant"),
        *(agui.TextMessageContentEvent(message_id=agui_id, delta=delta) for delta in deltas),
    ]


def text(agui_id: str, *deltas: str) -> list[agui.BaseEvent]:
    """A whole text message."""
    return [*begun(agui_id, *deltas), agui.TextMessageEndEvent(message_id=agui_id)]


def calling(agui_id: str, name: str, *arguments: str, parent: str | None = None) -> list[agui.BaseEvent]:
    """A tool call that has not ended."""
    return [
        agui.ToolCallStartEvent(tool_call_id=agui_id, tool_call_name=name, parent_message_id=parent),
        *(agui.ToolCallArgsEvent(tool_call_id=agui_id, delta=delta) for delta in arguments),
    ]


def called(agui_id: str, name: str, *arguments: str, parent: str | None = None) -> list[agui.BaseEvent]:
    """A tool call without its result."""
    return [*calling(agui_id, name, *arguments, parent=parent), agui.ToolCallEndEvent(tool_call_id=agui_id)]


def result(call_id: str, content: str, agui_id: str = "result-1") -> agui.BaseEvent:
    return agui.ToolCallResultEvent(message_id=agui_id, tool_call_id=call_id, content=content, role="tool")


def reasoning(agui_id: str, *deltas: str) -> list[agui.BaseEvent]:
    """A whole reasoning step."""
    return [
        agui.ReasoningStartEvent(message_id=agui_id),
        agui.ReasoningMessageStartEvent(message_id=agui_id, role="reasoning"),
        *(agui.ReasoningMessageContentEvent(message_id=agui_id, delta=delta) for delta in deltas),
        agui.ReasoningMessageEndEvent(message_id=agui_id),
        agui.ReasoningEndEvent(message_id=agui_id),
    ]


def types(events: Sequence[Any]) -> list[str]:
    return [event.type.value if isinstance(event, agui.BaseEvent) else event.type for event in events]


async def read(handle: Any) -> list[Any]:
    """All events of a run, and its record stored."""
    events = [event async for event in handle.events()]
    await handle.wait()
    return events
