"""What CopilotKit's clients are told of the agent, of threads and of messages: our shapes in, theirs out. Pure."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from threadkeep.contract.threads import Thread
from threadkeep.domain.principal import Principal

RUNTIME_VERSION = "1.75.0"
"""The release of `@copilotkit/runtime` whose protocol is served."""


class ThreadRecord(TypedDict):
    """A thread in their lists. Times are RFC 3339."""

    id: str
    name: str
    agentId: str
    organizationId: str
    createdById: str
    archived: bool
    createdAt: str
    updatedAt: str


class InspectedCall(TypedDict):
    """A tool call of an inspected message; `args` is JSON."""

    id: str
    name: str
    args: str


class InspectedMessage(TypedDict):
    """A message as their inspector shows it; `content` is AG-UI's, whatever that is of the role."""

    id: str
    role: str
    content: NotRequired[Any]
    toolCalls: NotRequired[list[InspectedCall]]
    toolCallId: NotRequired[str]
    activityType: NotRequired[str]


class Stopped(TypedDict):
    """Whether a run was stopped; `interrupt` is there where one was, `message` where none was."""

    stopped: bool
    message: NotRequired[str]
    interrupt: NotRequired[dict[str, str]]


def runtime_info(agent_id: str) -> dict[str, Any]:
    """What a frontend asks first: which agents there are, and what can be done with threads."""
    return {
        "version": RUNTIME_VERSION,
        "agents": {agent_id: {"name": agent_id, "description": "", "className": "AGUIAgent"}},
        "audioFileTranscriptionEnabled": False,
        "mode": "sse",
        "threadEndpoints": {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False},
        "suggestions": True,
        "a2uiEnabled": False,
        "openGenerativeUIEnabled": False,
        "telemetryDisabled": True,
    }


def thread_record(thread: Thread, principal: Principal, agent_id: str, *, archived: bool) -> ThreadRecord:
    """A thread of the principal."""
    return {
        "id": thread["threadId"],
        "name": thread["name"],
        "agentId": agent_id,
        "organizationId": principal.tenant_id,
        "createdById": principal.user_id,
        "archived": archived,
        "createdAt": thread["createdAt"],
        "updatedAt": thread["updatedAt"],
    }


def inspected(message: Mapping[str, Any]) -> InspectedMessage:
    """An AG-UI message in the shape of their inspector."""
    shown: InspectedMessage = {"id": message["id"], "role": message["role"]}
    if "content" in message:
        shown["content"] = message["content"]
    if "activityType" in message:
        shown["activityType"] = message["activityType"]
    if "toolCalls" in message:
        shown["toolCalls"] = [
            {"id": call["id"], "name": call["function"]["name"], "args": call["function"]["arguments"]}
            for call in message["toolCalls"]
        ]
    if "toolCallId" in message:
        shown["toolCallId"] = message["toolCallId"]
    return shown


def stopped() -> Stopped:
    """The answer where a run was stopped, with what their client shows in its place."""
    return {"stopped": True, "interrupt": {"type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED"}}


def not_stopped(thread_id: str, run_id: str | None) -> Stopped:
    """The answer where there was nothing to stop."""
    why = f"No active run for thread {thread_id!r}." if run_id is None else f"Run {run_id!r} is not the active run."
    return {"stopped": False, "message": why}
