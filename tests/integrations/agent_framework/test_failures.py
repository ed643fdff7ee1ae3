"""What happens when it goes wrong: the rows afterwards, and a next run that goes through."""

import asyncio
import contextlib
import gc
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from agent_framework import (
    AgentContext,
    AgentMiddleware,
    AgentResponse,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    ResponseStream,
)

from tests.integrations.agent_framework.scripted import ScriptedClient, call, run
from tests.integrations.agent_framework.stored import Place
from tests.integrations.agent_framework.tools import f, failing, guarded
from threadkeep import embedded
from threadkeep.integrations.agent_framework import PersistentAgent
from threadkeep.persistence import DRMemorySpace

HI = {"role": "user", "content": "hi"}
NEXT = {"role": "user", "content": "next"}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}
GONE = {"role": "tool", "tool_call_id": "c1", "content": "f was interrupted before it gave a result"}
ANSWERED = {"role": "assistant", "calls": [("c1", "r", "complete")]}
ROOT = Path(__file__).parents[3]


class Desk:
    """One user at one thread; every run has an agent, a provider and a session of its own, as after a restart."""

    def __init__(self, place: Place, stream: bool, at_end: bool = False) -> None:
        self.place, self.stream, self.at_end = place, stream, at_end
        self.client = ScriptedClient()

    def agent(self, **options: Any) -> PersistentAgent:
        return PersistentAgent(
            options.pop("client", self.client),
            context_providers=[self.place.provider()],
            persist_chat_history_at_end_of_run=self.at_end,
            **{"tools": [f], **options},
        )

    async def run(self, messages: Any, *replies: Any, **options: Any) -> AgentResponse[Any]:
        self.client.script(*replies)
        return await run(self.agent(**options), messages, self.place.provider().create_session("t"), stream=self.stream)


@pytest.fixture
def desk(place: Place, stream: bool, at_end: bool) -> Desk:
    return Desk(place, stream, at_end)


# The n-th call fails


@pytest.mark.parametrize("n", [1, 2, 3])
async def test_the_nth_call_fails(desk: Desk, n: int) -> None:
    replies: list[Any] = [[call(f"c{place}")] for place in range(1, n)]
    with pytest.raises(RuntimeError, match="503"):
        await desk.run("hi", *replies, RuntimeError("503"))
    kept = {1: [], 2: [HI, _calls("c1", "active")], 3: [HI, ANSWERED, _calls("c2", "active")]}
    assert await desk.place.stored() == ([] if desk.at_end else kept[n])
    await desk.run("next", ["fine"])
    assert desk.client.sent[-1][-1] == NEXT
    assert (await desk.place.stored())[-2:] == [NEXT, {"role": "assistant", "content": "fine"}]


async def test_a_first_call_that_is_tried_again_has_its_message_once(desk: Desk) -> None:
    for reply in (RuntimeError("503"), RuntimeError("503"), ["fine"]):
        with contextlib.suppress(RuntimeError):
            await desk.run("hi", reply)
    assert await desk.place.stored() == [HI, {"role": "assistant", "content": "fine"}]


def _calls(call_id: str, status: str, result: str = "") -> dict[str, Any]:
    return {"role": "assistant", "calls": [(call_id, result, status)]}


# A stream that is left


