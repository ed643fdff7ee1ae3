"""The gateway's answers about threads: their messages and runs. Timestamps are RFC 3339 in UTC with microseconds."""

from typing import Any, NotRequired, TypedDict


class ThreadToolCall(TypedDict):
    """A tool call of a message. `aguiId` is AG-UI's toolCallId; `toolCallId` the id of its result's message.

    `parts` is there where the result was not plain text.
    """

    uuid: str
    aguiId: str | None
    toolCallId: str | None
    name: str
    arguments: str
    content: str
    status: str
    inProgress: bool
    error: str | None
    parts: NotRequired[list[Any]]
    encryptedValue: NotRequired[str]
    subagentRunId: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]


class ThreadReasoning(TypedDict):
    """A reasoning step of a message."""

    uuid: str
    aguiId: str | None
    name: str | None
    content: str
    status: str
    inProgress: bool
    error: str | None
    encryptedValue: NotRequired[str]
    subagentRunId: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]


class ThreadSubagent(TypedDict):
    """A subagent that worked for a message; what it said carries its `subagentRunId`."""

    subagentRunId: str
    name: str
    description: str | None
    parentSubagentRunId: str | None
    parentToolCallId: str | None
    parentMessageId: str | None
    status: str
    inProgress: bool
    error: str | None
    result: NotRequired[Any]
    outcome: NotRequired[Any]
    metadata: NotRequired[dict[str, Any]]


class ThreadMessage(TypedDict):
    """A message.

    `parts` is there where the content was not plain text, `activityType` on activities, whose content is JSON.
    `interrupts`, `outcome`, `result` and `usage` are what its run said at its end, on the run's last message.
    `follows` is the `messageUuid` that it comes after, where the user went back to an earlier message.
    """

    messageUuid: str
    aguiId: str | None
    role: str
    name: str | None
    content: str
    step: str | None
    status: str
    inProgress: bool
    error: str | None
    timestamp: str
    sequenceId: int
    runId: str | None
    toolCalls: list[ThreadToolCall]
    reasonings: list[ThreadReasoning]
    parts: NotRequired[list[Any]]
    follows: NotRequired[str]
    activityType: NotRequired[str]
    encryptedValue: NotRequired[str]
    subagentRunId: NotRequired[str]
    subagents: NotRequired[list[ThreadSubagent]]
    metadata: NotRequired[dict[str, Any]]
    interrupts: NotRequired[list[Any]]
    outcome: NotRequired[Any]
    result: NotRequired[Any]
    usage: NotRequired[list[Any]]


class Thread(TypedDict):
    """A thread, as it stands in the list and alone."""

    threadId: str
    name: str
    createdAt: str
    updatedAt: str
    lastMessage: ThreadMessage | None
    activeRunId: str | None


class ThreadRun(TypedDict):
    """A run: `active`, `finished`, `errored` or `interrupted`. `outcome` and `usage` are what the agent said."""

    runId: str
    parentRunId: str | None
    status: str
    outcome: Any
    usage: Any
    error: str | None
    startedAt: str
    finishedAt: str | None


class ThreadInterrupt(TypedDict):
    """A question that a run has ended with: `open`, `resolved`, `cancelled` or `expired`.

    `interrupt` is what the agent said. `expiresAt` is null where that says nothing, or nothing that can be read: it
    never expires then. `endedBy` is the run that brought the answer to the agent.
    """

    interruptId: str
    runId: str
    state: str
    expiresAt: str | None
    createdAt: str
    endedAt: str | None
    endedBy: str | None
    interrupt: Any


class ThreadPage(TypedDict):
    """Threads by newest activity; `cursor` asks for the next page, null at the end."""

    items: list[Thread]
    cursor: str | None


class MessagePage(TypedDict):
    """Messages, oldest first; `before` asks for the page before this one, null at the beginning."""

    items: list[ThreadMessage]
    before: str | None


class RunPage(TypedDict):
    """Runs, newest first; `cursor` asks for the next page, null at the end."""

    items: list[ThreadRun]
    cursor: str | None


class InterruptPage(TypedDict):
    """Interrupts, those that can be answered first; `cursor` asks for the next page, null at the end."""

    items: list[ThreadInterrupt]
    cursor: str | None


class ThreadPatch(TypedDict):
    """What a PATCH of a thread may say."""

    name: str


class Cancelled(TypedDict):
    """The answer to a cancel: false where the run had ended already."""

    cancelled: bool
