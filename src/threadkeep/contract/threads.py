"""The gateway's answers about threads: their messages and runs. Timestamps are RFC 3339 in UTC with microseconds."""

from typing import Any, NotRequired, TypedDict


class ThreadToolCall(TypedDict):
    """A tool call of a message. `aguiId` is AG-UI's toolCallId; `toolCallId` the id of its result's message."""

    uuid: str
    aguiId: str | None
    toolCallId: str | None
    name: str
    arguments: str
    content: str
    status: str
    inProgress: bool
    error: str | None


class ThreadReasoning(TypedDict):
    """A reasoning step of a message."""

    uuid: str
    aguiId: str | None
    name: str | None
    content: str
    status: str
    inProgress: bool
    error: str | None


class ThreadMessage(TypedDict):
    """A message. `parts` is there where the content was not plain text, `interrupts` where the run waits for some."""

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
    interrupts: NotRequired[list[Any]]


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


class ThreadPatch(TypedDict):
    """What a PATCH of a thread may say."""

    name: str


class Cancelled(TypedDict):
    """The answer to a cancel: false where the run had ended already."""

    cancelled: bool
