"""Messages: one event each, with their tool calls and reasonings inside it.

A write is one request, whatever the length of the chat: `known_messages` says why, `message_batch` what goes out, and
`lookups` how a message is found by its uuid.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from threadkeep.chat_history.attachment_events import AttachmentEvents
from threadkeep.chat_history.chat_records import ChatRecords
from threadkeep.chat_history.constants import LOCATOR_KIND_REASONING, LOCATOR_KIND_TOOL_CALL, emitter_for_role
from threadkeep.chat_history.dto import (
    MessageCreate,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
)
from threadkeep.chat_history.known_messages import KnownMessages
from threadkeep.chat_history.message_batch import Draft, MessageBatch
from threadkeep.chat_history.message_pages import find_message, last_messages, read_all_messages
from threadkeep.chat_history.models import Chat, Message, Reasoning, ToolCall, reasoning_class, tool_call_class
from threadkeep.chat_history.registry import ChatSessionRegistry
from threadkeep.persistence import DRMemoryNotFoundError, DRMemoryServiceError, DRMemorySpace

_REMEMBERED_OF_A_CHAT = 100
_CHATS_AT_ONCE = 100
_CONCURRENT_READS = 8

_open_batch: ContextVar[tuple[object, MessageBatch] | None] = ContextVar("open_batch", default=None)


class MessageRepository(ChatRecords):
    """Messages as events of the chats of a memory space.

    ```python
    messages = MessageRepository(space, registry)
    message = await messages.create_message(MessageCreate(chat_uuid=chat.chat_uuid, role="user", content="Hi"))
    history = await messages.get_chat_messages(chat.chat_uuid)
    ```

    Args:
        space: where the chats live.
        registry: shared with the ChatRepository of the same space.
        chat_cls: the class of the chats, where it is a subclass of Chat.
        message_cls: a subclass of Message with fields of your own; its `tool_calls` and `reasonings` may be lists of
            subclasses as well. Create and update DTOs may carry them.
    """

    def __init__(
        self,
        space: DRMemorySpace,
        registry: ChatSessionRegistry | None = None,
        chat_cls: type[Chat] = Chat,
        message_cls: type[Message] = Message,
    ) -> None:
        super().__init__(registry or ChatSessionRegistry(space), chat_cls)
        self._space = space
        self._message_class = message_cls
        self._attachments = AttachmentEvents(self._registry.lookups)
        self._known = KnownMessages(self._registry, chat_cls, message_cls)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None, None]:
        """A scope for writes that belong together: each message that they touch goes out once, at the end of the scope.

        What is done before the end of the scope is seen by nobody else, and gone where the scope ends by an exception.
        The service stores events of one chat together, those of several chats one chat after the other.
        A scope within a scope is part of the outer one.
        """
        if self._batch() is not None:
            yield
            return
        batch = self._new_batch()
        token = _open_batch.set((self, batch))
        try:
            yield
        finally:
            # A task that began inside the scope may outlive it, and still sees the batch.
            batch.open = False
            _open_batch.reset(token)
        await self._commit(batch)

    async def create_message(self, message_data: MessageCreate) -> Message:
        """Store a new message. One with a `message_uuid` that is stored already becomes an update of that.

        Raises:
            ValueError: `chat_uuid` is missing.
            DRMemoryNotFoundError: there is no such chat, or it was deleted.
            DRMemoryServiceError: as for every call.
        """
        if message_data.chat_uuid is None:
            raise ValueError("A message needs a chat_uuid")
        chat = await self._registry.chat(message_data.chat_uuid, self._chat_class)
        if chat is None:
            raise DRMemoryNotFoundError(f"There is no chat {message_data.chat_uuid}", 404)
        fields = self._create_fields(message_data, chat)
        stored = await self._known.if_stored(chat, message_data.message_uuid)
        async with self._write() as batch:
            if stored is None:
                draft = Draft(chat, self._message_class(**fields))
            else:
                draft = Draft(chat, stored, stored)
                draft.change.fields.update(fields)
                draft.refresh()
            batch.drafts[message_data.message_uuid] = draft
        given, message = draft.message, self._known.get(message_data.message_uuid) or draft.message
        if not (given.parts or message.rests):
            return message
        # Stored are references to its long values, and whoever creates it has them.
        return message.model_copy(update={"content": given.content, "parts": given.parts, "rests": None})

    async def update_message(self, message_uuid: UUID, update: MessageUpdate) -> Message | None:
        """Change a message's own fields.

        Args:
            message_uuid: the application's own id of the message.
            update: only what is set and not None is applied.

        Returns:
            The message as it is now, or None where it is unknown.
        """
        fields = _given(update, self._message_class)
        async with self._write() as batch:
            draft = await self._draft(batch, message_uuid)
            if draft is None:
                return None
            draft.change.fields.update(fields)
            draft.refresh()
        if self._batch() is not None:
            return draft.message
        return await self._attachments.whole_one(draft.chat, self._known.get(message_uuid))

    async def create_message_tool_call(self, data: MessageToolCallCreate) -> ToolCall:
        """Append a tool call to the message `data.message_uuid`.

        Raises:
            ValueError: there is no such message.
        """
        cls = tool_call_class(self._message_class)
        call = cls(**{name: value for name, value in dict(data).items() if name != "message_uuid"})
        async with self._write() as batch:
            draft = await self._parent_draft(batch, data.message_uuid, "tool call")
            draft.change.add_tool_call(call)
            draft.refresh()
        self._known.holds(draft.message.message_uuid, call.uuid)
        return call

    async def update_message_tool_call(self, uuid: UUID, update: MessageToolCallUpdate) -> ToolCall | None:
        """Change a tool call; None where it is unknown. Only what is set and not None is applied."""
        async with self._write() as batch:
            draft = await self._child_draft(batch, LOCATOR_KIND_TOOL_CALL, uuid)
            if draft is None:
                return None
            draft.change.update_tool_call(uuid, _given(update, tool_call_class(self._message_class)))
            draft.refresh()
        return next((call for call in draft.message.tool_calls if call.uuid == uuid), None)

    async def create_message_reasoning(self, data: MessageReasoningCreate) -> Reasoning:
        """Append a reasoning step to the message `data.message_uuid`.

        Raises:
            ValueError: there is no such message.
        """
        cls = reasoning_class(self._message_class)
        step = cls(**{name: value for name, value in dict(data).items() if name != "message_uuid"})
        async with self._write() as batch:
            draft = await self._parent_draft(batch, data.message_uuid, "reasoning")
            draft.change.add_reasoning(step)
            draft.refresh()
        self._known.holds(draft.message.message_uuid, step.uuid)
        return step

    async def update_message_reasoning(self, uuid: UUID, update: MessageReasoningUpdate) -> Reasoning | None:
        """Change a reasoning step; None where it is unknown. Only what is set and not None is applied."""
        async with self._write() as batch:
            draft = await self._child_draft(batch, LOCATOR_KIND_REASONING, uuid)
            if draft is None:
                return None
            draft.change.update_reasoning(uuid, _given(update, reasoning_class(self._message_class)))
            draft.refresh()
        return next((step for step in draft.message.reasonings if step.uuid == uuid), None)

    async def get_message(self, message_uuid: UUID) -> Message | None:
        """A message by its own id, as it is stored now; None where it is unknown, or its locator was lost."""
        message = await self._known.load(message_uuid)
        return None if message is None else await self._attachments.whole_one(self._known.chat_of(message), message)

    async def get_message_by_agui_id(self, chat_uuid: UUID, agui_id: str) -> Message | None:
        """The newest message of a chat with this AG-UI id (agents reuse them in later runs), or None."""
        chat = await self._registry.chat(chat_uuid, self._chat_class)
        if chat is None:
            return None
        found = await find_message(self._message_class, chat, lambda message: message.agui_id == agui_id)
        return await self._attachments.whole_one(chat, self._known.remember(found))

    async def get_tool_call_by_agui_id(self, message_uuid: UUID, agui_id: str) -> ToolCall | None:
        """A tool call of a message by AG-UI's `toolCallId`, or None."""
        message = await self.get_message(message_uuid)
        calls = message.tool_calls if message is not None else []
        return next((call for call in reversed(calls) if call.agui_id == agui_id), None)

    async def get_chat_messages(self, chat_uuid: UUID) -> Sequence[Message]:
        """All messages of a chat, oldest first; empty for an unknown one. What leads to them and was lost is mended.

        Raises:
            DRMemoryServiceError: the chat could not be read, which is not the same as its being empty.
        """
        chat = await self._registry.chat(chat_uuid, self._chat_class)
        if chat is None:
            return []
        try:
            messages = await read_all_messages(self._message_class, chat)
        except DRMemoryNotFoundError:
            self._registry.unregister(chat_uuid)
            return []
        messages = await self._registry.lookups.heal(chat, messages)
        for message in messages[-_REMEMBERED_OF_A_CHAT:]:
            self._known.remember(message)
        return await self._attachments.whole(chat, messages)

    async def get_last_messages(self, chat_uuids: list[UUID]) -> dict[UUID, Message]:
        """The newest message of each of these chats that has one: one request for a hundred of them, where the service
        can (`newestEvents`), else one for each.
        """
        if not await self._registry.lookups.newest_at_once():
            return await self._last_one_by_one(chat_uuids)
        sessions = await self._registry.resolve_all(chat_uuids)
        chats = [self._registry.known(uuid, session_id, self._chat_class) for uuid, session_id in sessions.items()]
        messages: dict[str, Message] = {}
        cls = self._message_class
        for start in range(0, len(chats), _CHATS_AT_ONCE):
            newest = await cls.newest(chats[start : start + _CHATS_AT_ONCE], type=cls.__event_type__)
            for message in newest:
                if message.is_readable():
                    whole = await self._attachments.whole(self._known.chat_of(message), [message])
                    messages[message.event_session.id] = whole[0]
        return {uuid: messages[sessions[uuid]] for uuid in chat_uuids if sessions.get(uuid) in messages}

    # Drafts

    def _batch(self) -> MessageBatch | None:
        present = _open_batch.get()
        return present[1] if present is not None and present[0] is self and present[1].open else None

    def _new_batch(self) -> MessageBatch:
        return MessageBatch(self._message_class, self._known.reload, self._attachments, self._registry.lookups)

    @asynccontextmanager
    async def _write(self) -> AsyncGenerator[MessageBatch, None]:
        """The batch of the transaction that is open, or one for this call alone."""
        batch = self._batch()
        if batch is not None:
            yield batch
            return
        batch = self._new_batch()
        yield batch
        await self._commit(batch)

    async def _commit(self, batch: MessageBatch) -> None:
        new = [uuid for uuid, draft in batch.drafts.items() if draft.stored is None]
        try:
            stored = await batch.commit()
        except BaseException as error:
            if not _was_refused(error):
                for uuid in new:
                    self._known.doubt(uuid)
            if isinstance(error, DRMemoryNotFoundError):
                for draft in batch.drafts.values():
                    self._registry.unregister(draft.chat.chat_uuid)
            raise
        for message in stored:
            self._known.remember(message)
        await self._registry.lookups.stored([(batch.drafts[message.message_uuid].chat, message) for message in stored])

    async def _draft(self, batch: MessageBatch, message_uuid: UUID) -> Draft | None:
        draft = batch.drafts.get(message_uuid)
        if draft is None:
            message = await self._known.latest(message_uuid)
            if message is None:
                return None
            draft = batch.drafts[message_uuid] = Draft(self._known.chat_of(message), message, message)
        return draft

    async def _parent_draft(self, batch: MessageBatch, message_uuid: UUID | None, what: str) -> Draft:
        draft = None if message_uuid is None else await self._draft(batch, message_uuid)
        if draft is None:
            raise ValueError(f"There is no message {message_uuid} to put a {what} into")
        return draft

    async def _child_draft(self, batch: MessageBatch, kind: str, uuid: UUID) -> Draft | None:
        message_uuid = await self._known.holder_of(kind, uuid)
        return None if message_uuid is None else await self._draft(batch, message_uuid)

    async def _last_one_by_one(self, chat_uuids: Sequence[UUID]) -> dict[UUID, Message]:
        slots = asyncio.Semaphore(_CONCURRENT_READS)

        async def last(chat_uuid: UUID) -> Message | None:
            async with slots:
                chat = await self._registry.chat(chat_uuid, self._chat_class)
                try:
                    found = [] if chat is None else await last_messages(self._message_class, chat, 1)
                    found = found if chat is None else await self._attachments.whole(chat, found)
                except DRMemoryNotFoundError:
                    self._registry.unregister(chat_uuid)
                    return None
                return next((message for message in found if message.is_readable()), None)

        found = await asyncio.gather(*(last(chat_uuid) for chat_uuid in chat_uuids))
        pairs = zip(chat_uuids, found, strict=True)
        return {chat_uuid: message for chat_uuid, message in pairs if message is not None}

    def _create_fields(self, data: MessageCreate, chat: Chat) -> dict[str, Any]:
        user = chat.participants[0]
        emitter_type, emitter_id = emitter_for_role(data.emitter_type or data.role, user)
        fields = {name: value for name, value in dict(data).items() if name in self._message_class.model_fields}
        fields.update(
            chat_uuid=chat.chat_uuid,
            emitter_type=emitter_type,
            emitter_id=emitter_id,
        )
        return fields


def _given(update: BaseModel, cls: type[BaseModel]) -> dict[str, Any]:
    """What an update sets, as far as the class that it is for has it."""
    known = cls.model_fields
    return {
        name: getattr(update, name)
        for name in update.model_fields_set
        if name in known and getattr(update, name) is not None
    }


def _was_refused(error: BaseException) -> bool:
    """Whether a failed write is known to have stored nothing."""
    status = error.status_code if isinstance(error, DRMemoryServiceError) else None
    return status is not None and 400 <= status < 500
