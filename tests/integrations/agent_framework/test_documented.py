"""The snippets of docs/agent-framework.md run."""

from pathlib import Path

import pytest
from agent_framework import Agent, InMemoryHistoryProvider

from tests.integrations.agent_framework.scripted import ScriptedClient, call
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f
from tests.test_docs import execute, snippet

DOCUMENT = "docs/agent-framework.md"


async def test_the_first_snippet_keeps_a_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    await execute(snippet(DOCUMENT, "an agent with a chat client"))["main"](ScriptedClient(["Hello to you."]))

    assert capsys.readouterr().out == "Hello to you.\nuser Hello!\nassistant Hello to you.\n"


def test_one_line_makes_an_ag_ui_agent() -> None:
    names = execute(snippet(DOCUMENT, "an agent for the gateway"), client=ScriptedClient(), get_weather=f)
    assert names["agent"].name == "assistant"


async def test_history_comes_over_from_the_frameworks_memory_once(place: Place) -> None:
    old_provider = InMemoryHistoryProvider()
    agent = Agent(ScriptedClient([call("c1")], ["Hello"]), tools=[f], context_providers=[old_provider])
    session = agent.create_session(session_id="t")
    await agent.run("hi", session=session)

    move = execute(snippet(DOCUMENT, "moving"))["move"]
    for _ in range(2):
        await move(place.provider(), old_provider, session)

    assert await place.stored() == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "calls": [("c1", "r", "complete")]},
        {"role": "assistant", "content": "Hello"},
    ]
