"""Approvals that were pending when their process ended: the framework asks its session for them, and here they are."""

from collections.abc import Iterable, Sequence
from typing import Any

from agent_framework import AgentSession, Content, Message

# Where the framework keeps them in a session's state; serialised sessions have the same names.
_STATE, _PENDING = "tool_approval", "pending_approval_requests"


def restore_pending(session: AgentSession, history: Iterable[Message], inputs: Sequence[Message]) -> None:
    """Give a session that has lost its pending approvals those that chat history has and that are answered now.

    Only requests that were stored when the framework made them count: an answer to anything else stays without effect.

    Args:
        session: the session of the run; changed in place.
        history: the conversation, with the requests that are open in it.
        inputs: what came in.
    """
    state = session.state.get(_STATE)
    if isinstance(state, dict) and state.get(_PENDING):
        return
    answered = answered_approvals(inputs)
    pending: dict[str | None, dict[str, Any]] = {
        content.id: content.to_dict()
        for message in history
        for content in message.contents
        if content.type == "function_approval_request" and content.id in answered
    }
    if pending:
        session.state[_STATE] = {**(state if isinstance(state, dict) else {}), _PENDING: [*pending.values()]}


def answered_approvals(inputs: Iterable[Message]) -> set[str | None]:
    """The ids of the requests that these messages answer."""
    return {content.id for content in _responses(inputs)}


def open_calls(inputs: Sequence[Message]) -> set[str]:
    """The ids of the calls whose results or approvals these messages bring."""
    results = {
        content.call_id for message in inputs for content in message.contents if content.type == "function_result"
    }
    approved = {content.function_call.call_id for content in _responses(inputs) if content.function_call is not None}
    return {call_id for call_id in results | approved if call_id}


def _responses(inputs: Iterable[Message]) -> list[Content]:
    return [
        content for message in inputs for content in message.contents if content.type == "function_approval_response"
    ]