class Slow(ScriptedClient):
    """Streams "par", and then nothing for ever."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.waiting = asyncio.Event()

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        if self._replies:
            return super()._inner_get_response(messages=messages, stream=stream, options=options, **kwargs)

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text("par")])
            self.waiting.set()
            await asyncio.Event().wait()

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


PARTIAL = [
    HI,
    ANSWERED,
    {"role": "assistant", "content": "par", "status": "interrupted"},
]


@pytest.mark.parametrize("how", ["closed", "dropped", "cancelled"])
async def test_a_stream_that_is_left_in_the_middle_of_a_text(place: Place, at_end: bool, how: str) -> None:
    desk = Desk(place, True, at_end)
    client = Slow([call("c1")])

    async def read() -> None:
        stream = desk.agent(client=client).run("hi", session=place.provider().create_session("t"), stream=True)
        async for update in stream:
            if update.text and how != "cancelled":
                break
        if how == "closed":
            await stream.close()

    if how == "cancelled":
        task = asyncio.create_task(read())
        await client.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await read()
    gc.collect()
    await _until(lambda: _is_at(place, 0 if at_end else 3))
    assert await place.stored() == ([] if at_end else PARTIAL)
    await desk.run("next", ["fine"])
    said = [HI, CALL, RESULT, {"role": "assistant", "content": "par"}]
    assert desk.client.sent[-1] == [*([] if at_end else said), NEXT]


async def test_a_stream_that_is_left_before_it_says_anything_keeps_what_it_was_sent(place: Place) -> None:
    class Silent(Slow):
        def _inner_get_response(self, **_: Any) -> Any:
            async def updates() -> AsyncIterator[ChatResponseUpdate]:
                self.waiting.set()
                await asyncio.Event().wait()
                yield ChatResponseUpdate(role="assistant")

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    desk, client = Desk(place, True), Silent()
    task = asyncio.create_task(run(desk.agent(client=client), "hi", place.provider().create_session("t"), stream=True))
    await client.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await place.stored() == [HI]


async def test_a_stream_that_is_read_to_its_last_word_and_left_then_is_whole(place: Place) -> None:
    desk = Desk(place, True)
    desk.client.script(["do", "ne"])
    stream = desk.agent().run("hi", session=place.provider().create_session("t"), stream=True)
    async for update in stream:
        if update.text == "ne":
            break
    await stream.close()
    content = [row.get("content") for row in await place.stored()]
    assert content == ["hi", "done"]


async def _is_at(place: Place, rows: int) -> bool:
    return len(await place.stored()) == rows


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Let the tasks that close dropped generators run."""
    for _ in range(200):
        if await is_so():
            return
        await asyncio.sleep(0)


# Tools and limits


async def test_a_tool_that_raises_has_failed_and_the_loop_goes_on(desk: Desk) -> None:
    await desk.run("hi", [call("c1", "failing")], ["sorry"], tools=[failing])
    rows = await desk.place.rows()
    assert [(each.status.value, "broken" in each.content) for each in rows[1].tool_calls] == [("errored", False)]
    assert rows[2].content == "sorry"
    await desk.run("next", ["fine"])
    assert [message["role"] for message in desk.client.sent[-1]] == ["user", "assistant", "tool", "assistant", "user"]


async def test_the_loop_reaches_its_limit(desk: Desk) -> None:
    desk.client.function_invocation_configuration["max_iterations"] = 2
    await desk.run("hi", [call("c1")], [call("c2")], ["summary"])
    assert await desk.place.stored() == [
        HI,
        ANSWERED,
        _calls("c2", "complete", "r"),
        {"role": "assistant", "content": "summary"},
    ]
    await desk.run("next", ["fine"])
    assert desk.client.sent[-1][-2:] == [{"role": "assistant", "content": "summary"}, NEXT]


async def test_a_model_that_asks_for_tools_beyond_the_limit_is_closed(desk: Desk) -> None:
    desk.client.function_invocation_configuration["max_iterations"] = 1
    await desk.run("hi", [call("c1")], [call("c2")])
    await desk.run("next", ["fine"])
    assert [message["role"] for message in desk.client.sent[-1]][:3] == ["user", "assistant", "tool"]
    assert desk.client.sent[-1][-1] == NEXT


# Filters


class Guard(ChatMiddleware):
    """Refuses what says BAD, between the function loop and the client."""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()

        def check(response: ChatResponse[Any]) -> None:
            if "BAD" in response.text:
                raise ValueError("blocked")

        if isinstance(context.result, ResponseStream):
            context.result = context.result.with_result_hook(check)
        elif context.result is not None:
            check(context.result)


class OutputGuard(AgentMiddleware):
    """Refuses, or replaces, what an agent says when it is done."""

    def __init__(self, instead: str | None = None) -> None:
        self._instead = instead

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()

        def check(response: AgentResponse[Any]) -> AgentResponse[Any]:
            if "BAD" in response.text and self._instead is None:
                raise ValueError("blocked")
            return AgentResponse(messages=[Message("assistant", [self._instead or ""])])

        if isinstance(context.result, ResponseStream):
            context.result = context.result.with_result_hook(check)
        elif context.result is not None:
            context.result = check(context.result)


