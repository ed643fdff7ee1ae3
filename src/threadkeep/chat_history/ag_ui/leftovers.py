"""Records that a run left open when its process died: which they are, and how they end. Pure."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.models import Message, Reasoning, Subagent, ToolCall

Leftover = Message | ToolCall | Reasoning


def leftovers(stored: Sequence[Message], live_runs: Collection[str]) -> Iterator[Leftover]:
    """The open records of runs that are not live, parents before what is in them.

    A call that waits for the client's answer is no leftover, and what a user said is whole from its beginning; what an
    agent emitted in a user's name is not. The last assistant message of a run that left something open counts as open
    too: it shows how the run ended.
    """
    last_of_run = {message.run_id: message for message in stored if message.role == Role.ASSISTANT}
    for message in stored:
        if message.run_id is not None and message.run_id in live_runs:
            continue
        inner: list[Leftover] = [
            *(call for call in message.tool_calls if _is_open(call) and not call.awaiting),
            *(step for step in message.reasonings if _is_open(step)),
        ]
        is_open = _is_open(message) and not (message.role == Role.USER and message.emitter_type == "user")
        # Subagents are part of the message's own fields.
        is_open = is_open or any(map(_is_open, message.subagents))
        if is_open or (inner and last_of_run.get(message.run_id) is message):
            yield message
        yield from inner


def interrupted(record: Leftover, error: str | None = None) -> dict[str, Any]:
    """The fields that end a leftover, and the subagents that are open in it."""
    ending = {"in_progress": False, "status": MessageStatus.INTERRUPTED, **({"error": error} if error else {})}
    if not isinstance(record, Message) or not any(map(_is_open, record.subagents)):
        return ending
    subagents = [each.model_copy(update=ending) if _is_open(each) else each for each in record.subagents]
    return {**ending, "subagents": subagents}


def _is_open(record: Leftover | Subagent) -> bool:
    return record.status == MessageStatus.ACTIVE
