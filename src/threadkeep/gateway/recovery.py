"""What a run that has lost its process has left open, closed as interrupted with what was stored of it kept."""

from threadkeep.chat_history import MessageReasoningUpdate, MessageToolCallUpdate, MessageUpdate
from threadkeep.chat_history.ag_ui.leftovers import interrupted, leftovers
from threadkeep.chat_history.models import Message, ToolCall
from threadkeep.domain.session import Session
from threadkeep.gateway.answers import chat_uuid_of
from threadkeep.gateway.histories import History

WHY = "The process that ran it has gone"


async def close_records(history: History, session: Session) -> None:
    """End the records of the chat in `session` that no run is writing any more."""
    chat_uuid = chat_uuid_of(session.metadata)
    if chat_uuid is None:
        return
    # The session is known, so that nothing depends on a locator.
    history.registry.register(chat_uuid, session.id)
    for record in leftovers(await history.messages.get_chat_messages(chat_uuid), live_runs=()):
        fields = interrupted(record, WHY)
        if isinstance(record, Message):
            await history.messages.update_message(record.message_uuid, MessageUpdate.model_validate(fields))
        elif isinstance(record, ToolCall):
            await history.messages.update_message_tool_call(record.uuid, MessageToolCallUpdate.model_validate(fields))
        else:
            await history.messages.update_message_reasoning(record.uuid, MessageReasoningUpdate.model_validate(fields))