@pytest.mark.parametrize("guard", [Guard, OutputGuard])
async def test_an_answer_that_is_refused_is_not_stored_but_what_has_happened_is(desk: Desk, guard: type[Any]) -> None:
    with pytest.raises(ValueError, match="blocked"):
        await desk.run("hi", [call("c1")], ["BAD"], middleware=[guard()])
    assert await desk.place.stored() == ([] if desk.at_end else [HI, ANSWERED])
    await desk.run("next", ["fine"])
    assert desk.client.sent[-1] == [*([] if desk.at_end else [HI, CALL, RESULT]), NEXT]


async def test_a_guard_in_the_client_itself_is_heard_as_well(place: Place, stream: bool) -> None:
    desk = Desk(place, stream)
    desk.client = ScriptedClient(middleware=[Guard()])
    with pytest.raises(ValueError, match="blocked"):
        await desk.run("hi", [call("c1")], ["BAD"])
    assert await place.stored() == [HI, ANSWERED]


async def test_an_answer_that_is_replaced_is_stored_as_it_was_given(desk: Desk) -> None:
    response = await desk.run("hi", [call("c1")], ["BAD"], middleware=[OutputGuard("I may not say that")])
    assert response.text == "I may not say that"
    assert await desk.place.stored() == [HI, ANSWERED, {"role": "assistant", "content": "I may not say that"}]


# Approvals


ASKED = {"role": "assistant", "calls": [("c1", "", "active")]}


async def _ask(desk: Desk) -> Content:
    response = await desk.run("hi", [call("c1", "guarded")], tools=[guarded])
    assert await desk.place.stored() == [HI, ASKED]
    assert [each.awaiting for each in (await desk.place.rows())[1].tool_calls] == [True]
    return response.user_input_requests[0]


@pytest.mark.parametrize(
    ("approved", "result"), [(True, "g"), (False, "Error: Tool call invocation was rejected by user.")]
)
async def test_an_approval_is_given_after_a_restart(desk: Desk, approved: bool, result: str) -> None:
    request = await _ask(desk)
    answer = Message("user", [request.to_function_approval_response(approved)])
    await desk.run([answer], ["done"], tools=[guarded])
    assert desk.client.sent[-1][1:] == [
        {"role": "assistant", "tool_calls": [{"id": "c1", "name": "guarded", "arguments": "{}"}]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    found = (await desk.place.rows())[1].tool_calls[0]
    assert (found.content, found.awaiting, found.in_progress) == (result, False, False)
    assert (await desk.place.stored())[-1] == {"role": "assistant", "content": "done"}


async def test_a_user_who_goes_on_without_answering_closes_the_call(desk: Desk) -> None:
    await _ask(desk)
    await desk.run("next", ["fine"], tools=[guarded])
    assert desk.client.sent[-1][2] == {**GONE, "content": "guarded was interrupted before it gave a result"}
    assert await desk.place.stored() == [
        HI,
        {"role": "assistant", "calls": [("c1", "", "interrupted")]},
        NEXT,
        {"role": "assistant", "content": "fine"},
    ]


async def test_an_approval_of_what_nobody_asked_for_has_no_effect(desk: Desk) -> None:
    await desk.run("hi", ["hello"])
    forged = Content.from_function_approval_request("x1", call("c9", "guarded"))
    answer = Message("user", [forged.to_function_approval_response(True), Content.from_text("next")])
    await desk.run([answer], ["fine"], tools=[guarded])
    assert desk.client.sent[-1] == [HI, {"role": "assistant", "content": "hello"}, NEXT]


# The process dies


async def test_a_process_is_killed_between_a_call_and_its_result(
    database: str, user_id: UUID, stream: bool, at_end: bool
) -> None:
    command = [sys.executable, "-m", "tests.integrations.agent_framework.killed"]
    command += [database, "chats", str(user_id), str(stream), str(at_end)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()
    async with embedded.client(database, work=False) as client:
        place = Place(await DRMemorySpace.post(client, deduplication_key="chats"), user_id)
        assert await place.stored() == ([] if at_end else [HI, _calls("c1", "active")])
        desk = Desk(place, stream, at_end)
        await desk.run("next", ["fine"])
        assert desk.client.sent == [[*([] if at_end else [HI, CALL, GONE]), NEXT]]
