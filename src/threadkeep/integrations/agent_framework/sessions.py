"""Sessions of the framework, and whose chats they are."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agent_framework import AgentSession

_USER = "user_id"


class RecordedSession(AgentSession):
    """A session whose history somebody else keeps, such as the gateway: history providers leave it alone."""


def session_of(user_id: UUID, thread_id: str, source_id: str) -> AgentSession:
    """A session for the chat of a user on a thread.

    Args:
        user_id: whose chat it is.
        thread_id: the thread, AG-UI's thread id.
        source_id: the provider's `source_id`.
    """
    session = AgentSession(session_id=thread_id)
    session.state[source_id] = {_USER: str(user_id)}
    return session


def user_of(state: Mapping[str, Any] | None, default: UUID | None) -> UUID:
    """Whose chats a provider reads and writes for a session.

    Raises:
        ValueError: neither the session nor the provider names a user.
    """
    user_id = (state or {}).get(_USER)
    if user_id is not None:
        return UUID(str(user_id))
    if default is None:
        raise ValueError(
            "This session names no user: give the provider a user_id, or make sessions by "
            "provider.create_session(thread_id, user_id=...)"
        )
    return default
