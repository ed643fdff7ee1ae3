"""Attachment events: long values of a chat's messages, written once and read where messages refer to them.

Where the service has lookup keys, each piece has one, and is read by it, however many a chat has.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from threadkeep.chat_history.attachments import Attached, put_back, references_of
from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import wire_non_empty_str
from threadkeep.chat_history.lookups import Lookups
from threadkeep.chat_history.models import Chat, Message
from threadkeep.persistence import DREvent, DRMemoryConflictError

ATTACHMENT_EVENT_TYPE = "attachment"
_KNOWN = 4_096
# Each may be 4 MiB of JSON.
_PAGE = 8
_BATCH_CHARACTERS = 4_000_000


class Attachment(DREvent, session=Chat):
    """A piece of a long value.

    Attributes:
        uuid: the value's; the same value in a chat has the same one.
        piece: the place of this piece, from 0.
        pieces: how many there are.
        data: the piece.
    """

    __event_type__ = ATTACHMENT_EVENT_TYPE

    uuid: UUID
    piece: int
    pieces: int
    data: str


class Pieces:
    """Pieces of values as they are read, until all are there. A piece may come twice."""

    def __init__(self, wanted: set[UUID]) -> None:
        self._wanted = wanted
        self._found: dict[UUID, dict[int, str]] = {}
        self._counts: dict[UUID, int] = {}
        self._missing = set(wanted)

    @property
    def are_complete(self) -> bool:
        return not self._missing

    def missing(self) -> Iterator[tuple[UUID, int]]:
        """The places that are not there: the first of each value that nothing is known of, else all that it lacks."""
        for uuid in sorted(self._missing):
            found = self._found.get(uuid, {})
            yield from ((uuid, place) for place in range(self._counts.get(uuid, 1)) if place not in found)

    def take(self, uuid: UUID, piece: int, pieces: int, data: str) -> None:
        if uuid in self._wanted:
            found = self._found.setdefault(uuid, {})
            found[piece] = data
            self._counts[uuid] = pieces
            if len(found) >= pieces:
                self._missing.discard(uuid)

    def take_body(self, body: Mapping[str, Any]) -> None:
        """A piece from the body of its event, whatever is in it."""
        piece, pieces, data = body.get("piece"), body.get("pieces"), body.get("data")
        try:
            uuid = UUID(str(body.get("uuid")))
        except ValueError:
            return
        if isinstance(piece, int) and isinstance(pieces, int) and isinstance(data, str):
            self.take(uuid, piece, pieces, data)

    def value(self, uuid: UUID) -> str | None:
        """The whole value; None where pieces of it are missing."""
        found = self._found.get(uuid)
        return None if found is None or uuid in self._missing else "".join(found[place] for place in sorted(found))


class AttachmentEvents:
    """Writes and reads attachments. What this process has written, or read, it does not write again."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._known: BoundedCache[tuple[str, UUID], bool] = BoundedCache(_KNOWN)

    async def store(self, chat: Chat, values: Sequence[Attached]) -> None:
        """Store values, each in as few requests as its size allows. Raises what the service raises."""
        for value in values:
            if (chat.id, value.uuid) in self._known:
                continue
            by_keys = await self._lookups.by_keys()
            pieces = value.pieces()
            group: list[dict[str, object]] = []
            room = _BATCH_CHARACTERS
            for place, data in enumerate(pieces):
                if group and len(data) > room:
                    await _post(chat, group)
                    group, room = [], _BATCH_CHARACTERS
                fields = {"uuid": value.uuid, "piece": place, "pieces": len(pieces), "data": data}
                keys = {"lookup_keys": [_key(value.uuid, place)]} if by_keys else {}
                group.append({"content": wire_non_empty_str(None), **fields, **keys})
                room -= len(data)
            await _post(chat, group)
            self._known.put((chat.id, value.uuid), True)

    async def whole(self, chat: Chat, messages: Sequence[Message]) -> list[Message]:
        """The messages with their long values. Costs nothing where they have none."""
        holding = [message.message_uuid for message in messages if any(True for _ in references_of(message))]
        if not holding:
            return [*messages]
        pieces = await self._read(chat, {uuid for message in messages for uuid in references_of(message)})
        held = set(holding)
        return [put_back(message, pieces.value) if message.message_uuid in held else message for message in messages]

    async def whole_one(self, chat: Chat, message: Message | None) -> Message | None:
        """The same of one message."""
        return None if message is None else (await self.whole(chat, [message]))[0]

    async def _read(self, chat: Chat, wanted: set[UUID]) -> Pieces:
        pieces = Pieces(wanted)
        if await self._lookups.by_keys():
            # First the beginnings, which say how many pieces there are; then the others.
            await self._find(chat, pieces)
            await self._find(chat, pieces)
        offset = 0
        # What has no keys, since it was stored through a service without them.
        while not pieces.are_complete:
            page = await Attachment.list(chat, type=ATTACHMENT_EVENT_TYPE, offset=offset, limit=_PAGE)
            for each in page:
                pieces.take(each.uuid, each.piece, each.pieces, each.data)
            if len(page) < _PAGE:
                break
            offset += len(page)
        for uuid in wanted:
            if pieces.value(uuid) is not None:
                self._known.put((chat.id, uuid), True)
        return pieces

    async def _find(self, chat: Chat, pieces: Pieces) -> None:
        missing = [_key(*place) for place in pieces.missing()]
        for start in range(0, len(missing), _PAGE):
            keys = missing[start : start + _PAGE]
            for each in await Attachment.find(chat.memory_space, *keys, type=ATTACHMENT_EVENT_TYPE):
                # Whoever writes a message may name what belongs to another chat of the space.
                if each.event_session.id == chat.id:
                    pieces.take(each.uuid, each.piece, each.pieces, each.data)


async def _post(chat: Chat, group: Sequence[Mapping[str, object]]) -> None:
    try:
        await Attachment.post_batch(chat, group)
    except DRMemoryConflictError:
        # Another process has stored the same pieces of the same value: a key is in the way of nothing else.
        pass


def _key(uuid: UUID, place: int) -> str:
    return f"attachment/{uuid}/{place}"
