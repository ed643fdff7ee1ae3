"""What the fold keeps: rows, tool calls and reasonings while they grow. Plain values; the fold alone changes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import compact_json, joined_surrogates
from threadkeep.chat_history.constants import MessageStatus, Role


class Text:
    """A text that grows by deltas: appending costs the delta, the whole is joined when somebody asks for it."""

    __slots__ = ("_parts", "length")

    def __init__(self, text: str = "") -> None:
        self._parts = [text] if text else []
        self.length = len(text)

    def append(self, delta: str) -> None:
        if delta:
            self._parts.append(delta)
            self.length += len(delta)

    def replace(self, text: str) -> None:
        self._parts = [text] if text else []
        self.length = len(text)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __str__(self) -> str:
        if not self._parts:
            return ""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        text = self._parts[0] = joined_surrogates(self._parts[0])
        return text


class JSONText(Text):
    """A value as the text of its JSON, which is made when somebody asks for it."""

    __slots__ = ("_value",)

    def __init__(self, value: Any = None) -> None:
        super().__init__()
        self._value = value

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value
        self._parts = []

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        if not self._parts:
            self.replace(compact_json(self._value))
        return super().__str__()


@dataclass(slots=True, eq=False)
class Subagent:
    """An agent that worked for this run, as it was announced and as it ended."""

    subagent_run_id: str
    created_at: datetime
    row: "Row | None" = None
    name: str = ""
    description: str | None = None
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None
    parent_message_id: str | None = None
    metadata: dict[str, Any] | None = None
    result: Any = None
    outcome: Any = None
    status: MessageStatus = MessageStatus.ACTIVE
    error: str | None = None


@dataclass(slots=True, eq=False)
class Reasoning:
    """One reasoning step."""

    agui_id: str | None
    name: str | None
    created_at: datetime
    row: "Row | None" = None
    content: Text = field(default_factory=Text)
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    error: str | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One tool call.

    `answered` tells an empty result from none; `sealed` takes no more arguments; `awaiting` outlives its run, because
    the client or a person answers it. `parts` are the result where it was not plain text.
    """

    agui_id: str | None
    name: str
    created_at: datetime
    row: "Row"
    arguments: Text = field(default_factory=Text)
    content: str = ""
    parts: list[Any] | None = None
    result_id: str | None = None
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
    answered: bool = False
    sealed: bool = False
    awaiting: bool = False
    status: MessageStatus = MessageStatus.ACTIVE
    error: str | None = None


@dataclass(slots=True, eq=False)
class Row:
    """One message of history.

    `open` while a text block runs; `spoken` once one has begun; `results` once a call of it has its result;
    `kept` once there is something to keep, since a block that begins and ends empty leaves no row.
    `unsaved` counts the characters that came since the row was last written.
    """

    agui_id: str | None
    role: Role
    timestamp: datetime
    step: str | None = None
    name: str | None = None
    content: Text = field(default_factory=Text)
    calls: list[Call] = field(default_factory=list)
    reasonings: list[Reasoning] = field(default_factory=list)
    subagents: list[Subagent] = field(default_factory=list)
    activity_type: str | None = None
    interrupts: list[Any] | None = None
    outcome: Any = None
    result: Any = None
    usage: list[Any] | None = None
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    error: str | None = None
    open: bool = False
    spoken: bool = False
    results: bool = False
    kept: bool = False
    unsaved: int = 0


def merged(present: dict[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata after more of it has come: the last word on a key counts."""
    return {**(present or {}), **more}
