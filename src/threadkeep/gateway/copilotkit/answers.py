"""What CopilotKit's clients are told of the agent, of threads and of messages: our shapes in, theirs out. Pure."""

from typing import Any, NotRequired, TypedDict

from threadkeep.chat_history.constants import Role
from threadkeep.contract.threads import Thread, ThreadMessage, ThreadToolCall
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
    """A message as their inspector shows it."""

    id: str
    role: str
    content: NotRequired[str]
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


def inspected(message: ThreadMessage) -> list[InspectedMessage]:
    """A stored message as the messages that a client has of it: what was thought, what was said, what calls gave."""
    thoughts: list[InspectedMessage] = [
        {"id": step["aguiId"] or step["uuid"], "role": Role.REASONING.value, "content": step["content"]}
        for step in message["reasonings"]
    ]
    said: InspectedMessage = {"id": message["aguiId"] or message["messageUuid"], "role": message["role"]}
    if message["content"] or not message["toolCalls"]:
        said["content"] = message["content"]
    if message["toolCalls"]:
        said["toolCalls"] = [
            {"id": _call_id(call), "name": call["name"], "args": call["arguments"]} for call in message["toolCalls"]
        ]
    if "activityType" in message:
        said["activityType"] = message["activityType"]
    results: list[InspectedMessage] = [
        {
            "id": call["toolCallId"],
            "role": Role.TOOL.value,
            "content": call["content"],
            "toolCallId": _call_id(call),
        }
        for call in message["toolCalls"]
        if call["toolCallId"] is not None
    ]
    return [*thoughts, said, *results]


def stopped() -> Stopped:
    """The answer where a run was stopped, with what their client shows in its place."""
    return {"stopped": True, "interrupt": {"type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED"}}


def not_stopped(thread_id: str, run_id: str | None) -> Stopped:
    """The answer where there was nothing to stop."""
    why = f"No active run for thread {thread_id!r}." if run_id is None else f"Run {run_id!r} is not the active run."
    return {"stopped": False, "message": why}


def _call_id(call: ThreadToolCall) -> str:
    return call["aguiId"] or call["uuid"]
