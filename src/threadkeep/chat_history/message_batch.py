"""The writes of one transaction: what was done to each message goes out as one event, at the end.

Several new messages of a chat go out in one request, and so do several changed ones. A change whose event has changed
meanwhile is applied to what is stored now, and sent again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from threadkeep.chat_history.attachment_events import AttachmentEvents
from threadkeep.chat_history.attachments import take_out
from threadkeep.chat_history.changes import MessageChange
from threadkeep.chat_history.models import Chat, Message
from threadkeep.chat_history.sizes import fit
from threadkeep.persistence import DRMemoryVersionConflictError

_ATTEMPTS = 8
_BATCH_EVENTS = 200
_BATCH_CHARACTERS = 400_000


@dataclass(slots=True)
class Draft:
    """One message of a batch. `stored` is None while it is new; `message` is what it will be."""

    chat: Chat
    message: Message
    stored: Message | None = None
    change: MessageChange = field(default_factory=MessageChange)

    def refresh(self) -> Message:
        """The message after the change so far."""
        base = self.stored if self.stored is not None else self.message
        self.message = base.model_copy(update=self.change.applied_to(base))
        if self.stored is None:
            self.change = MessageChange()
        return self.message


Reload = Callable[[Chat, UUID], Awaitable[Message | None]]


class MessageBatch:
    """The drafts of one transaction, in the order in which they were begun."""

    def __init__(self, message_class: type[Message], reload: Reload, attachments: AttachmentEvents) -> None:
        self._message_class = message_class
        self._reload = reload
        self._attachments = attachments
        self.drafts: dict[UUID, Draft] = {}
        self.open = True

    async def commit(self) -> list[Message]:
        """Store everything and return the stored messages.

        Raises what the service raises; what went out before stays stored.
        """
        done: list[Message] = []
        by_chat: dict[str, list[Draft]] = {}
        for draft in self.drafts.values():
            by_chat.setdefault(draft.chat.id, []).append(draft)
        for drafts in by_chat.values():
            for group in _groups([draft for draft in drafts if draft.stored is None]):
                done += await self._post(group)
            for group in _groups([draft for draft in drafts if draft.stored is not None]):
                done += await self._patch(group)
        return done

    async def _post(self, drafts: Sequence[Draft]) -> list[Message]:
        chat = drafts[0].chat
        bodies = [await self._body(draft) for draft in drafts]
        if len(bodies) == 1:
            return [await self._message_class.post(chat, **bodies[0])]
        return await self._message_class.post_batch(chat, bodies)

    async def _patch(self, drafts: Sequence[Draft]) -> list[Message]:
        if len(drafts) > 1:
            pairs = [(draft.stored, await self._changes(draft)) for draft in drafts if draft.stored is not None]
            try:
                return await self._message_class.patch_batch(drafts[0].chat, pairs)
            except DRMemoryVersionConflictError:
                # Nothing of it was stored, and it does not say which one has changed.
                pass
        return [await self._patch_one(draft) for draft in drafts]

    async def _patch_one(self, draft: Draft) -> Message:
        for _ in range(_ATTEMPTS - 1):
            assert draft.stored is not None
            try:
                return await draft.stored.patch(**await self._changes(draft))
            except DRMemoryVersionConflictError:
                fresh = await self._reload(draft.chat, draft.stored.message_uuid)
                if fresh is None:
                    raise
                draft.stored = fresh
        assert draft.stored is not None
        return await draft.stored.patch(**await self._changes(draft))

    async def _body(self, draft: Draft) -> dict[str, Any]:
        message = draft.message.model_copy(update=await self._fitting(draft, draft.message))
        return {name: getattr(message, name) for name in type(message).model_fields}

    async def _changes(self, draft: Draft) -> dict[str, Any]:
        assert draft.stored is not None
        fields = draft.change.applied_to(draft.stored)
        return {**fields, **await self._fitting(draft, draft.stored.model_copy(update=fields))}

    async def _fitting(self, draft: Draft, message: Message) -> dict[str, Any]:
        """What is to be different so that the message fits into its event. Its long values are stored by then."""
        light = take_out(message, draft.message.chat_uuid or draft.chat.chat_uuid)
        if light is None:
            return fit(message)
        await self._attachments.store(draft.chat, light.values)
        return {**light.fields, **fit(message.model_copy(update=light.fields))}


def _groups(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Drafts that go out together: as many as one request takes, and not more text than is healthy for one."""
    groups: list[list[Draft]] = []
    characters = 0
    for draft in drafts:
        size = _characters(draft.message)
        if not groups or len(groups[-1]) == _BATCH_EVENTS or characters + size > _BATCH_CHARACTERS:
            groups.append([])
            characters = 0
        groups[-1].append(draft)
        characters += size
    return groups


def _characters(message: Message) -> int:
    nested = sum(len(call.content) + len(call.arguments) for call in message.tool_calls)
    return len(message.content) + nested + sum(len(step.content) for step in message.reasonings)
