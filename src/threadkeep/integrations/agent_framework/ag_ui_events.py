"""From the framework's updates to AG-UI events: text, tool calls, results, reasoning. Pure, one object for each run."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from agent_framework import AgentResponseUpdate, Content

from threadkeep.integrations.agent_framework.contents import arguments_text, result_text


class EventStream:
    """Turns updates into events. What has begun is ended before something else begins, and by `end`.

    `approvals` has the requests for approval that came, by the id of their call.
    """

    def __init__(self) -> None:
        self.approvals: dict[str, Content] = {}
        self._text: str | None = None
        self._source: str | None = None
        self._reasoning: str | None = None
        self._call: str | None = None
        self._calls: dict[str, str] = {}
        self._ended: set[str] = set()

    def events(self, update: AgentResponseUpdate) -> Iterator[BaseEvent]:
        """The events of one update."""
        for content in update.contents:
            if content.type == "text":
                yield from self._say(content.text or "", update.message_id)
            elif content.type == "text_reasoning":
                yield from self._think(content)
            elif content.type == "function_call":
                yield from self._ask(content, content.call_id, content.name, content.arguments)
            elif content.type == "mcp_server_tool_call":
                yield from self._ask(content, content.call_id, content.tool_name, content.arguments)
            elif content.type == "function_result":
                yield from self._answer(content.call_id, result_text(content))
            elif content.type == "mcp_server_tool_result":
                yield from self._answer(content.call_id, _output_text(content.output))
            elif content.type == "function_approval_request" and content.function_call is not None:
                self.approvals[content.function_call.call_id or ""] = content

    def end(self) -> Iterator[BaseEvent]:
        """End what is open."""
        yield from self._end_text()
        yield from self._end_reasoning()
        yield from self._end_call()

    def _say(self, text: str, source: str | None) -> Iterator[BaseEvent]:
        if not text:
            return
        yield from self._end_reasoning()
        yield from self._end_call()
        if self._text is not None and source and self._source and source != self._source:
            yield from self._end_text()
        if self._text is None:
            self._text, self._source = str(uuid4()), source
            yield TextMessageStartEvent(message_id=self._text, role="assistant")
        yield TextMessageContentEvent(message_id=self._text, delta=text)

    def _think(self, content: Content) -> Iterator[BaseEvent]:
        yield from self._end_text()
        yield from self._end_call()
        agui_id = content.id or self._reasoning or str(uuid4())
        if self._reasoning != agui_id:
            yield from self._end_reasoning()
            self._reasoning = agui_id
            yield ReasoningMessageStartEvent(message_id=agui_id, role="reasoning")
        if content.text:
            yield ReasoningMessageContentEvent(message_id=agui_id, delta=content.text)
        if content.protected_data:
            yield ReasoningEncryptedValueEvent(
                subtype="message", entity_id=agui_id, encrypted_value=content.protected_data
            )

    def _ask(self, content: Content, call_id: str | None, name: str | None, arguments: Any) -> Iterator[BaseEvent]:
        """A call, or a piece of one: later pieces may know only what the function loop calls it."""
        place = content.id or call_id or self._call or ""
        known = self._calls.get(place) or (call_id if call_id in self._calls.values() else None)
        parent = self._text
        if known is None:
            known = call_id or place or str(uuid4())
            yield from self._end_text()
            yield from self._end_reasoning()
            yield from self._end_call()
            self._calls[place] = known
            self._call = known
            yield ToolCallStartEvent(tool_call_id=known, tool_call_name=name or "", parent_message_id=parent)
        delta = arguments_text(arguments) if isinstance(arguments, Mapping) else arguments
        if delta and known not in self._ended:
            yield ToolCallArgsEvent(tool_call_id=known, delta=delta)

    def _answer(self, call_id: str | None, text: str) -> Iterator[BaseEvent]:
        yield from self.end()
        yield ToolCallResultEvent(message_id=str(uuid4()), tool_call_id=call_id or "", content=text, role="tool")

    def _end_text(self) -> Iterator[BaseEvent]:
        if self._text is not None:
            yield TextMessageEndEvent(message_id=self._text)
        self._text = self._source = None

    def _end_reasoning(self) -> Iterator[BaseEvent]:
        if self._reasoning is not None:
            yield ReasoningMessageEndEvent(message_id=self._reasoning)
        self._reasoning = None

    def _end_call(self) -> Iterator[BaseEvent]:
        if self._call is not None:
            self._ended.add(self._call)
            yield ToolCallEndEvent(tool_call_id=self._call)
        self._call = None


def _output_text(output: Any) -> str:
    """What a tool of the service gave, as text."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return "\n".join(item.text for item in output if isinstance(item, Content) and item.text)
    return json.dumps(output, ensure_ascii=False, default=str)
