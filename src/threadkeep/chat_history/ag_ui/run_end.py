"""What a terminal event says of its run, read leniently. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from threadkeep.chat_history.ag_ui.lenient import identifier_of, list_of, mapping_of, plain, text_of
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.streams.run_log import RunEnding

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends: its status, why, and what it leaves for the next one."""

    status: MessageStatus
    error: str | None = None
    outcome: Any = None
    result: Any = None
    usage: list[Any] | None = None
    interrupts: list[Any] | None = None
    pending_calls: frozenset[str | None] = frozenset()
    fields: Fields = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.status is MessageStatus.COMPLETE

    @property
    def needs_row(self) -> bool:
        """Whether there is something to see, though the run may have said nothing."""
        return self.interrupts is not None or self.result is not None

    @property
    def says_something(self) -> bool:
        said = (self.outcome, self.result, self.usage, self.interrupts, self.fields.get("metadata"))
        return any(each is not None for each in said)

    def awaits(self, call_id: str | None) -> bool:
        """Whether a call without a result is to be answered after the run."""
        return self.interrupts is not None or (call_id is not None and call_id in self.pending_calls)


def read_finish(fields: Fields) -> RunEnd:
    """A RUN_FINISHED. An outcome that is no object is its type; one of an unknown type is a success."""
    outcome = plain(fields.get("outcome"))
    named: Any = {"type": outcome} if isinstance(outcome, str) else mapping_of(outcome)
    kind = named.get("type")
    interrupts = [*list_of(named.get("interrupts"))]
    # Drafts of the protocol had one interrupt, beside an outcome that was a word.
    if isinstance(outcome, str) and (single := mapping_of(fields.get("interrupt"))):
        interrupts = [plain(single)]
    return RunEnd(
        MessageStatus.INTERRUPTED if kind == "cancelled" else MessageStatus.COMPLETE,
        outcome=outcome,
        result=plain(fields.get("result")),
        usage=_usage(fields),
        interrupts=interrupts if kind == "interrupt" and interrupts else None,
        pending_calls=frozenset(identifier_of(each) for each in list_of(named.get("pendingToolCallIds"))),
        fields=fields,
    )


def read_error(fields: Fields) -> RunEnd:
    """A RUN_ERROR."""
    message, code = text_of(fields.get("message")) or "the run failed", text_of(fields.get("code"))
    error = f"[{code}] {message}" if code else message
    return RunEnd(MessageStatus.ERRORED, error, usage=_usage(fields), fields=fields)


def _usage(fields: Fields) -> list[Any] | None:
    """Token usage, one entry for each model; a single entry is a list of one."""
    usage = plain(fields.get("usage"))
    if isinstance(usage, dict):
        return [usage]
    return usage if isinstance(usage, list) and usage else None


def ending_of(kind: str, fields: Fields) -> RunEnding:
    """How a run is listed that ended with this event. Its outcome is kept as the agent said it."""
    outcome, usage = fields.get("outcome"), fields.get("usage")
    if kind != "RUN_FINISHED":
        return RunEnding("errored", outcome, usage, str(fields.get("message") or "The agent gave no reason"))
    end = read_finish(fields)
    status: Literal["interrupted", "finished"] = "finished" if end.is_good else "interrupted"
    return RunEnding(status, outcome, usage, interrupts=end.interrupts or ())
