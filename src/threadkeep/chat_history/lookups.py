"""How an entity is found by its own uuid. The one place that decides it.

Where the service has lookup keys, each message is stored with those of itself and of what is in it, in one
transaction: what is stored is found. Where it has none, the seed's locators lead there: sessions of their own, written
behind each message as well as can be. A space that the published package writes to as well needs both.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Sequence
from typing import TypeVar
from uuid import UUID

from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import (
    LOCATOR_KIND_CHAT,
    LOCATOR_KIND_MESSAGE,
    LOCATOR_KIND_REASONING,
    LOCATOR_KIND_TOOL_CALL,
    MEMORY_CHAT_MESSAGE_EVENT_TYPE,
    locator_key,
)
from threadkeep.chat_history.locator import Location, LocatorIndex, locations_of
from threadkeep.chat_history.models import Chat, Message
from threadkeep.contract.version import LOOKUP_KEYS, NEWEST_EVENTS
from threadkeep.persistence import DRMemoryConflictError, DRMemorySpace, DRMemoryVersionConflictError
from threadkeep.transport import calls

logger = logging.getLogger("threadkeep.chat_history")

M = TypeVar("M", bound=Message)
LOCATORS_VARIABLE = "THREADKEEP_LOCATORS"
"""`always`: write locators even where the service has lookup keys, for readers that know nothing else."""

_KEYS_OF_AN_EVENT = 512
_KEYS_OF_A_QUERY = 100
_PATCHED_AT_ONCE = 200
_CONCURRENT_READS = 8
_NEW_CHATS = 10_000
_GIVEN_UP = 65_536


class Lookups:
    """Finds chats, messages, tool calls and reasonings of one space by uuid, and sees to it that they are found.

    Args:
        space: where the chats live.
        locators: the locators of the space.
        always_locators: write locators even where the service has lookup keys; None asks `THREADKEEP_LOCATORS`.
    """

    def __init__(self, space: DRMemorySpace, locators: LocatorIndex, always_locators: bool | None = None) -> None:
        if always_locators is None:
            always_locators = os.environ.get(LOCATORS_VARIABLE, "").strip().lower() == "always"
        self._space = space
        self._locators = locators
        self._always_locators = always_locators
        # Chats that this process has made: their first message is to carry the key of the chat.
        self._new_chats: BoundedCache[UUID, bool] = BoundedCache(_NEW_CHATS)
        self._given_up: BoundedCache[UUID, bool] = BoundedCache(_GIVEN_UP)
        self._healing: set[asyncio.Task[object]] = set()

    async def by_keys(self) -> bool:
        """Whether what is stored is found by the keys that it is stored with."""
        return LOOKUP_KEYS in await self._space.client.features()

    async def newest_at_once(self) -> bool:
        """Whether the service gives the newest events of many sessions in one answer."""
        return NEWEST_EVENTS in await self._space.client.features()

    # Finding

    async def find(self, cls: type[M], kind: str, uuid: UUID) -> M | None:
        """The message that holds an entity, in one request; None where no event has its key, or there are no keys."""
        if not await self.by_keys():
            return None
        for message in await cls.find(self._space, locator_key(kind, uuid), type=cls.__event_type__):
            if message.is_readable():
                return message
        return None

    async def sessions_of(self, chat_uuids: Collection[UUID]) -> dict[UUID, str]:
        """The session of each of these chats: one request for a hundred of them, and one for each without messages."""
        found: dict[UUID, str] = {}
        wanted = list(dict.fromkeys(chat_uuids))
        if await self.by_keys():
            for start in range(0, len(wanted), _KEYS_OF_A_QUERY):
                keys = {locator_key(LOCATOR_KIND_CHAT, uuid): uuid for uuid in wanted[start : start + _KEYS_OF_A_QUERY]}
                call = calls.find_events(self._space.id, keys, event_type=MEMORY_CHAT_MESSAGE_EVENT_TYPE)
                for row in (await self._space.client.send(call))["items"]:
                    found |= {keys[key]: row["sessionId"] for key in row.get("lookupKeys", ()) if key in keys}
        missing = [uuid for uuid in wanted if uuid not in found]
        slots = asyncio.Semaphore(_CONCURRENT_READS)

        async def located(uuid: UUID) -> str | None:
            async with slots:
                locator = await self._locators.get(LOCATOR_KIND_CHAT, uuid)
                return None if locator is None else locator.session_id

        for uuid, session_id in zip(missing, await asyncio.gather(*map(located, missing)), strict=True):
            if session_id is not None:
                found[uuid] = session_id
        return found

    # Being found

    def began(self, chat: Chat) -> None:
        """A chat was made, and has no message yet."""
        self._new_chats.put(chat.chat_uuid, True)

    def has_message(self, chat: Chat) -> None:
        """A chat has a message, which carries its key or will when the chat is read."""
        self._new_chats.drop(chat.chat_uuid)

    def keys_of(self, chat: Chat, message: Message) -> list[str]:
        """The keys to store a new message with."""
        own = keys_of(message)
        return [*own, chat_key(chat)] if chat.chat_uuid in self._new_chats else own

    async def stored(self, messages: Sequence[tuple[Chat, Message]]) -> None:
        """Messages were stored: what they carry no keys for gets locators. What fails is logged, and healed later."""
        uncovered: list[Location] = []
        for chat, message in messages:
            uncovered += self._uncovered(locations_of(chat, message), message.event_lookup_keys)
        await self._locators.write_new(uncovered)

    async def heal(self, chat: Chat, messages: Sequence[M]) -> list[M]:
        """See to it that all of a chat that was just read is found. Returns the messages as they are then.

        A message that is still being written is left alone: whoever writes it would find it changed. For a long chat
        the work goes on behind the call.
        """
        # Each of these is asked for once: a chat may have ten thousand messages.
        wanted, held = [keys_of(message) for message in messages], [message.event_lookup_keys for message in messages]
        if await self.by_keys():
            lacking = self._lacking(chat, messages, wanted, held)
            if len(lacking) > _PATCHED_AT_ONCE:
                task = asyncio.create_task(self._add_keys(chat, lacking), name=f"add lookup keys to {chat.chat_uuid}")
                self._healing.add(task)
                task.add_done_callback(self._healing.discard)
                return list(messages)
            if lacking:
                healed = await self._add_keys(chat, lacking)
                messages = [healed.get(message.message_uuid, message) for message in messages]
                held = [message.event_lookup_keys for message in messages]
        carried = {key for keys in held for key in keys}
        locations = [Location(LOCATOR_KIND_CHAT, chat.chat_uuid, chat.id, chat.chat_uuid)]
        for message, keys in zip(messages, wanted, strict=True):
            are_all = len(keys) < _KEYS_OF_AN_EVENT - 1
            if self._always_locators or not (are_all and carried.issuperset(keys)):
                locations += locations_of(chat, message)
        await self._locators.heal(chat.chat_uuid, self._uncovered(locations, carried))
        return list(messages)

    async def settle(self) -> None:
        """Wait for what is being healed."""
        await asyncio.gather(*self._healing)
        await self._locators.settle()

    def _uncovered(self, locations: Sequence[Location], keys: Collection[str]) -> list[Location]:
        return [location for location in locations if self._always_locators or location.key not in keys]

    def _lacking(
        self, chat: Chat, messages: Sequence[M], wanted: Sequence[list[str]], held: Sequence[tuple[str, ...]]
    ) -> list[tuple[M, list[str]]]:
        """The messages that lack keys, as copies since the caller has them, and the keys."""
        lacking: list[tuple[M, list[str]]] = []
        key = chat_key(chat)
        has_key = any(key in keys for keys in held)
        for message, own, present in zip(messages, wanted, held, strict=True):
            if message.in_progress or message.message_uuid in self._given_up:
                continue
            missing = [each for each in (own if has_key else [*own, key]) if each not in present]
            has_key = True
            if missing and len(present) + len(missing) <= _KEYS_OF_AN_EVENT:
                lacking.append((message.model_copy(), missing))
        return lacking

    async def _add_keys(self, chat: Chat, lacking: Sequence[tuple[M, list[str]]]) -> dict[UUID, M]:
        healed: dict[UUID, M] = {}
        for start in range(0, len(lacking), _PATCHED_AT_ONCE):
            done = await self._patch(chat, lacking[start : start + _PATCHED_AT_ONCE])
            healed |= {message.message_uuid: message for message in done}
        return healed

    async def _patch(self, chat: Chat, lacking: Sequence[tuple[M, list[str]]]) -> list[M]:
        try:
            cls = type(lacking[0][0])
            return await cls.patch_batch(chat, [(message, {"lookup_keys": keys}) for message, keys in lacking])
        except (DRMemoryConflictError, DRMemoryVersionConflictError):
            if len(lacking) > 1:
                done = [await self._patch(chat, [each]) for each in lacking]
                return [message for some in done for message in some]
            # Changed meanwhile, or another event has one of the keys: the locators will do.
            self._given_up.put(lacking[0][0].message_uuid, True)
        except Exception:
            logger.warning("the lookup keys of chat %s were not written", chat.chat_uuid, exc_info=True)
        return []


def keys_of(message: Message) -> list[str]:
    """What a message is found by: itself, and what is in it, as far as one event takes keys."""
    keys = [
        locator_key(LOCATOR_KIND_MESSAGE, message.message_uuid),
        *(locator_key(LOCATOR_KIND_TOOL_CALL, call.uuid) for call in message.tool_calls),
        *(locator_key(LOCATOR_KIND_REASONING, step.uuid) for step in message.reasonings),
    ]
    # One is left for the chat.
    return keys[: _KEYS_OF_AN_EVENT - 1]


def chat_key(chat: Chat) -> str:
    """What a chat is found by; one of its messages carries it."""
    return locator_key(LOCATOR_KIND_CHAT, chat.chat_uuid)
