"""What the fold keeps: rows, tool calls and reasonings while they grow. Plain values; the fold alone changes them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import joined_surrogates
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


@dataclass(slots=True, eq=False)
class Reasoning:
    """One reasoning step."""

    agui_id: str | None
    name: str | None
    created_at: datetime
    row: "Row | None" = None
    content: Text = field(default_factory=Text)
    encrypted_value: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    error: str | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One tool call.

    `answered` tells an empty result from none; `sealed` takes no more arguments; `awaiting` outlives its run, because
    the client or a person answers it.
    """

    agui_id: str | None
    name: str
    created_at: datetime
    row: "Row"
    arguments: Text = field(default_factory=Text)
    content: str = ""
    result_id: str | None = None
    encrypted_value: str | None = None
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
    interrupts: list[Any] | None = None
    encrypted_value: str | None = None
    status: MessageStatus = MessageStatus.ACTIVE
    error: str | None = None
    open: bool = False
    spoken: bool = False
    results: bool = False
    kept: bool = False
    unsaved: int = 0
