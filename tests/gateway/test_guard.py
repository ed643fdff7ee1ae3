"""One terminal event, always."""

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from threadkeep.chat_history import AGUIAgent
from threadkeep.chat_history.ag_ui.wire import WireInput, event_json
from threadkeep.gateway.failures import AgentFailure, FailureCode
from threadkeep.gateway.guard import GuardedAgent
from threadkeep.testing.agents import ScriptedAgent

GIVEN = WireInput({"threadId": "t", "runId": "r", "messages": []})
STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


async def play(agent: AGUIAgent) -> list[dict[str, Any]]:
    return [json.loads(event_json(event)) async for event in GuardedAgent(agent).run(GIVEN)]


async def test_a_good_stream_passes_as_it_is() -> None:
    assert await play(ScriptedAgent([STARTED, FINISHED])) == [STARTED, FINISHED]


async def test_nothing_follows_a_terminal_event() -> None:
    late = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "late"}
    assert await play(ScriptedAgent([STARTED, FINISHED, late, FINISHED])) == [STARTED, FINISHED]


async def test_a_stream_that_just_stops_ends_with_an_error() -> None:
    error = {
        "type": "RUN_ERROR",
        "message": "The agent's stream ended without a terminal event",
        "code": "AGENT_INCOMPLETE",
    }
    assert await play(ScriptedAgent([STARTED])) == [STARTED, error]
    assert await play(ScriptedAgent([])) == [error]


async def test_an_exception_becomes_an_error_that_says_what(caplog: pytest.LogCaptureFixture) -> None:
    events = await play(ScriptedAgent([STARTED], then=ValueError("no such city")))
    assert events == [
        STARTED,
        {"type": "RUN_ERROR", "message": "The agent failed: ValueError: no such city", "code": "AGENT_ERROR"},
    ]
    assert "agent raised run=r" in caplog.text


async def test_a_failure_keeps_its_own_words_and_code(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    events = await play(ScriptedAgent([], then=AgentFailure("The agent answered 500", FailureCode.REFUSED)))
    assert events == [{"type": "RUN_ERROR", "message": "The agent answered 500", "code": "AGENT_REFUSED"}]


async def test_an_exception_after_the_end_changes_nothing() -> None:
    assert await play(ScriptedAgent([STARTED, FINISHED], then=ValueError("late"))) == [STARTED, FINISHED]


async def test_code_after_the_last_event_of_an_agent_is_run() -> None:
    class Tidy(AGUIAgent):
        tidied = False

        async def run(self, input: Any) -> AsyncGenerator[Any, None]:
            yield FINISHED
            self.tidied = True

    agent = Tidy("tidy")
    assert await play(agent) == [FINISHED]
    assert agent.tidied


async def test_an_agent_that_never_stops_after_its_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadkeep.gateway.guard.DRAIN_SECONDS", 0)
    agent = ScriptedAgent([STARTED, FINISHED], then="hang")
    assert await play(agent) == [STARTED, FINISHED]
    assert agent.open_runs == 0


async def test_what_is_no_stream_is_an_error() -> None:
    class Wrong(AGUIAgent):
        def run(self, input: Any) -> Any:
            return None

    (error,) = await play(Wrong("wrong"))
    assert error["code"] == "AGENT_ERROR"


async def test_a_reader_that_leaves_stops_the_agent() -> None:
    agent = ScriptedAgent([STARTED], then="hang")
    stream = GuardedAgent(agent).run(GIVEN)
    await anext(stream)
    assert agent.open_runs == 1
    await stream.aclose()
    assert agent.open_runs == 0
