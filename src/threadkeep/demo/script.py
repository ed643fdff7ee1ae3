"""The scripted demo agent: it thinks, talks, looks the weather up with its tool, and answers. No model, no network."""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator
from itertools import takewhile
from typing import Any

from ag_ui.core import (
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
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
from threadkeep.demo.conversation import user_texts
from threadkeep.ids import new_id

PAUSE = 0.04
"""Seconds between two pieces of a stream: slow enough to see them come."""

_PLACE = re.compile(r"\b(?:in|for|at) ([\w' -]+)")
_PIECE = re.compile(r"\S+\s*")


class DemoAgent(AGUIAgent):
    """Answers every question with the weather of the city that it names, or of Lisbon.

    `pause` is the time in seconds between two pieces of the stream; by default `THREADKEEP_DEMO_PAUSE`, else 0.04.
    """

    def __init__(self, pause: float | None = None) -> None:
        super().__init__("demo")
        self.pause = float(os.environ.get("THREADKEEP_DEMO_PAUSE", PAUSE)) if pause is None else pause

    async def run(self, input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        """Stream the run: reasoning, text, a tool call with its result, text."""
        async for event in self._script(input):
            yield event
            await asyncio.sleep(self.pause)

    async def _script(self, input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        questions = user_texts(input.messages)
        city = asked_city(questions[-1] if questions else "")
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        for event in _reasoning(f"The question is about {city}. The weather tool knows. I shall ask it."):
            yield event
        first, call, last = new_id(), new_id(), new_id()
        for event in _text(first, f"Let me look up the weather in {city}."):
            yield event
        yield ToolCallStartEvent(tool_call_id=call, tool_call_name=weather.NAME, parent_message_id=first)
        arguments = json.dumps({"city": city})
        for piece in _PIECE.findall(arguments):
            yield ToolCallArgsEvent(tool_call_id=call, delta=piece)
        yield ToolCallEndEvent(tool_call_id=call)
        result = weather.call(arguments)
        yield ToolCallResultEvent(message_id=new_id(), tool_call_id=call, content=result, role="tool")
        for event in _text(last, _answer(json.loads(result), len(questions))):
            yield event
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


def asked_city(question: str) -> str:
    """The city that a question names: the capitalised words after `in`, `for` or `at`; else Lisbon."""
    for match in _PLACE.finditer(question):
        if city := list(takewhile(lambda word: word[0].isupper(), match[1].split())):
            return " ".join(city)
    return "Lisbon"


def _answer(report: dict[str, Any], asked: int) -> str:
    count = f" (This was question {asked} of our conversation.)" if asked > 1 else ""
    return (
        f"It is {report['celsius']} °C in {report['city']}, the sky is {report['sky']}, "
        f"and the humidity is {report['humidity']} %.{count}"
    )


def _reasoning(text: str) -> list[BaseEvent]:
    message = new_id()
    return [
        ReasoningStartEvent(message_id=message),
        ReasoningMessageStartEvent(message_id=message, role="reasoning"),
        *(ReasoningMessageContentEvent(message_id=message, delta=piece) for piece in _PIECE.findall(text)),
        ReasoningMessageEndEvent(message_id=message),
        ReasoningEndEvent(message_id=message),
    ]


def _text(message: str, text: str) -> list[BaseEvent]:
    return [
        TextMessageStartEvent(message_id=message, role="assistant"),
        *(TextMessageContentEvent(message_id=message, delta=piece) for piece in _PIECE.findall(text)),
        TextMessageEndEvent(message_id=message),
    ]
