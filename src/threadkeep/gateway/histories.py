"""Each user's threads: a memory space of their own, reached by the client that everybody uses, in this process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import httpx

from threadkeep.api.context import FENCE, PRINCIPAL
from threadkeep.chat_history import ChatRepository, ChatSessionRegistry, MessageRepository
from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.chat_history.constants import chat_deduplication_key, participant_id
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Fence, Run
from threadkeep.domain.session import Session
from threadkeep.persistence import DRMemoryServiceClient, DRMemorySpace
from threadkeep.services.sessions import Filters, Sessions
from threadkeep.transport.in_process import ASGIApp, InProcessTransport

SPACE_KEY = "agui"
"""The deduplication key of the space that holds a user's threads."""

_USERS = UUID("7b0fbc4e-6f0e-5a57-9b5d-3c1f0a2f6d11")
_CACHED = 1_000
_ENDPOINT = "http://threadkeep.internal/api/v2"
_VOUCHED_FOR = "vouched-for"
_SECONDS = 30.0
_fence: ContextVar[Fence | None] = ContextVar("fence", default=None)


@dataclass(frozen=True, slots=True)
class History:
    """The threads of one user."""

    principal: Principal
    user_uuid: UUID
    space_id: str
    registry: ChatSessionRegistry
    chats: ChatRepository
    messages: MessageRepository

    @property
    def participant(self) -> str:
        """The user as a participant of their chats."""
        return participant_id(self.user_uuid)


@contextmanager
def in_the_name_of(run: Run) -> Iterator[None]:
    """What is stored from within, and by tasks that begin within, is refused once the run is another owner's."""
    token = _fence.set(run.fence)
    try:
        yield
    finally:
        _fence.reset(token)


class _Fencing:
    """Puts the fence of the run in whose name a call is made into its scope, where the run is of that space.

    An agent may well be asked through another gateway in the same process, and its fence means nothing there.
    """

    space_id: str | None = None

    def __call__(self) -> Mapping[str, Any]:
        fence = _fence.get()
        return {} if fence is None or fence.key.space_id != self.space_id else {FENCE: fence}


class Histories:
    """Finds a user's history and keeps the ones that were asked for last. `api` is the Memory Service."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._recent: BoundedCache[tuple[str, str], History] = BoundedCache(_CACHED)

    async def of(self, principal: Principal) -> History:
        """The history of the principal; their space is made where there is none yet."""
        key = (principal.tenant_id, principal.user_id)
        history = self._recent.get(key)
        if history is None:
            history = await self._open(principal)
            self._recent.put(key, history)
        return history

    async def _open(self, principal: Principal) -> History:
        # Never closed: nothing is behind it that could be, and a run of a forgotten user may still be using it.
        fencing = _Fencing()
        transport = InProcessTransport(self._api, scope={PRINCIPAL: principal}, scope_now=fencing)
        http = httpx.AsyncClient(transport=transport, timeout=_SECONDS)
        client = DRMemoryServiceClient(endpoint=_ENDPOINT, api_token=_VOUCHED_FOR, http_client=http)
        space = await DRMemorySpace.post(client, deduplication_key=SPACE_KEY, description="AG-UI threads")
        fencing.space_id = space.id
        registry = ChatSessionRegistry(space)
        return History(
            principal,
            user_uuid(principal),
            space.id,
            registry,
            ChatRepository(space, registry),
            MessageRepository(space, registry),
        )


async def find_session(sessions: Sessions, history: History, thread_id: str) -> Session | None:
    """The session that holds a thread, looked up by the key under which its chat was made."""
    filters = Filters(key=chat_deduplication_key(history.user_uuid, thread_id))
    found, _ = await sessions.page(history.principal, history.space_id, filters, limit=1)
    return found[0] if found else None


def user_uuid(principal: Principal) -> UUID:
    """The UUID by which chat history knows the principal's user: always the same."""
    return uuid5(_USERS, f"{principal.tenant_id}/{principal.user_id}")
