"""The documented quick start, against a real server on both engines."""

from typing import Any
from uuid import uuid4

import pytest
from ag_ui.core import RunAgentInput, UserMessage

from tests.chat_history.scripts import ScriptedAgent, called, result, run_of, said, thought
from tests.conftest import Server
from threadkeep.chat_history import (
    AGUIAgent,
    AGUIStorageAgent,
    ChatRepository,
    ChatSessionRegistry,
    MessageRepository,
    StreamPersistenceManager,
)
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace


async def quick_start(inner_agent: AGUIAgent) -> tuple[list[Any], list[Any]]:
    user_id = uuid4()

    async with DRMemoryServiceClient() as client:
        space = await DRMemorySpace.post(client, deduplication_key="my-chat-app-v1")

        registry = ChatSessionRegistry(space)
        chat_repo = ChatRepository(space, registry)
        message_repo = MessageRepository(space, registry)

        manager = StreamPersistenceManager(
            lambda: AGUIStorageAgent("assistant", user_id, chat_repo, message_repo, inner_agent)
        )

        input = RunAgentInput(
            thread_id="thread-1",
            run_id="run-1",
            messages=[UserMessage(id="m1", role="user", content="Hello!")],
            tools=[],
            context=[],
            state={},
            forwarded_props={},
        )

        handle = await manager.run(input)
        events = [event async for event in handle.events()]
        await handle.wait()
        history = await message_repo.get_chat_messages(
            (await chat_repo.get_chat_by_thread_id(user_id, "thread-1")).chat_uuid
        )
        return events, list(history)


async def test_the_quick_start_runs_against_a_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADKEEP_ENDPOINT", f"{server.url}/api/v2")
    monkeypatch.setenv("THREADKEEP_API_TOKEN", server.token)
    script = run_of(thought("z1", "hm"), called("c1", "weather"), result("c1", "4C"), said("m2", "It is ", "4C"))
    events, history = await quick_start(ScriptedAgent(script, objects=True))
    assert [event.type.value for event in events] == [event["type"] for event in script]
    assert [(message.role.value, message.content, message.status.value) for message in history] == [
        ("user", "Hello!", "complete"),
        ("assistant", "", "complete"),
        ("assistant", "It is 4C", "complete"),
    ]
    assert [(call.name, call.content) for call in history[1].tool_calls] == [("weather", "4C")]
    assert [step.content for step in history[1].reasonings] == ["hm"]
