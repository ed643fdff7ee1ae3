"""What is stored of a run's rows, and how the difference to what they hold now becomes calls of the repository."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel

from threadkeep.chat_history.ag_ui.identities import EVENT
from threadkeep.chat_history.ag_ui.kept_events import KeptEvents
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row
from threadkeep.chat_history.ag_ui.records import Subagent as SubagentRecord
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.thread_state import ThreadState
from threadkeep.chat_history.ag_ui.turn import Written
from threadkeep.chat_history.chat_records import ChatEventCreate
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.dto import MessageReasoningUpdate, MessageToolCallUpdate, MessageUpdate
from threadkeep.chat_history.models import Message, Subagent, ToolCall
from threadkeep.chat_history.models import Reasoning as StoredReasoning
from threadkeep.chat_history.protocols import EventRepositoryLike, MessageRepositoryLike, StateRepositoryLike
from threadkeep.persistence import DRMemoryNotFoundError

M = TypeVar("M", bound=BaseModel)
Record = Row | Call | Reasoning
StoredRecord = Message | ToolCall | StoredReasoning
_TEXTS = ("content", "arguments")
_LONG_TEXT = 128 * 1024


@dataclass(slots=True)
class _Stored:
    """What is stored of one record: its uuid, None before it is created, and the values that it was written with."""

    uuid: UUID | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


class StoredRows:
    """The rows of one run as the repository has them."""

    def __init__(self, state: StorageState, repository: MessageRepositoryLike) -> None:
        self._state = state
        self._repository = repository
        self._stored: dict[Record, _Stored] = {}
        self._found: dict[UUID, StoredRecord] = {}

    def adopt(self, record: Row | Call, uuid: UUID) -> None:
        """A record of an earlier run: only what changes from now on is written."""
        self._stored[record] = _Stored(uuid, _values_of(record))

    def found(self, messages: Sequence[Message]) -> None:
        """Messages of the run are stored already. Its records find them by their uuids."""
        for message in messages:
            records: list[StoredRecord] = [message, *message.tool_calls, *message.reasonings]
            self._found |= {each.message_uuid if isinstance(each, Message) else each.uuid: each for each in records}

    def seen(self, record: Record) -> StoredRecord | None:
        """What was found of a record; None where nothing was."""
        uuid = self._first_uuid(record) if self._found else None
        return None if uuid is None else self._found.get(uuid)

    def uuid_of(self, record: Record) -> UUID | None:
        """Under which uuid a record is stored; None where it is not known to be."""
        return self._of(record).uuid

    def may_be_open(self, record: Record) -> bool:
        """Whether the store may have a record as active that nothing awaits any more."""
        values = self._of(record).values
        return values.get("status", MessageStatus.ACTIVE) is MessageStatus.ACTIVE and not values.get("awaiting")

    def subagents_of(self, row: Row) -> list[Subagent]:
        """The subagents that are stored with a row."""
        return self._of(row).values.get("subagents") or []

    def length(self, row: Written) -> int:
        """How many characters are stored of a row and of what is in it: what each further write sends again."""
        if not isinstance(row, Row):
            return 0
        records: list[Record] = [row, *row.calls, *row.reasonings]
        return sum(len(self._of(each).values.get(name) or "") for each in records for name in ("content", "arguments"))

    async def store(self, written: Sequence[Written]) -> None:
        """Bring the repository up to what is held now: the rows in one transaction, then what stands beside them.

        Raises DRMemoryNotFoundError where a message is gone, and whatever the repository raises; nothing counts
        as stored then.
        """
        done: list[tuple[Record, _Stored]] = []
        # Taken before the first await, after which the fold may go on.
        plan = [(row, values_of(row)) for row in written if isinstance(row, Row)]
        beside = [record for record in written if not isinstance(record, Row)]
        if plan:
            await self._store_rows(plan, done)
            self._stored.update(done)
        for record in beside:
            await (self._store_state(record) if isinstance(record, ThreadState) else self._store_events(record))

    async def _store_rows(self, plan: Sequence[tuple[Row, "_RowValues"]], done: list[tuple[Record, _Stored]]) -> None:
        async with self._repository.transaction():
            for row, (values, calls, reasonings) in plan:
                uuid = await self._store_row(row, values, done)
                for call, call_values in calls:
                    await self._store_call(call, call_values, uuid, done)
                for step, step_values in reasonings:
                    await self._store_reasoning(step, step_values, uuid, done)

    async def _store_state(self, state: ThreadState) -> None:
        if isinstance(self._repository, StateRepositoryLike):
            await self._repository.save_state(self._state.chat.chat_uuid, state.value, self._state.run_id)

    async def _store_events(self, kept: KeptEvents) -> None:
        if isinstance(self._repository, EventRepositoryLike):
            chat_uuid, run_id = self._state.chat.chat_uuid, self._state.run_id
            new = kept.events[kept.stored :]
            creates = [
                ChatEventCreate(
                    # The same in every attempt, so that a repeated write is recognised.
                    uuid=self._state.identities.at(EVENT, place),
                    kind=event.type,
                    fields=dict(event.fields),
                    run_id=run_id,
                    timestamp=event.timestamp,
                )
                for place, event in enumerate(new, kept.stored)
            ]
            await self._repository.add_events(chat_uuid, creates)
            kept.stored += len(new)

    async def _store_row(self, row: Row, values: dict[str, Any], done: list[tuple[Record, _Stored]]) -> UUID:
        stored = self._of(row)
        extras = self._state.message_extras.get(row, {})
        if stored.uuid is None:
            create = _filled(self._state.message_creates[row], values)
            created = await self._repository.create_message(create)
            uuid = created.message_uuid
            # Where an earlier attempt was stored and not answered, the repository may have handed out what that stored.
            changes = {**_lacking(created, values), **extras}
        else:
            uuid = stored.uuid
            changes = _changed({**values, **extras}, stored)
        if changes and await self._repository.update_message(uuid, MessageUpdate.model_validate(changes)) is None:
            raise DRMemoryNotFoundError(f"Message {uuid} is gone", 404)
        done.append((row, _Stored(uuid, {**values, **extras})))
        return uuid

    async def _store_call(
        self, call: Call, values: dict[str, Any], message_uuid: UUID, done: list[tuple[Record, _Stored]]
    ) -> None:
        uuid = self._of(call).uuid
        if uuid is None:
            create = _filled(self._state.tool_call_creates[call], {**values, "message_uuid": message_uuid})
            created = await self._repository.create_message_tool_call(create)
            uuid, changes = created.uuid, _lacking(created, values)
        else:
            changes = _changed(values, self._of(call))
        if changes:
            await self._repository.update_message_tool_call(uuid, MessageToolCallUpdate.model_validate(changes))
        done.append((call, _Stored(uuid, values)))

    async def _store_reasoning(
        self, step: Reasoning, values: dict[str, Any], message_uuid: UUID, done: list[tuple[Record, _Stored]]
    ) -> None:
        uuid = self._of(step).uuid
        if uuid is None:
            create = _filled(self._state.reasoning_creates[step], {**values, "message_uuid": message_uuid})
            created = await self._repository.create_message_reasoning(create)
            uuid, changes = created.uuid, _lacking(created, values)
        else:
            changes = _changed(values, self._of(step))
        if changes:
            await self._repository.update_message_reasoning(uuid, MessageReasoningUpdate.model_validate(changes))
        done.append((step, _Stored(uuid, values)))

    def _of(self, record: Record) -> _Stored:
        stored = self._stored.get(record)
        if stored is not None:
            return stored
        seen = self.seen(record)
        if seen is None:
            return _Stored()
        values = {name: _as_seen(value, getattr(seen, name, value)) for name, value in _values_of(record).items()}
        return _Stored(self._first_uuid(record), values)

    def _first_uuid(self, record: Record) -> UUID | None:
        """The uuid that a record is created with; None where it has no first shape yet."""
        state = self._state
        if isinstance(record, Row):
            message = state.message_creates.get(record)
            return None if message is None else message.message_uuid
        if isinstance(record, Call):
            call = state.tool_call_creates.get(record)
            return None if call is None else call.uuid
        step = state.reasoning_creates.get(record)
        return None if step is None else step.uuid


_RowValues = tuple[dict[str, Any], list[tuple[Call, dict[str, Any]]], list[tuple[Reasoning, dict[str, Any]]]]


def values_of(row: Row) -> _RowValues:
    """What is stored of a row now, and of the calls and reasonings in it."""
    return (
        _row_values(row),
        [(call, _call_values(call)) for call in row.calls],
        [(step, _reasoning_values(step)) for step in row.reasonings],
    )


def _values_of(record: Record) -> dict[str, Any]:
    if isinstance(record, Row):
        return _row_values(record)
    return _call_values(record) if isinstance(record, Call) else _reasoning_values(record)


def _row_values(row: Row) -> dict[str, Any]:
    return {
        "agui_id": row.agui_id,
        "name": row.name,
        "content": str(row.content),
        "step": row.step,
        "interrupts": row.interrupts,
        "outcome": row.outcome,
        "result": row.result,
        "usage": row.usage,
        "encrypted_value": row.encrypted_value,
        "activity_type": row.activity_type,
        "subagent_run_id": row.subagent_run_id,
        "subagents": [_subagent(each) for each in row.subagents] or None,
        "metadata": row.metadata,
        **_ending(row),
    }


def _call_values(call: Call) -> dict[str, Any]:
    return {
        "agui_id": call.agui_id,
        "tool_call_id": call.result_id,
        "name": call.name,
        "arguments": str(call.arguments),
        "content": call.content,
        "parts": call.parts,
        "encrypted_value": call.encrypted_value,
        "subagent_run_id": call.subagent_run_id,
        "metadata": call.metadata,
        "awaiting": call.awaiting,
        **_ending(call),
    }


def _reasoning_values(step: Reasoning) -> dict[str, Any]:
    return {
        "agui_id": step.agui_id,
        "name": step.name,
        "content": str(step.content),
        "encrypted_value": step.encrypted_value,
        "subagent_run_id": step.subagent_run_id,
        "metadata": step.metadata,
        **_ending(step),
    }


def _subagent(each: SubagentRecord) -> Subagent:
    return Subagent(
        subagent_run_id=each.subagent_run_id,
        name=each.name,
        description=each.description,
        parent_subagent_run_id=each.parent_subagent_run_id,
        parent_tool_call_id=each.parent_tool_call_id,
        parent_message_id=each.parent_message_id,
        result=each.result,
        outcome=each.outcome,
        created_at=each.created_at,
        metadata=each.metadata,
        **_ending(each),
    )


def _ending(record: Record | SubagentRecord) -> dict[str, Any]:
    return {
        "in_progress": record.status is MessageStatus.ACTIVE,
        "status": record.status,
        "error": record.error,
    }


def _changed(values: Mapping[str, Any], stored: _Stored) -> dict[str, Any]:
    """What differs from what is stored. None never overwrites: the repositories take it for "not given"."""
    before = stored.values
    changed = {name: value for name, value in values.items() if value is not None and before.get(name) != value}
    if "status" in changed and before.get("status") is MessageStatus.ACTIVE:
        # A text that was cut while it grew is stored whole when it has ended.
        changed |= {name: values[name] for name in _TEXTS if len(values.get(name) or "") > _LONG_TEXT}
    return changed


def _as_seen(value: Any, seen: Any) -> Any:
    """What is stored of a value. A create leaves out what is empty, and the store then has what stands for nothing."""
    return value if value == "" and seen is None else seen


def _lacking(created: BaseModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a record that was just created does not have, though it was given it."""
    return {
        name: value
        for name, value in values.items()
        if value not in (None, "") and hasattr(created, name) and getattr(created, name) != value
    }


def _filled(create: M, values: Mapping[str, Any]) -> M:
    """A create DTO with the record's present values. What a build hook put in stays where the record has nothing."""
    return create.model_copy(update={name: value for name, value in values.items() if value not in (None, "")})
