"""What a chat keeps beside its messages: the last state of the thread, and events that were asked for, as they came."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel, Field

from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import wire_non_empty_str
from threadkeep.chat_history.models import Chat, now
from threadkeep.chat_history.registry import ChatSessionRegistry
from threadkeep.chat_history.sizes import MAX_BODY_BYTES, json_bytes
from threadkeep.persistence import DREvent, DRMemoryNotFoundError, DRMemoryVersionConflictError

_CACHED_STATES = 1_024
_ATTEMPTS = 5
_PAGE = 100
_BATCH_EVENTS = 200
_BATCH_BYTES = 4 * 1024 * 1024


class ChatState(DREvent, session=Chat):
    """The last state of a thread, stored as one event that each run changes.

    Attributes:
        state: the state; None where it was too large, which `error` says then.
        run_id: the run that left it.
        timestamp: when it was stored.
    """

    __event_type__ = "state"

    state: Any = None
    run_id: str | None = None
    error: str | None = None
    timestamp: datetime = Field(default_factory=now)


class ChatEvent(DREvent, session=Chat):
    """An AG-UI event that was kept as it came.

    Attributes:
        uuid: its own id; an event whose write was repeated is there twice under the same one.
        kind: AG-UI's type of it, such as `CUSTOM`.
        fields: its fields under their wire names; None where they were too large, which `error` says then.
        run_id: the run that it came from.
        timestamp: when it came.
    """

    __event_type__ = "agui"

    uuid: UUID = Field(default_factory=uuid4)
    kind: str = ""
    fields: dict[str, Any] | None = None
    run_id: str | None = None
    error: str | None = None
    timestamp: datetime = Field(default_factory=now)


class ChatEventCreate(BaseModel):
    """An AG-UI event to keep."""

    uuid: UUID = Field(default_factory=uuid4)
    kind: str
    fields: dict[str, Any]
    run_id: str | None = None
    timestamp: datetime = Field(default_factory=now)


class ChatRecords:
    """The states and kept events of the chats of a space; a MessageRepository is one of these."""

    def __init__(self, registry: ChatSessionRegistry, chat_cls: type[Chat] = Chat) -> None:
        self._registry = registry
        self._chat_class = chat_cls
        self._states: BoundedCache[UUID, ChatState] = BoundedCache(_CACHED_STATES)

    async def save_state(self, chat_uuid: UUID, state: Any, run_id: str | None = None) -> None:
        """Store the state of a thread in place of the one before: one request, a second one where it is not known yet.

        Raises:
            DRMemoryNotFoundError: there is no such chat, or it was deleted.
            DRMemoryServiceError: as for every call.
        """
        chat = await self._chat(chat_uuid)
        size = json_bytes(state)
        fits = size <= MAX_BODY_BYTES
        fields: dict[str, Any] = {
            "state": state if fits else None,
            "run_id": run_id,
            "error": None if fits else f"A state of {size:,} bytes is too large to be stored",
            "timestamp": now(),
        }
        stored = self._states.get(chat_uuid)
        for _ in range(_ATTEMPTS):
            if stored is None:
                stored = await self._read_state(chat)
            if stored is None:
                self._states.put(chat_uuid, await ChatState.post(chat, content=wire_non_empty_str(None), **fields))
                return
            try:
                self._states.put(chat_uuid, await stored.patch(**fields))
            except DRMemoryVersionConflictError:
                self._states.drop(chat_uuid)
                stored = None
            else:
                return
        raise DRMemoryVersionConflictError(f"The state of chat {chat_uuid} changes all the time", 409)

    async def get_state(self, chat_uuid: UUID) -> Any:
        """The last state of a thread, or None where there is none."""
        chat = await self._registry.chat(chat_uuid, self._chat_class)
        stored = None if chat is None else await self._read_state(chat)
        return None if stored is None else stored.state

    async def add_events(self, chat_uuid: UUID, events: Sequence[ChatEventCreate]) -> None:
        """Keep events, in order.

        Raises:
            DRMemoryNotFoundError: there is no such chat, or it was deleted.
            DRMemoryServiceError: as for every call.
        """
        chat = await self._chat(chat_uuid)
        batch: list[dict[str, Any]] = []
        room = _BATCH_BYTES
        for event in events:
            size = json_bytes(event.fields)
            if batch and (size > room or len(batch) == _BATCH_EVENTS):
                await ChatEvent.post_batch(chat, batch)
                batch, room = [], _BATCH_BYTES
            fields = dict(event)
            if size > MAX_BODY_BYTES:
                fields |= {"fields": None, "error": f"An event of {size:,} bytes is too large to be stored"}
            batch.append({"content": wire_non_empty_str(None), **fields})
            room -= size
        if batch:
            await ChatEvent.post_batch(chat, batch)

    async def get_events(self, chat_uuid: UUID) -> list[ChatEvent]:
        """The events of a chat that were kept, in the order in which they came; none for an unknown chat."""
        chat = await self._registry.chat(chat_uuid, self._chat_class)
        found: dict[UUID, ChatEvent] = {}
        offset = 0
        while chat is not None:
            page = await ChatEvent.list(chat, type=ChatEvent.__event_type__, offset=offset, limit=_PAGE)
            for event in page:
                found.setdefault(event.uuid, event)
            offset += len(page)
            if len(page) < _PAGE:
                break
        return [*found.values()]

    async def _chat(self, chat_uuid: UUID) -> Chat:
        chat = await self._registry.chat(chat_uuid, self._chat_class)
        if chat is None:
            raise DRMemoryNotFoundError(f"There is no chat {chat_uuid}", 404)
        return chat

    async def _read_state(self, chat: Chat) -> ChatState | None:
        """The state event as it is stored now; where two runs made one at the same time, the later one counts."""
        newest = await ChatState.last(chat, n=1, type=ChatState.__event_type__)
        return newest[0] if newest else None
