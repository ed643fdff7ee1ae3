"""Reading the messages of a chat: pages of it, one of them, the newest."""

import asyncio
from collections.abc import Callable
from itertools import chain
from uuid import UUID

from threadkeep.chat_history.models import Chat, Message

_PAGE = 100
_PAGES_AT_ONCE = 4


async def read_all_messages(cls: type[Message], chat: Chat) -> list[Message]:
    """All readable messages in the order of the store. Short chats are one request, long ones a few at a time."""
    found = await _page(cls, chat, 0)
    complete = len(found) < _PAGE
    while not complete:
        offsets = range(len(found), len(found) + _PAGE * _PAGES_AT_ONCE, _PAGE)
        pages = await asyncio.gather(*(_page(cls, chat, offset) for offset in offsets))
        found += chain.from_iterable(pages)
        complete = any(len(page) < _PAGE for page in pages)
    # Where messages come while the pages are read, two pages may hold the same one.
    by_place = {message.sequence_id: message for message in found}
    return [by_place[place] for place in sorted(by_place) if by_place[place].is_readable()]


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


async def _page(cls: type[Message], chat: Chat, offset: int) -> list[Message]:
    return await cls.list(chat, type=cls.__event_type__, offset=offset, limit=_PAGE)
