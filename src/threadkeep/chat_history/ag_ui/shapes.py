"""The build hooks: what a record looks like when it begins, and what is added when it ends."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import BaseModel

from threadkeep.chat_history.ag_ui.identities import MESSAGE, REASONING, TOOL_CALL
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.dto import MessageCreate, MessageReasoningCreate, MessageToolCallCreate
from threadkeep.chat_history.models import Chat

logger = logging.getLogger("threadkeep.chat_history")

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class RecordShapes:
    """The hooks and their defaults; the storage agent is one of these.

    Attributes:
        name: what the agent is called; new messages of it carry it.
    """

    name: str = ""

    def build_message_create(
        self, state: StorageState, chat: Chat, agui_id: str | None, role: str | None
    ) -> MessageCreate:
        """The first shape of a new message of the agent.

        Override it to fill further fields of a Message subclass, and return a subclass of MessageCreate that has them.
        """
        return MessageCreate(
            chat_uuid=chat.chat_uuid,
            message_uuid=state.record_uuid or uuid4(),
            agui_id=agui_id,
            role=Role(role or Role.ASSISTANT),
            name=self.name,
            step=state.active_step,
            in_progress=True,
            status=MessageStatus.ACTIVE,
            timestamp=state.current_event_timestamp,
            run_id=state.run_id,
            emitter_type="agent",
        )

    def build_tool_call_create(
        self, state: StorageState, tool_call_id: str | None, tool_call_name: str
    ) -> MessageToolCallCreate:
        """The first shape of a new tool call; `tool_call_id` is AG-UI's `toolCallId`."""
        return MessageToolCallCreate(
            uuid=state.record_uuid or uuid4(),
            agui_id=tool_call_id,
            name=tool_call_name,
            created_at=state.current_event_timestamp,
        )

    def build_reasoning_create(self, state: StorageState, name: str | None) -> MessageReasoningCreate:
        """The first shape of a new reasoning step."""
        return MessageReasoningCreate(
            uuid=state.record_uuid or uuid4(), name=name or "", created_at=state.current_event_timestamp
        )

    def message_update_fields(self, state: StorageState, event: Any) -> dict[str, Any]:
        """Further fields to store with the last update of a message, e.g. `{"finished_at": ...}`.

        They are stored where the Message class of the repository declares them. `event` is the one that ended the
        message; None where no event did, as on a cancellation.
        """
        return {}


def shape_records(shapes: RecordShapes, state: StorageState, event: object | None) -> None:
    """Ask the hooks about the records that have newly begun or ended.

    A hook that fails costs its own additions, not the record.
    """
    turn = state.fold.turn
    born, turn.born = turn.born, []
    for record in born:
        try:
            _shape(shapes, state, record)
        finally:
            state.record_uuid = None
    ended, turn.ended = turn.ended, []
    for row in ended:
        nothing: dict[str, Any] = {}
        extras = _ask(lambda: shapes.message_update_fields(state, event), nothing)
        if extras:
            state.message_extras[row] = {**state.message_extras.get(row, {}), **extras}


def _shape(shapes: RecordShapes, state: StorageState, record: Row | Call | Reasoning) -> None:
    plain = RecordShapes()
    plain.name = shapes.name
    now = state.current_event_timestamp
    if isinstance(record, Row):
        state.record_uuid = state.identities.next(MESSAGE, record.agui_id)
        place = (state, state.chat, record.agui_id, record.role.value)
        message = _ask(lambda: shapes.build_message_create(*place), None) or plain.build_message_create(*place)
        message = _identified(message, "message_uuid", state)
        if message.timestamp == now:
            # Records that begin with one event still have an order.
            message = message.model_copy(update={"timestamp": record.timestamp})
        if state.follows is not None:
            message = message.model_copy(update={"follows": state.follows})
            state.follows = None
        state.message_creates[record] = message
    elif isinstance(record, Call):
        state.record_uuid = state.identities.next(TOOL_CALL, record.agui_id)
        names = (state, record.agui_id, record.name)
        call = _ask(lambda: shapes.build_tool_call_create(*names), None) or plain.build_tool_call_create(*names)
        call = _identified(call, "uuid", state)
        if call.created_at == now:
            call = call.model_copy(update={"created_at": record.created_at})
        state.tool_call_creates[record] = call
    else:
        state.record_uuid = state.identities.next(REASONING, record.agui_id)
        step = _ask(lambda: shapes.build_reasoning_create(state, record.name), None) or plain.build_reasoning_create(
            state, record.name
        )
        step = _identified(step, "uuid", state)
        if step.created_at == now:
            step = step.model_copy(update={"created_at": record.created_at})
        state.reasoning_creates[record] = step


def _identified(create: M, name: str, state: StorageState) -> M:
    """The DTO under the record's own uuid, unless the hook gave it another one."""
    return create if name in create.model_fields_set else create.model_copy(update={name: state.record_uuid})


def _ask(hook: Callable[[], T], otherwise: T) -> T:
    try:
        return hook()
    except Exception:
        logger.exception("a build hook failed")
        return otherwise
