"""The demo agent on a real model: any server that speaks OpenAI's chat completions. Needs the `openai` extra."""

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from threadkeep.chat_history import AGUIAgent
from threadkeep.demo import weather
from threadkeep.demo.conversation import Json, chat_messages
from threadkeep.errors import MissingExtra
from threadkeep.ids import new_id

try:
    from openai import AsyncOpenAI
except ImportError as error:
    raise MissingExtra("openai", "The demo agent on a real model") from error

MODEL = "gpt-4o-mini"
ROUNDS = 8
"""How often the model may ask for tools in one run."""


class OpenAIAgent(AGUIAgent):
    """Talks to a model with streaming and the weather tool, for as many rounds as the model asks for.

    Endpoint and key come from `OPENAI_BASE_URL` and `OPENAI_API_KEY`, the model from `OPENAI_MODEL`, unless they are
    given. A call of a tool that the client brought ends the run: the client answers it with its next run.
    """

    def __init__(self, *, base_url: str | None = None, api_key: str | None = None, model: str | None = None) -> None:
        super().__init__("demo-openai")
        self._base_url = base_url
        self._api_key = api_key
        self._model = model or os.environ.get("OPENAI_MODEL") or MODEL

    async def run(self, input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        """Stream the run. What goes wrong ends it with a RUN_ERROR that says what."""
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        try:
            async with AsyncOpenAI(base_url=self._base_url, api_key=self._api_key) as client:
                async for event in self._rounds(client, input):
                    yield event
        except Exception as error:
            yield RunErrorEvent(message=f"The model failed: {error}", code="MODEL_ERROR")

    async def _rounds(self, client: AsyncOpenAI, input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        conversation = chat_messages(input.messages)
        tools, client_tools = _tools(input)
        for _ in range(ROUNDS):
            turn = _Turn()
            async for event in self._answer(client, conversation, tools, turn):
                yield event
            conversation.append(turn.message())
            for call in turn.calls:
                if call.name not in client_tools:
                    result = _run_tool(call)
                    conversation.append({"role": "tool", "tool_call_id": call.id, "content": result})
                    yield ToolCallResultEvent(message_id=new_id(), tool_call_id=call.id, content=result, role="tool")
            if not turn.calls or any(call.name in client_tools for call in turn.calls):
                yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)
                return
        yield RunErrorEvent(message=f"The model asked for tools {ROUNDS} times in one run", code="TOO_MANY_ROUNDS")

    async def _answer(
        self, client: AsyncOpenAI, conversation: list[Json], tools: list[Json], turn: "_Turn"
    ) -> AsyncGenerator[BaseEvent, None]:
        """One answer of the model, streamed; `turn` holds it afterwards."""
        create: Any = client.chat.completions.create
        async for chunk in await create(model=self._model, messages=conversation, tools=tools, stream=True):
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            # Not OpenAI's own, but what most other servers call it.
            if thought := getattr(delta, "reasoning_content", None):
                for event in turn.think(thought):
                    yield event
            if delta.content:
                for event in turn.say(delta.content):
                    yield event
            for piece in delta.tool_calls or ():
                for event in turn.ask(piece):
                    yield event
        for event in turn.close():
            yield event


@dataclass
class _Call:
    id: str
    name: str
    arguments: str = ""


@dataclass
class _Turn:
    """One answer of the model as it grows; each method gives the events that its piece makes."""

    id: str = field(default_factory=new_id)
    text: str = ""
    reasoning_id: str | None = None
    open_text: bool = False
    calls: list[_Call] = field(default_factory=list)
    by_index: dict[int, _Call] = field(default_factory=dict)

    def think(self, piece: str) -> list[BaseEvent]:
        events: list[BaseEvent] = []
        if self.reasoning_id is None:
            self.reasoning_id = new_id()
            events.append(ReasoningStartEvent(message_id=self.reasoning_id))
            events.append(ReasoningMessageStartEvent(message_id=self.reasoning_id, role="reasoning"))
        return [*events, ReasoningMessageContentEvent(message_id=self.reasoning_id, delta=piece)]

    def say(self, piece: str) -> list[BaseEvent]:
        events = self._close_reasoning()
        if not self.open_text:
            self.open_text = True
            events.append(TextMessageStartEvent(message_id=self.id, role="assistant"))
        self.text += piece
        return [*events, TextMessageContentEvent(message_id=self.id, delta=piece)]

    def ask(self, piece: Any) -> list[BaseEvent]:
        events = [*self._close_reasoning(), *self._close_text()]
        call = self.by_index.get(piece.index)
        if call is None:
            call = self.by_index[piece.index] = _Call(piece.id or new_id(), piece.function.name or "")
            self.calls.append(call)
            events.append(ToolCallStartEvent(tool_call_id=call.id, tool_call_name=call.name, parent_message_id=self.id))
        if piece.function and piece.function.arguments:
            call.arguments += piece.function.arguments
            events.append(ToolCallArgsEvent(tool_call_id=call.id, delta=piece.function.arguments))
        return events

    def close(self) -> list[BaseEvent]:
        ends = [ToolCallEndEvent(tool_call_id=call.id) for call in self.calls]
        return [*self._close_reasoning(), *self._close_text(), *ends]

    def message(self) -> Json:
        """The answer as the model's own message of the conversation."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in self.calls
        ]
        return {"role": "assistant", "content": self.text or None, **({"tool_calls": calls} if calls else {})}

    def _close_text(self) -> list[BaseEvent]:
        if not self.open_text:
            return []
        self.open_text = False
        return [TextMessageEndEvent(message_id=self.id)]

    def _close_reasoning(self) -> list[BaseEvent]:
        if self.reasoning_id is None:
            return []
        message, self.reasoning_id = self.reasoning_id, None
        return [ReasoningMessageEndEvent(message_id=message), ReasoningEndEvent(message_id=message)]


def _tools(input: RunAgentInput) -> tuple[list[Json], frozenset[str]]:
    """What the model is offered, and the names of those that the client runs."""
    functions = [{"name": weather.NAME, "description": weather.DESCRIPTION, "parameters": weather.PARAMETERS}]
    brought = [tool for tool in input.tools or () if tool.name != weather.NAME]
    for tool in brought:
        empty = {"type": "object", "properties": {}}
        functions.append({"name": tool.name, "description": tool.description, "parameters": tool.parameters or empty})
    return [{"type": "function", "function": function} for function in functions], frozenset(t.name for t in brought)


def _run_tool(call: _Call) -> str:
    return weather.call(call.arguments) if call.name == weather.NAME else f"There is no tool of the name {call.name!r}"
