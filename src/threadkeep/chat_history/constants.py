"""Names, keys and ids that stored chats are built from. Pure; whoever knows a user and a thread derives the same."""

import hashlib
from enum import StrEnum
from typing import Literal
from uuid import UUID

MEMORY_CHAT_MESSAGE_EVENT_TYPE = "message"
PAYLOAD_VERSION = 1
DEDUPLICATION_KEY_LENGTH = 64
LOCATOR_KIND_CHAT = "chat"
LOCATOR_KIND_MESSAGE = "message"
LOCATOR_KIND_TOOL_CALL = "tool_call"
LOCATOR_KIND_REASONING = "reasoning"

_PLACEHOLDER = "\u200b"
_HEX = frozenset("0123456789abcdef")


class Role(StrEnum):
    """Who speaks in a message; AG-UI's own roles (https://docs.ag-ui.com/concepts/messages).

    An activity is what an agent shows beside its messages, such as a plan.
    """

    DEVELOPER = "developer"
    SYSTEM = "system"
    ASSISTANT = "assistant"
    USER = "user"
    TOOL = "tool"
    REASONING = "reasoning"
    ACTIVITY = "activity"


class MessageStatus(StrEnum):
    """How far a message, tool call or reasoning step has come; all but `active` are final."""

    ACTIVE = "active"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    ERRORED = "errored"


def app_str(value: str | None) -> str:
    """What the application sees of a stored text: the zero-width placeholder, or none, stands for the empty string."""
    return "" if value in (None, _PLACEHOLDER) else value


def wire_non_empty_str(value: str | None) -> str:
    """What is stored of a text: the service wants at least one character, so none becomes U+200B."""
    return value or _PLACEHOLDER


def session_deduplication_key(namespace: str, *parts: str) -> str:
    """A stable key for creating a session once.

    Args:
        namespace: the kind of document, e.g. `"chat"`.
        parts: what makes the document unique, in order.

    Returns:
        The lower-case hex SHA-256 of all of them, joined by NUL characters, cut to `DEDUPLICATION_KEY_LENGTH`.
    """
    joined = "\0".join((namespace, *parts)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:DEDUPLICATION_KEY_LENGTH]


def chat_deduplication_key(user_uuid: UUID, thread_id: str) -> str:
    """The key of the one chat that a user has on an AG-UI thread."""
    return session_deduplication_key("chat", str(user_uuid), thread_id)


def normalize_participant_id(raw: str | None) -> str | None:
    """`raw` as 24 lower-case hex digits, or None where it is no such id."""
    if raw is None:
        return None
    candidate = raw.strip().lower()
    return candidate if len(candidate) == 24 and _HEX.issuperset(candidate) else None


def participant_id(user_uuid: UUID, *, override: str | None = None) -> str:
    """The participant id of a user: 24 lower-case hex digits, always the same for the same user.

    Args:
        user_uuid: the user.
        override: an id to use instead, e.g. one that an identity provider gave; ignored unless it is 24 hex digits.
    """
    return normalize_participant_id(override) or hashlib.sha256(user_uuid.bytes).hexdigest()[:24]


def emitter_for_role(role: str, user_participant_id: str | None) -> tuple[Literal["user", "agent"], str | None]:
    """The emitter of an event that holds a message of this role: type and id.

    User messages come from the user, all others from the agent, which has no id.
    """
    return ("user", user_participant_id) if role == Role.USER else ("agent", None)


def locator_key(kind: str, entity_uuid: UUID) -> str:
    """The deduplication key of the locator of one entity: `kind:uuid`."""
    return f"{kind}:{entity_uuid}"
