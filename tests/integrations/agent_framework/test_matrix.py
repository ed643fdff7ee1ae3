"""The matrix of the two settings, recorded: what is stored, and what a model is sent next, for each way to end."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import Content, FunctionInvocationContext, FunctionMiddleware, Message, MiddlewareTermination, tool

from tests.integrations.agent_framework.scripted import Reply, ScriptedClient, call, run
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f
from threadkeep.integrations.agent_framework import ChatHistoryPersistingMiddleware, PersistentAgent

Shape = list[dict[str, Any]]

HI = {"role": "user", "content": "hi"}
NEXT = {"role": "user", "content": "next"}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}
GONE = {"role": "tool", "tool_call_id": "c1", "content": "f was interrupted before it gave a result"}
DONE = {"role": "assistant", "content": "done"}

ANSWERED = {"role": "assistant", "calls": [("c1", "r", "complete")]}
OPEN = {"role": "assistant", "calls": [("c1", "", "active")]}

EACH_CALL: dict[str, tuple[Shape, Shape]] = {
    "ends": ([HI, ANSWERED, DONE], [HI, CALL, RESULT, DONE, NEXT]),
    "is terminated after tools": ([HI, OPEN], [HI, CALL, GONE, NEXT]),
    "fails at the second call": ([HI, OPEN], [HI, CALL, GONE, NEXT]),
    "is cancelled": ([HI, OPEN], [HI, CALL, GONE, NEXT]),
}
MARKED: dict[str, tuple[Shape, Shape]] = {
    "ends": ([HI, ANSWERED, DONE], [HI, CALL, RESULT, DONE, NEXT]),
    "is terminated after tools": ([HI, OPEN], [HI, CALL, GONE, NEXT]),
    "fails at the second call": ([], [NEXT]),
    "is cancelled": ([], [NEXT]),
}
ALL_MESSAGES: dict[str, tuple[Shape, Shape]] = {
    "ends": ([HI, ANSWERED, DONE], [HI, CALL, RESULT, DONE, NEXT]),
    "is terminated after tools": ([HI, ANSWERED], [HI, CALL, RESULT, NEXT]),
    "fails at the second call": ([], [NEXT]),
    "is cancelled": ([], [NEXT]),
}
NOTHING: dict[str, tuple[Shape, Shape]] = {
    "ends": ([], [NEXT]),
    "is terminated after tools": ([], [NEXT]),
    "fails at the second call": ([], [NEXT]),
    "is cancelled": ([], [NEXT]),
}

# as is, at the end of the run, middleware in the client's own stack (None, or its mark_only) -> what is expected
ROWS: dict[str, tuple[bool, bool, bool | None, dict[str, tuple[Shape, Shape]]]] = {
    "injected, each call": (False, False, None, EACH_CALL),
    "as is, each call, nobody": (True, False, None, NOTHING),
    "as is, each call, the caller's own": (True, False, False, EACH_CALL),
    "injected, end of run": (False, True, None, MARKED),
    "as is, end of run, the caller's own": (True, True, True, MARKED),
    "as is, end of run, nobody": (True, True, None, ALL_MESSAGES),
}


class StopAfterTools(FunctionMiddleware):
    """Ends the function loop when a tool has run."""

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()
        raise MiddlewareTermination


class Bench:
    """An agent as a row of the matrix describes it, and the ways to end its runs."""

    def __init__(self, place: Place, as_is: bool, at_end: bool, own: bool | None) -> None:
        self.history = place.provider()
        middleware = [] if own is None else [ChatHistoryPersistingMiddleware(self.history, mark_only=own)]
        self.client = ScriptedClient(middleware=middleware)
        self.at_end, self.as_is = at_end, as_is
        self.running = asyncio.Event()

    def agent(self, **options: Any) -> PersistentAgent:
        return PersistentAgent(
            self.client,
            context_providers=[self.history],
            persist_chat_history_at_end_of_run=self.at_end,
            use_provided_chat_client_as_is=self.as_is,
            **{"tools": [f], **options},
        )

    async def one_run(self, ending: str, stream: bool) -> None:
        session = self.history.create_session("t")
        second: Reply = RuntimeError("503") if ending == "fails at the second call" else ["do", "ne"]
        self.client.script([call("c1")], second)
        if ending == "is terminated after tools":
            await run(self.agent(middleware=[StopAfterTools()]), "hi", session, stream=stream)
            self.client._replies.clear()
        elif ending == "fails at the second call":
            with pytest.raises(RuntimeError, match="503"):
                await run(self.agent(), "hi", session, stream=stream)
        elif ending == "is cancelled":
            task = asyncio.create_task(run(self.agent(tools=[self._endless()]), "hi", session, stream=stream))
            await self.running.wait()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self.client._replies.clear()
        else:
            await run(self.agent(), "hi", session, stream=stream)

    def _endless(self) -> Any:
        @tool(name="f", approval_mode="never_require")
        async def endless() -> str:
            """Never end."""
            self.running.set()
            await asyncio.Event().wait()
            return "never"

        return endless


@pytest.mark.parametrize("ending", EACH_CALL)
@pytest.mark.parametrize("row", ROWS)
async def test_the_matrix(place: Place, row: str, ending: str, stream: bool) -> None:
    as_is, at_end, own, expected = ROWS[row]
    stored, sent_next = expected[ending]
    bench = Bench(place, as_is, at_end, own)
    await bench.one_run(ending, stream)
    assert await place.stored() == stored
    bench.client.script(["fine"])
    await run(bench.agent(), "next", bench.history.create_session("t"), stream=stream)
    assert bench.client.sent[-1] == sent_next


async def test_a_call_that_nobody_answered_has_its_end_when_the_user_goes_on(place: Place, stream: bool) -> None:
    bench = Bench(place, False, False, None)
    await bench.one_run("is cancelled", stream)
    bench.client.script(["fine"])
    await run(bench.agent(), "next", bench.history.create_session("t"), stream=stream)
    assert await place.stored() == [
        HI,
        {"role": "assistant", "calls": [("c1", "", "interrupted")]},
        NEXT,
        {"role": "assistant", "content": "fine"},
    ]


async def test_a_result_that_the_caller_brings_is_taken(place: Place, stream: bool) -> None:
    bench = Bench(place, False, False, None)
    await bench.one_run("is cancelled", stream)
    bench.client.script(["fine"])
    brought = Message("tool", [Content.from_function_result("c1", result="mine")])
    await run(bench.agent(), [brought], bench.history.create_session("t"), stream=stream)
    assert bench.client.sent[-1] == [HI, CALL, {**RESULT, "content": "mine"}]
    assert await place.stored() == [
        HI,
        {"role": "assistant", "calls": [("c1", "mine", "complete")]},
        {"role": "assistant", "content": "fine"},
    ]


def test_storing_at_the_end_as_is_warns_once_for_an_agent(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "threadkeep"):
        Bench(place, True, True, None).agent(name="helper")
    assert [record.message for record in caplog.records] == [
        "agent 'helper' uses its chat client as it is and stores at the end of runs, but there is no "
        "ChatHistoryPersistingMiddleware in the client: all messages are stored, results included that no "
        "service call ever received"
    ]


@pytest.mark.parametrize("row", [row for row in ROWS if row != "as is, end of run, nobody"])
def test_no_other_row_warns(place: Place, row: str, caplog: pytest.LogCaptureFixture) -> None:
    as_is, at_end, own, _ = ROWS[row]
    with caplog.at_level(logging.WARNING, "threadkeep"):
        Bench(place, as_is, at_end, own).agent()
    assert caplog.records == []


async def test_both_ways_leave_the_same_rows(place: Place, stream: bool) -> None:
    rows = []
    for at_end, thread_id in ((False, "each"), (True, "end")):
        history = place.provider()
        client = ScriptedClient(["let me see", call("c1"), call("c2")], [call("c3")], ["do", "ne"])
        agent = PersistentAgent(
            client,
            name="helper",
            tools=[f],
            context_providers=[history],
            persist_chat_history_at_end_of_run=at_end,
        )
        await run(agent, "hi", history.create_session(thread_id), stream=stream)
        rows.append([_content(row) for row in await place.rows(thread_id)])
    assert rows[0] == rows[1]
    assert [row["role"] for row in rows[0]] == ["user", "assistant", "assistant", "assistant"]


def _content(row: Any) -> dict[str, Any]:
    """All of a row but what differs from one run to the next."""
    own = {"message_uuid", "chat_uuid", "timestamp", "run_id"}
    nested = {"uuid", "created_at", "tool_call_id"}
    fields: dict[str, Any] = row.model_dump(mode="json", exclude=own)
    for name in ("tool_calls", "reasonings"):
        fields[name] = [{key: each[key] for key in each if key not in nested} for each in fields[name]]
    native = fields.get("agent_framework")
    for content in (native or {}).get("contents", []):
        content.pop("id", None)
    return fields
