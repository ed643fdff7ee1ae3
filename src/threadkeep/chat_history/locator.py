"""The secondary index: from an entity's uuid to where it lives, one point look-up, never a scan.

A locator is written after its entity, and as well as can be: one that is lost costs look-ups by uuid in other processes
until the chat is read there, which heals it.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import (
    LOCATOR_KIND_MESSAGE,
    LOCATOR_KIND_REASONING,
    LOCATOR_KIND_TOOL_CALL,
    locator_key,
    participant_id,
)
from threadkeep.chat_history.models import Chat, EntityLocator, Message
from threadkeep.persistence import DRMemoryNotFoundError, DRMemorySpace

logger = logging.getLogger("threadkeep.chat_history")

_CONCURRENT_WRITES = 4
_HEALED_AT_ONCE = 200
_KNOWN = 65_536


@dataclass(frozen=True, slots=True)
class Location:
    """Where an entity lives. `message_uuid` is the message that holds it, for what lives in messages."""

    kind: str
    uuid: UUID
    session_id: str
    chat_uuid: UUID
    message_uuid: UUID | None = None

    @property
    def key(self) -> str:
        return locator_key(self.kind, self.uuid)


def locations_of(chat: Chat, message: Message) -> list[Location]:
    """Where a message is, and what is in it."""
    place = (chat.id, chat.chat_uuid, message.message_uuid)
    return [
        Location(LOCATOR_KIND_MESSAGE, message.message_uuid, chat.id, chat.chat_uuid),
        *(Location(LOCATOR_KIND_TOOL_CALL, call.uuid, *place) for call in message.tool_calls),
        *(Location(LOCATOR_KIND_REASONING, step.uuid, *place) for step in message.reasonings),
    ]


class LocatorIndex:
    """The locators of one memory space; they live in it, beside the chats.

    The one participant of a locator stands for its chat, so that all locators of a chat are one query.

    Args:
        space: where the chats live.
        locator_cls: the class of the locators, where it is a subclass of EntityLocator.
    """

    def __init__(self, space: DRMemorySpace, locator_cls: type[EntityLocator] = EntityLocator) -> None:
        self._space = space
        self._locator_cls = locator_cls
        self._known: BoundedCache[str, bool] = BoundedCache(_KNOWN)
        self._slots = asyncio.Semaphore(_CONCURRENT_WRITES)
        self._healing: set[asyncio.Task[None]] = set()

    async def get(self, kind: str, entity_uuid: UUID) -> EntityLocator | None:
        """The locator of an entity, or None where there is none."""
        try:
            return await self._locator_cls.get(self._space, locator_key=locator_key(kind, entity_uuid))
        except DRMemoryNotFoundError:
            return None

    async def put(
        self, kind: str, entity_uuid: UUID, *, session_id: str, chat_uuid: UUID, message_uuid: UUID | None = None
    ) -> None:
        """Write the locator of an entity. A failure is logged, and never raised."""
        await self.write([Location(kind, entity_uuid, session_id, chat_uuid, message_uuid)])

    async def write(self, locations: Sequence[Location]) -> None:
        """Write locators. What fails is logged, and missing until it is healed."""
        await asyncio.gather(*(self._write_one(location) for location in locations))

    async def write_new(self, locations: Sequence[Location]) -> None:
        """Write those that this process has neither written nor seen."""
        await self.write([location for location in locations if location.key not in self._known])

    async def heal(self, chat_uuid: UUID, locations: Sequence[Location]) -> None:
        """Write those locators of a chat that are not there. For a long chat the work goes on behind the call."""
        unknown = [location for location in locations if location.key not in self._known]
        if not unknown:
            return
        task = asyncio.create_task(self._heal(chat_uuid, unknown), name=f"heal locators of {chat_uuid}")
        self._healing.add(task)
        task.add_done_callback(self._healing.discard)
        if len(unknown) <= _HEALED_AT_ONCE:
            await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait for what is being healed."""
        await asyncio.gather(*self._healing)

    async def _heal(self, chat_uuid: UUID, unknown: Sequence[Location]) -> None:
        try:
            present = await self._locator_cls.list(self._space, participant=participant_id(chat_uuid))
        except Exception:
            logger.warning("the locators of chat %s could not be read", chat_uuid, exc_info=True)
            return
        for locator in present:
            self._known.put(locator.locator_key, True)
        await self.write([location for location in unknown if location.key not in self._known])

    async def _write_one(self, location: Location) -> None:
        async with self._slots:
            try:
                await self._locator_cls.post(
                    self._space,
                    participants=[participant_id(location.chat_uuid)],
                    locator_key=location.key,
                    kind=location.kind,
                    session_id=location.session_id,
                    chat_uuid=location.chat_uuid,
                    message_uuid=location.message_uuid,
                )
            except Exception:
                logger.warning("the locator %s was not written", location.key, exc_info=True)
            else:
                self._known.put(location.key, True)
