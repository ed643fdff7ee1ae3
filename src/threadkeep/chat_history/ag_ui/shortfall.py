"""What is still said of a row that could not be stored whole: that it is short, and why. Holds nothing of its text."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from threadkeep.chat_history.ag_ui.patience import Backoff, Clock, Patience, Verdict, verdict_on
from threadkeep.chat_history.ag_ui.records import Row
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.stored_rows import StoredRows
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.dto import MessageCreate, MessageReasoningUpdate, MessageToolCallUpdate, MessageUpdate
from threadkeep.chat_history.models import Subagent
from threadkeep.chat_history.protocols import MessageRepositoryLike

logger = logging.getLogger("threadkeep.chat_history")

_LONGEST_REASON = 1_000
# The loop itself holds its tasks only weakly.
_telling: set[asyncio.Task[None]] = set()


@dataclass(slots=True)
class Shortfall:
    """One row that ends as errored in the store: `create` where it may not be there at all, else by its uuid.

    `calls` and `reasonings` are those that the store may still have as active, `subagents` all that it has.
    """

    reason: str
    uuid: UUID
    create: MessageCreate | None
    calls: list[UUID] = field(default_factory=list)
    reasonings: list[UUID] = field(default_factory=list)
    subagents: list[Subagent] = field(default_factory=list)

    async def store(self, repository: MessageRepositoryLike) -> None:
        """Say it. Raises what the repository raises."""
        note = {"in_progress": False, "status": MessageStatus.ERRORED, "error": self.reason[:_LONGEST_REASON]}
        async with repository.transaction():
            is_told = False
            if self.create is not None:
                created = await repository.create_message(self.create.model_copy(update=note))
                is_told = created.status == MessageStatus.ERRORED
            if not is_told:
                subagents = [each.model_copy(update=note) if each.in_progress else each for each in self.subagents]
                fields = {**note, "subagents": subagents or None}
                await repository.update_message(self.uuid, MessageUpdate.model_validate(fields))
            for call in self.calls:
                await repository.update_message_tool_call(call, MessageToolCallUpdate.model_validate(note))
            for step in self.reasonings:
                await repository.update_message_reasoning(step, MessageReasoningUpdate.model_validate(note))


def shortfall_of(row: Row, reason: str, state: StorageState, stored: StoredRows) -> Shortfall:
    """What there is to say of a row, with what the store has of it."""
    uuid, create = stored.uuid_of(row), None
    if uuid is None:
        first = state.message_creates[row]
        now = {"agui_id": row.agui_id, "name": row.name or first.name, "content": "", "parts": None}
        create = first.model_copy(update=now)
    calls = [
        stored.uuid_of(call) or state.tool_call_creates[call].uuid for call in row.calls if stored.may_be_open(call)
    ]
    steps = [
        stored.uuid_of(step) or state.reasoning_creates[step].uuid
        for step in row.reasonings
        if stored.may_be_open(step)
    ]
    subagents = stored.subagents_of(row)
    return Shortfall(reason, uuid or state.message_creates[row].message_uuid, create, calls, steps, subagents)


def tell_later(
    run_id: str, shortfalls: Iterable[Shortfall], repository: MessageRepositoryLike, patience: Patience, clock: Clock
) -> None:
    """Go on telling the store, behind everything else, for as long as patience says."""
    telling = _tell(run_id, list(shortfalls), repository, patience, clock)
    task = asyncio.create_task(telling, name=f"tell what is missing of {run_id}")
    _telling.add(task)
    task.add_done_callback(_telling.discard)


async def _tell(
    run_id: str, left: list[Shortfall], repository: MessageRepositoryLike, patience: Patience, clock: Clock
) -> None:
    deadline = clock.now() + patience.note
    backoff = Backoff(patience.longest_delay, patience.longest_note_delay)
    while left and clock.now() < deadline:
        await clock.sleep(max(0.0, backoff.not_before - clock.now()))
        try:
            async with asyncio.timeout(patience.attempt):
                await left[0].store(repository)
        except Exception as error:
            verdict = verdict_on(error)
            if verdict is Verdict.GONE:
                return
            if verdict is not Verdict.REFUSED:
                backoff.failed(error, clock.now())
                if verdict is Verdict.FAILED:
                    # One that the store stumbles over must not keep the others from being told.
                    left.append(left.pop(0))
                continue
            logger.exception("run %r: a message that is not stored in full could not be marked", run_id)
        else:
            backoff.succeeded()
        left.pop(0)
    if left:
        logger.error("run %r: the store was not told of %d messages that are missing or short", run_id, len(left))
