"""What the published clients refuse in a stream (`verifyEvents`), written down once more for tests: by their rules."""

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.chat_history.ag_ui.chunk_streams import ChunkStreams

Event = Mapping[str, Any]

_OPEN = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "THINKING_START": ("thinking", None),
    "THINKING_TEXT_MESSAGE_START": ("thought", None),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
_GO_ON = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "THINKING_TEXT_MESSAGE_CONTENT": ("thought", None),
}
_CLOSE = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "THINKING_END": ("thinking", None),
    "THINKING_TEXT_MESSAGE_END": ("thought", None),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}
_OWNED = {"text": "message", "call": "call", "span": "reasoning", "reasoning": "reasoning"}


def refusals(events: Sequence[Event]) -> list[str]:
    """What a strict client would refuse, in order; a stream that it takes gives none."""
    verifier = _Verifier()
    chunks = ChunkStreams()
    for event in events:
        for kind, fields in chunks.expand(event["type"], event):
            verifier.see(kind, fields)
    return verifier.refused


class _Verifier:
    def __init__(self) -> None:
        self.refused: list[str] = []
        self._state = "before"
        self._begin()

    def _begin(self) -> None:
        self._open: set[tuple[str, Any, Any]] = set()
        self._owners: dict[tuple[str, Any], Any] = {}
        self._subagents: set[str] = set()

    def see(self, kind: str, fields: Event) -> None:
        if kind == "RUN_STARTED":
            if self._state == "running":
                self._refuse("a run begins while one is active")
            self._state = "running"
            self._begin()
            return
        if self._state == "failed" or (self._state != "running" and kind != "RUN_ERROR"):
            self._refuse(f"{kind} while the run is {self._state}")
        if kind == "RUN_ERROR":
            self._state = "failed"
        elif kind == "RUN_FINISHED":
            self._state = "finished"
            if self._open:
                self._refuse(f"the run ends with {sorted(map(str, self._open))} open")
        elif kind == "MESSAGES_SNAPSHOT":
            self._seed(fields["messages"])
        elif kind in _OPEN:
            self._start(kind, fields)
        elif kind in _GO_ON or kind in _CLOSE:
            self._continue(kind, fields)

    def _start(self, kind: str, fields: Event) -> None:
        what, block = _OPEN[kind][0], _block(_OPEN[kind], fields)
        if block in self._open:
            self._refuse(f"{kind} of {block}, which is open")
        self._open.add(block)
        tag = fields.get("subagentRunId")
        if what == "subagent":
            parent = fields.get("parentSubagentRunId")
            if parent is not None and parent not in self._subagents:
                self._refuse(f"the subagent {tag!r} has a parent that has not started")
            if tag in self._subagents:
                self._refuse(f"the subagent {tag!r} starts twice")
            self._subagents.add(tag)
        elif what in _OWNED:
            parent_owner = self._owners.get(("message", fields.get("parentMessageId")), tag)
            if tag is not None and parent_owner != tag:
                self._refuse(f"the call {block} is of another subagent than its message")
            self._check_owner(what, block, tag)
            self._owners.setdefault((_OWNED[what], block[1]), parent_owner if what == "call" else tag)

    def _continue(self, kind: str, fields: Event) -> None:
        place = _GO_ON.get(kind) or _CLOSE[kind]
        block = _block(place, fields)
        if block not in self._open:
            self._refuse(f"{kind} of {block}, which is not open")
        if place[0] in _OWNED:
            self._check_owner(place[0], block, fields.get("subagentRunId"))
        if kind in _CLOSE:
            self._open.discard(block)

    def _check_owner(self, what: str, block: tuple[str, Any, Any], tag: Any) -> None:
        owner = self._owners.get((_OWNED[what], block[1]), tag)
        if tag is not None and owner != tag:
            self._refuse(f"{block} is {owner!r}'s, not {tag!r}'s")

    def _seed(self, messages: Sequence[Event]) -> None:
        for message in messages:
            owner = message.get("subagentRunId")
            kind = message["role"] if message["role"] in ("reasoning", "activity") else "message"
            self._owners[kind, message["id"]] = owner
            for call in message.get("toolCalls", ()):
                self._owners["call", call["id"]] = owner

    def _refuse(self, why: str) -> None:
        self.refused.append(why)


def _block(place: tuple[str, str | None], fields: Event) -> tuple[str, Any, Any]:
    what, key = place
    owner = fields.get("subagentRunId") if what == "step" else None
    return what, None if key is None else fields.get(key), owner
