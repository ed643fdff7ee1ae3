"""The field cases of function loops (`tests/cases/2*.json`), each in both modes, streaming and not."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    AgentResponse,
    ChatContext,
    ChatMiddleware,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    Message,
    MiddlewareTermination,
    tool,
)

from tests.integrations.agent_framework.scripted import ScriptedClient, run, seen
from tests.integrations.agent_framework.stored import Place
from threadkeep.integrations.agent_framework import ConversationConflict, PersistentAgent

FOLDER = Path(__file__).parents[2] / "cases"
CASES = {path.stem[:3]: json.loads(path.read_text()) for path in sorted(FOLDER.glob("2*.json"))}

Shape = list[dict[str, Any]]


class Crash(BaseException):
    """The process is gone: nothing runs any more that would tidy up."""


class Blocked(Exception):
    """A guard has refused an answer."""


class Played:
    """A case, played by an agent whose tools and model do what its steps say."""

    def __init__(self, place: Place, case: dict[str, Any], stream: bool, at_end: bool, **options: Any) -> None:
        self.place, self.stream, self.at_end = place, stream, at_end
        self.options = options
        self.input = [_message(fields) for fields in case["input"].get("new_input", [])]
        self.steps = case["input"].get("steps", [])
        self.client = ScriptedClient(*[_contents(step) for step in self.steps if _is_answer(step)])
        self.results = {
            each["tool_call_id"]: each["content"]
            for step in self.steps
            if isinstance(step, dict)
            for each in step.get("tools_return", [])
        }
        self.waiting = asyncio.Event()

    def agent(self, **options: Any) -> PersistentAgent:
        return PersistentAgent(
            self.client,
            context_providers=[self.place.provider(**self.options)],
            persist_chat_history_at_end_of_run=self.at_end,
            **{"tools": [self.tool()], **options},
        )

    def tool(self, approval: str = "never_require") -> Any:
        @tool(name="f", approval_mode=approval)  # type: ignore[call-overload]
        async def f() -> str:
            """What the case says."""
            return next(iter(self.results.values()), "r")

        return f

    async def run(self, messages: Any = None, **options: Any) -> AgentResponse[Any]:
        session = self.place.provider().create_session("t")
        return await run(
            self.agent(**options), self.input if messages is None else messages, session, stream=self.stream
        )

    async def next_run(self) -> Shape:
        """A further run; returns what the model was sent."""
        self.client.script(["fine"])
        await self.run("next")
        return self.client.sent[-1]

    async def history(self) -> Shape:
        """What is stored, in the shape of the cases: calls without a result have none."""
        return [_without_empty(fields) for fields in seen(await self.place.provider().get_messages("t"))]


@pytest.fixture
def play(place: Place, stream: bool, at_end: bool) -> Callable[..., Played]:
    return lambda number, **options: Played(place, CASES[number], stream, at_end, **options)


def test_every_case_is_here() -> None:
    here = {name.removeprefix("test_")[:3] for name in globals() if name.startswith("test_2")}
    assert here == set(CASES)


async def test_201_per_call_crash_before_second_call(play: Callable[..., Played]) -> None:
    case, expect = play("201"), CASES["201"]["expect"]

    class Dies(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            await call_next()
            raise Crash

    with pytest.raises(Crash):
        await case.run(middleware=[Dies()])
    assert await case.history() == expect["per_run" if case.at_end else "per_service_call"]
    assert (await case.next_run())[-1] == {"role": "user", "content": "next"}


async def test_202_trailing_result_on_termination(play: Callable[..., Played]) -> None:
    case, expect = play("202"), CASES["202"]["expect"]

    class Stops(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            await call_next()
            raise MiddlewareTermination

    await case.run(middleware=[Stops()])
    assert await case.history() == expect["per_run_trimmed"] == expect["per_service_call"]


async def test_203_no_reappend_in_loop(play: Callable[..., Played]) -> None:
    case, expect = play("203"), CASES["203"]["expect"]
    await case.run()
    assert await case.history() == expect["per_run"] == expect["per_service_call"]


async def test_205_parallel_tools_cancelled_halfway(play: Callable[..., Played]) -> None:
    case, expect = play("205"), CASES["205"]["expect"]
    calls = iter(("c1", "c2"))

    @tool(name="f", approval_mode="never_require")
    async def halfway() -> str:
        """The first call returns, the second is still at it when the user stops."""
        if next(calls) == "c2":
            case.waiting.set()
            await asyncio.Event().wait()
        return "r"

    task = asyncio.create_task(case.run(tools=[halfway]))
    await case.waiting.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await case.history() == ([] if case.at_end else expect["per_service_call"])
    gone = "f was interrupted before it gave a result"
    wanted = [
        {**fields, "content": gone} if fields["role"] == "tool" else fields for fields in expect["next_model_input"]
    ]
    assert await case.next_run() == (wanted[-1:] if case.at_end else wanted)


async def test_206_max_iterations(play: Callable[..., Played]) -> None:
    case, expect = play("206"), CASES["206"]["expect"]
    # The framework runs the last batch that fits into its limit; its result takes the place of a note on the limit.
    case.client.function_invocation_configuration["max_iterations"] = 2
    await case.run()
    wanted = [
        {**fields, "content": "r"} if fields["role"] == "tool" else fields for fields in expect["per_service_call"]
    ]
    assert await case.history() == wanted


async def test_207_approval_pause_and_failed_resume(play: Callable[..., Played]) -> None:
    case, expect = play("207"), CASES["207"]["expect"]
    guarded = [case.tool("always_require")]
    request = (await case.run(tools=guarded)).user_input_requests[0]
    assert [_without_others(fields) for fields in await case.history()] == expect["after_pause"]
    assert await _waiting(case.place) == expect["pending"]
    answer = Message("user", [request.to_function_approval_response(approved=True)])
    case.client.script(RuntimeError("503"))
    with pytest.raises(RuntimeError, match="503"):
        await case.run([answer], tools=guarded)
    assert await _waiting(case.place) == ["c1"]
    case.client.script(["done"])
    await case.run([answer], tools=guarded)
    assert await _waiting(case.place) == []
    assert [fields["role"] for fields in await case.history()] == ["user", "assistant", "tool", "assistant"]


async def test_209_reasoning_goes_with_its_call(play: Callable[..., Played]) -> None:
    case, expect = play("209", dangling="drop"), CASES["209"]["expect"]
    await _store(case.place, CASES["209"]["input"]["history"])
    sent = await case.next_run()
    assert sent == [*expect["next_model_input"], {"role": "user", "content": "next"}]
    types = [[content.type for content in m.contents] for m in await case.place.provider().get_messages("t")]
    assert types[:3] == [["text"], ["text_reasoning"], ["function_call"]]


@pytest.mark.parametrize("conflict", ["error", "warn", "prefer_service", "prefer_history"])
async def test_210_service_stores_history_too(place: Place, stream: bool, at_end: bool, conflict: str) -> None:
    case = Played(place, CASES["210"], stream, at_end, conflict=conflict)
    history = place.provider(conflict=conflict)
    session = history.create_session("t")
    session.service_session_id = CASES["210"]["input"]["conversation_id"]
    agent = case.agent()
    if conflict == "error":
        with pytest.raises(ConversationConflict, match="conv_1"):
            await run(agent, case.input, session, stream=stream)
        return
    await run(agent, case.input, session, stream=stream)
    assert await case.history() == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]
    case.client.script(["fine"])
    await run(agent, "next", session, stream=stream)
    both = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]
    assert case.client.sent[-1] == [
        *(both if conflict == "prefer_history" else []),
        {"role": "user", "content": "next"},
    ]
    kept = case.client.options[-1].get("conversation_id")
    assert kept == (None if conflict == "prefer_history" else "conv_1")


async def test_211_approval_roundtrip_duplicates_call(play: Callable[..., Played]) -> None:
    case, expect = play("211"), CASES["211"]["expect"]
    call = Content.from_function_call("c1", "f", arguments="{}", id="c1")
    request = Content.from_function_approval_request("c1", call)
    stored = [Message("user", ["hi"]), Message("assistant", [call]), Message("assistant", [request])]
    await case.place.provider().save_messages("t", stored)
    case.client.script(["done"])
    answer = Message("user", [request.to_function_approval_response(approved=True)])
    await case.run([answer], tools=[case.tool("always_require")])
    assert case.client.sent[-1] == expect["next_model_input"]


async def test_213_guardrail_trips_after_tool(play: Callable[..., Played]) -> None:
    case, expect = play("213"), CASES["213"]["expect"]

    class Guard(ChatMiddleware):
        async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
            def check(response: Any) -> None:
                if "BAD" in response.text:
                    raise Blocked

            await call_next()
            if context.stream:
                context.result = context.result.with_result_hook(check)  # type: ignore[union-attr]
            else:
                check(context.result)

    with pytest.raises(Blocked):
        await case.run(middleware=[Guard()])
    assert await case.history() == ([] if case.at_end else expect["per_service_call"])
    assert "BAD" not in json.dumps(await case.next_run())


async def test_214_compaction_cancelled(play: Callable[..., Played]) -> None:
    case, expect = play("214"), CASES["214"]["expect"]
    await _store(case.place, CASES["214"]["input"]["history"])

    async def clears_and_is_cancelled(messages: list[Message]) -> bool:
        messages.clear()
        raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        await case.run("more", compaction_strategy=clears_and_is_cancelled)
    kept = await case.history()
    assert kept[:4] == expect["history_after"]
    assert (await case.next_run())[:4] == expect["history_after"]


async def test_215_identical_items_are_not_the_same(play: Callable[..., Played]) -> None:
    case, expect = play("215"), CASES["215"]["expect"]
    for _ in range(2):
        case.client.script(["ok"])
        await case.run("yes")
    assert await case.history() == CASES["215"]["input"]["history"]
    # A rewind is done on rows, which have ids of their own.
    for row in (await case.place.rows())[-2:]:
        await row.delete()
    assert await case.history() == expect["history_after"]
    assert (await case.next_run())[:2] == expect["history_after"]


# Cases as the framework's messages


def _is_answer(step: Any) -> bool:
    return isinstance(step, dict) and "service_call_returns" in step


def _contents(step: dict[str, Any]) -> list[Content | str]:
    return list(_message(step["service_call_returns"]).contents)


def _message(fields: dict[str, Any]) -> Message:
    if fields.get("type") == "reasoning":
        reasoning = Content.from_text_reasoning(id=fields["id"], protected_data=fields["encrypted"])
        return Message("assistant", [reasoning])
    calls = [
        Content.from_function_call(each["id"], each["name"], arguments=each["arguments"])
        for each in fields.get("tool_calls", [])
    ]
    text = [Content.from_text(fields["content"])] if fields.get("content") else []
    return Message(fields["role"], [*text, *calls])


async def _store(place: Place, history: Shape) -> None:
    await place.provider().save_messages("t", [_message(fields) for fields in history])


async def _waiting(place: Place) -> list[str | None]:
    return [call.agui_id for row in await place.rows() for call in row.tool_calls if call.awaiting]


def _without_others(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "others"}


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [])}
