"""The writes of one transaction: what was done to each message goes out as one event, at the end.

Several new messages of a chat go out in one request, and so do several changed ones. A change whose event has changed
meanwhile is applied to what is stored now, and sent again. With lookup keys, a new message that is stored already,
because an earlier answer was lost, becomes a change of that.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from threadkeep.chat_history.attachment_events import AttachmentEvents
from threadkeep.chat_history.attachments import take_out
from threadkeep.chat_history.changes import MessageChange, change_to
from threadkeep.chat_history.lookups import Lookups, keys_of
from threadkeep.chat_history.models import Chat, Message
from threadkeep.chat_history.sizes import fit
from threadkeep.persistence import DRMemoryConflictError, DRMemoryVersionConflictError

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
    without_keys: bool = False

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

    def __init__(
        self, message_class: type[Message], reload: Reload, attachments: AttachmentEvents, lookups: Lookups
    ) -> None:
        self._message_class = message_class
        self._reload = reload
        self._attachments = attachments
        self._lookups = lookups
        self._by_keys = False
        self.drafts: dict[UUID, Draft] = {}
        self.open = True

    async def commit(self) -> list[Message]:
        """Store everything and return the stored messages.

        Raises what the service raises; what went out before stays stored.
        """
        if self.drafts:
            self._by_keys = await self._lookups.by_keys()
        done: list[Message] = []
        by_chat: dict[str, list[Draft]] = {}
        for draft in self.drafts.values():
            by_chat.setdefault(draft.chat.id, []).append(draft)
        for drafts in by_chat.values():
            if await self._store_together(drafts):
                done += [draft.message for draft in drafts]
                continue
            for group in _groups([draft for draft in drafts if draft.stored is None]):
                done += await self._post(group)
            for group in _groups([draft for draft in drafts if draft.stored is not None]):
                done += await self._patch(group)
        return done

    async def _store_together(self, drafts: Sequence[Draft]) -> bool:
        """Store new messages and changed ones in one request, where there are both and one request takes them."""
        new = [draft for draft in drafts if draft.stored is None]
        changed = [(draft.stored, draft) for draft in drafts if draft.stored is not None]
        if not (new and changed) or len(_groups(drafts)) > 1:
            return False
        pairs = [(stored, await self._changes(draft)) for stored, draft in changed]
        bodies = await self._bodies(new)
        try:
            appended = await self._message_class.patch_and_post_batch(drafts[0].chat, pairs, bodies)
        except (DRMemoryVersionConflictError, DRMemoryConflictError):
            # Nothing of it was stored, and it does not say of all which they are.
            return False
        self._lookups.has_message(drafts[0].chat)
        for draft, message in zip(new, appended, strict=True):
            draft.message = message
        for stored, draft in changed:
            draft.message = stored
        return True

    async def _post(self, drafts: Sequence[Draft]) -> list[Message]:
        chat = drafts[0].chat
        bodies = await self._bodies(drafts)
        try:
            if len(bodies) == 1:
                stored = [await self._message_class.post(chat, **bodies[0])]
            else:
                stored = await self._message_class.post_batch(chat, bodies)
        except DRMemoryConflictError:
            if not self._by_keys:
                raise
            stored = [await self._post_beside(draft) for draft in drafts]
        self._lookups.has_message(chat)
        return stored

    async def _post_beside(self, draft: Draft) -> Message:
        """Store one message where an event has one of the keys: itself, as an earlier try stored it, or another one,
        which something in it was in before; that gets a locator instead.
        """
        draft.stored = await self._reload(draft.chat, draft.message.message_uuid)
        if draft.stored is None:
            body = await self._body(draft)
            body["lookup_keys"] = keys_of(draft.message)[:1]
            return await self._message_class.post(draft.chat, **body)
        draft.change = change_to(draft.message)
        return await self._patch_one(draft)

    async def _patch(self, drafts: Sequence[Draft]) -> list[Message]:
        if len(drafts) > 1:
            pairs = [(draft.stored, await self._changes(draft)) for draft in drafts if draft.stored is not None]
            try:
                return await self._message_class.patch_batch(drafts[0].chat, pairs)
            except (DRMemoryVersionConflictError, DRMemoryConflictError):
                # Nothing of it was stored, and it does not say of all which they are.
                pass
        return [await self._patch_one(draft) for draft in drafts]

    async def _patch_one(self, draft: Draft) -> Message:
        for attempt in range(_ATTEMPTS):
            assert draft.stored is not None
            try:
                return await draft.stored.patch(**await self._changes(draft))
            except DRMemoryConflictError:
                # Another event has a key of something in it: that gets a locator instead.
                if draft.without_keys:
                    raise
                draft.without_keys = True
            except DRMemoryVersionConflictError:
                fresh = await self._reload(draft.chat, draft.stored.message_uuid)
                if fresh is None or attempt == _ATTEMPTS - 1:
                    raise
                draft.stored = fresh
        raise AssertionError("unreachable")

    async def _bodies(self, drafts: Sequence[Draft]) -> list[dict[str, Any]]:
        """What new messages of one chat are stored as, their lookup keys included."""
        bodies = [await self._body(draft) for draft in drafts]
        if self._by_keys:
            for draft, body in zip(drafts, bodies, strict=True):
                # Of several messages of a new chat, the first one carries the key of the chat.
                is_first = draft is drafts[0]
                body["lookup_keys"] = (
                    self._lookups.keys_of(draft.chat, draft.message) if is_first else keys_of(draft.message)
                )
        return bodies

    async def _body(self, draft: Draft) -> dict[str, Any]:
        message = draft.message.model_copy(update=await self._fitting(draft, draft.message))
        return {name: getattr(message, name) for name in type(message).model_fields}

    async def _changes(self, draft: Draft) -> dict[str, Any]:
        assert draft.stored is not None
        fields = draft.change.applied_to(draft.stored)
        changed = draft.stored.model_copy(update=fields)
        fields |= await self._fitting(draft, changed)
        if self._by_keys and not draft.without_keys:
            new = [key for key in keys_of(changed) if key not in draft.stored.event_lookup_keys]
            if new:
                fields["lookup_keys"] = new
        return fields

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
