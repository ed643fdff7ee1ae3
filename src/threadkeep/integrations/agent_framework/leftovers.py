"""Calls that a run left open: which they are, and what a model is told of them. Pure."""

from collections.abc import Collection, Sequence

from agent_framework import Content, Message

from threadkeep.chat_history import Message as Row
from threadkeep.chat_history import MessageStatus, ToolCall
from threadkeep.integrations.agent_framework.contents import is_answered
from threadkeep.integrations.agent_framework.marks import mark_stand_in
from threadkeep.integrations.agent_framework.repair import stand_in


def open_calls_of(rows: Sequence[Row], awaited: Collection[str]) -> list[ToolCall]:
    """The calls that have no result and have not been given up, without those whose results are on their way."""
    return [
        call
        for row in rows
        for call in row.tool_calls
        if call.status == MessageStatus.ACTIVE and not is_answered(call) and call.agui_id not in awaited
    ]


def stand_ins(rows: Sequence[Row], awaited: Collection[str]) -> list[Message]:
    """The message that answers the open calls of a conversation, for a service that has the calls itself."""
    results = [
        Content.from_function_result(call.agui_id or str(call.uuid), result=stand_in_for(call))
        for call in open_calls_of(rows, awaited)
    ]
    if not results:
        return []
    message = Message("tool", results)
    mark_stand_in(message)
    return [message]


def stand_in_for(call: ToolCall) -> str:
    """What a model is told of a call without a result."""
    if call.status == MessageStatus.ERRORED:
        return f"{call.name} failed before it gave a result"
    return stand_in(call.name)
