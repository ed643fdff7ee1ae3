"""Agents of this process: how they are found, and what a run gives them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, UserMessage

from threadkeep.errors import Invalid
from threadkeep.gateway.agents import BadAgent, LocalAgents, agents_of, load_agent
from threadkeep.gateway.inputs import RunBody, parse_body
from threadkeep.testing.agents import ScriptedAgent


def body(**fields: Any) -> RunBody:
    given = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}], **fields}
    return parse_body(json.dumps(given).encode())


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the working directory that holds agents, good and bad."""
    (tmp_path / "house_of_agents.py").write_text(
        "from threadkeep.testing.agents import ScriptedAgent\n"
        "one = ScriptedAgent(name='one')\n"
        "class Many(ScriptedAgent):\n"
        "    pass\n"
        "def needy(model):\n"
        "    return ScriptedAgent()\n"
        "async def late():\n"
        "    return ScriptedAgent()\n"
        "def wrong():\n"
        "    return 'an agent'\n"
        "number = 7\n"
    )
    (tmp_path / "house_on_fire.py").write_text("import no_such_thing\n")
    (tmp_path / "house_in_ruins.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return "house_of_agents"


def test_an_agent_is_found_in_the_working_directory_and_shared_by_all_runs(module: str) -> None:
    agents = load_agent(f"{module}:one")
    (_, first), (_, second) = agents.prepare(body()), agents.prepare(body())
    assert first is second
    assert first.name == "one"


def test_a_class_makes_an_agent_for_each_run(module: str) -> None:
    agents = load_agent(f"{module}:Many")
    (_, first), (_, second) = agents.prepare(body()), agents.prepare(body())
    assert isinstance(first, ScriptedAgent)
    assert first is not second


def test_an_attribute_may_be_nested() -> None:
    assert isinstance(load_agent("threadkeep.demo.script:DemoAgent"), LocalAgents)
    with pytest.raises(BadAgent, match=r"has no attribute 'DemoAgent\.nothing'"):
        load_agent("threadkeep.demo.script:DemoAgent.nothing")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("house_of_agents", "'house_of_agents' names no agent; write MODULE:ATTRIBUTE"),
        ("house_of_agents:", "names no agent"),
        (":one", "names no agent"),
        ("house_of_cards:one", "There is no module 'house_of_cards' (looked in "),
        ("house_of_agents:two", "The module 'house_of_agents' has no attribute 'two'"),
        ("house_of_agents:number", "house_of_agents:number is a int; it must be an AGUIAgent or make one"),
        ("house_of_agents:needy", "house_of_agents:needy made no agent when it was called: TypeError: needy() missing"),
        ("house_of_agents:late", "house_of_agents:late is an async function"),
        ("house_of_agents:wrong", "house_of_agents:wrong made a str; it must make an AGUIAgent"),
        ("house_on_fire:one", "The module 'house_on_fire' cannot be imported: No module named 'no_such_thing'"),
        ("house_in_ruins:one", "The module 'house_in_ruins' cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.usefixtures("module")
def test_what_is_no_agent_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(BadAgent) as caught:
        load_agent(name)
    assert reason in str(caught.value)


def test_a_run_gets_the_protocol_s_own_input() -> None:
    run_input, _ = agents_of(ScriptedAgent()).prepare(body(tools=None, parentRunId="r0", future=[1]))
    assert isinstance(run_input, RunAgentInput)
    assert run_input.messages == [UserMessage(id="u", role="user", content="hi")]
    assert run_input.tools == []
    assert run_input.parent_run_id == "r0"


def test_what_the_protocol_refuses_is_named_by_its_place_in_the_body() -> None:
    message = {"id": "u", "role": "user", "content": [{"type": "text"}]}
    with pytest.raises(Invalid) as caught:
        agents_of(ScriptedAgent()).prepare(body(messages=[message]))
    assert caught.value.loc == ("messages", 0, "content", 0, "text")
    with pytest.raises(Invalid) as caught:
        agents_of(ScriptedAgent()).prepare(body(tools=[{"name": "f", "description": 3}]))
    assert caught.value.loc == ("tools", 0, "description")
