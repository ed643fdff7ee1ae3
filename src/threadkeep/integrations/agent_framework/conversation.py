"""Who keeps a conversation: the model's service or chat history. Never both without being told so. Pure."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

from agent_framework import AgentSession
from agent_framework.exceptions import AgentInvalidRequestException

from threadkeep.errors import ThreadkeepError

logger = logging.getLogger("threadkeep.integrations.agent_framework")

Conflict = Literal["error", "warn", "prefer_service", "prefer_history"]
"""What happens where both keep the conversation.

`error`: the run is refused. `warn` and `prefer_service`: the service's copy is used, with or without a warning; chat
history is written and not loaded. `prefer_history`: chat history is loaded, and the service is told to keep nothing.
"""

CONFLICTS: tuple[Conflict, ...] = ("error", "warn", "prefer_service", "prefer_history")

# What the framework calls the conversation that it keeps itself; it is no id of a service.
_LOCAL = "agent_framework_local_history_persistence"


class ConversationConflict(ThreadkeepError, AgentInvalidRequestException):
    """The model's service and chat history both keep the conversation; the message says what to choose between."""


def service_conversation(session: AgentSession | None, options: Mapping[str, Any], client: object) -> str | None:
    """How a reader is told that the service keeps the conversation; None where it does not.

    Args:
        session: the session of the run.
        options: the options of the run, over those of the agent.
        client: the chat client.
    """
    for conversation in (session.service_session_id if session is not None else None, options.get("conversation_id")):
        if conversation is not None and is_service_id(conversation):
            return f"it has the conversation {conversation!r}"
    store = options.get("store")
    if store is None:
        store = getattr(client, "STORES_BY_DEFAULT", False)
    return "it is asked to store it" if store else None


def is_service_id(conversation: object) -> bool:
    """Whether this names a conversation that a service keeps."""
    return bool(conversation) and conversation != _LOCAL


def refuse(why: str) -> ConversationConflict:
    """The error for a conversation that both would keep."""
    return ConversationConflict(
        f"The chat client's service keeps this conversation ({why}), and so does the history provider. "
        "Give the agent the option store=False to keep it here, the provider load_messages=False to keep a record "
        'beside the service, or choose with conflict="prefer_service", "prefer_history" or "warn".'
    )


def warn(why: str) -> None:
    """Say that the service's copy is the one that is used."""
    logger.warning(
        "the service keeps this conversation (%s): chat history is written and not loaded; "
        'conflict="prefer_service" says that this is meant',
        why,
    )
