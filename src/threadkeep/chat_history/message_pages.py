"""Reading the messages of a chat: pages of it, one of them, the newest."""

from collections.abc import Callable
from uuid import UUID

from threadkeep.chat_history.models import Chat, Message

_PAGE = 100


async def read_all_messages(cls: type[Message], chat: Chat) -> list[Message]:
    """All readable messages in the order of the store. Short chats are one request, long ones two on our service."""
    found = await cls.list(chat, type=cls.__event_type__, limit=_PAGE)
    if len(found) == _PAGE:
        found += await cls.history(chat, after=found[-1].sequence_id, type=cls.__event_type__)
    return [message for message in found if message.is_readable()]


async def read_again(cls: type[Message], chat: Chat, message_uuid: UUID, sequence_id: int) -> Message | None:
    """A message that was read before, in one request, wherever in the chat it is."""
    # As long as nothing before it was deleted, its number is its position.
    for message in await cls.list(chat, offset=sequence_id - 1, limit=1):
        if message.sequence_id == sequence_id and message.message_uuid == message_uuid and message.is_readable():
            return message
    return await find_message(cls, chat, lambda message: message.message_uuid == message_uuid)


async def find_message(cls: type[Message], chat: Chat, wanted: Callable[[Message], bool]) -> Message | None:
    """The newest message that is wanted; looked for among the last ones first, since it is nearly always there."""
    newest = await last_messages(cls, chat, _PAGE)
    found = newest if any(map(wanted, newest)) or len(newest) < _PAGE else await read_all_messages(cls, chat)
    return next((message for message in reversed(found) if message.is_readable() and wanted(message)), None)


async def last_messages(cls: type[Message], chat: Chat, count: int) -> list[Message]:
    """The newest events of a chat that are messages, readable or not."""
    return await cls.last(chat, n=count, type=cls.__event_type__)
