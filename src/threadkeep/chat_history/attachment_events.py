"""Attachment events: long values of a chat's messages, written once and read where messages refer to them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from threadkeep.chat_history.attachments import Attached, put_back, references_of
from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import wire_non_empty_str
from threadkeep.chat_history.models import Chat, Message
from threadkeep.persistence import DREvent

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
        self._missing = set(wanted)

    @property
    def are_complete(self) -> bool:
        return not self._missing

    def take(self, uuid: UUID, piece: int, pieces: int, data: str) -> None:
        if uuid in self._wanted:
            found = self._found.setdefault(uuid, {})
            found[piece] = data
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

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[str, UUID], bool] = BoundedCache(_KNOWN)

    async def store(self, chat: Chat, values: Sequence[Attached]) -> None:
        """Store values, each in as few requests as its size allows. Raises what the service raises."""
        for value in values:
            if (chat.id, value.uuid) in self._known:
                continue
            pieces = value.pieces()
            group: list[dict[str, object]] = []
            room = _BATCH_CHARACTERS
            for place, data in enumerate(pieces):
                if group and len(data) > room:
                    await Attachment.post_batch(chat, group)
                    group, room = [], _BATCH_CHARACTERS
                fields = {"uuid": value.uuid, "piece": place, "pieces": len(pieces), "data": data}
                group.append({"content": wire_non_empty_str(None), **fields})
                room -= len(data)
            await Attachment.post_batch(chat, group)
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
        offset = 0
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
