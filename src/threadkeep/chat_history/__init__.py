"""AG-UI events into typed, durable chat history. Speaks to repositories only."""

try:
    import ag_ui.core as _ag_ui
except ImportError as error:
    from threadkeep.errors import MissingExtra

    raise MissingExtra("ag-ui", "threadkeep.chat_history") from error

from threadkeep.chat_history.ag_ui.agent import AGUIAgent, ErrorCodes
from threadkeep.chat_history.ag_ui.inputs import InputRules
from threadkeep.chat_history.ag_ui.patience import Patience
from threadkeep.chat_history.ag_ui.replayed import ExtendedBaseMessage
from threadkeep.chat_history.ag_ui.state import StorageState
from threadkeep.chat_history.ag_ui.storage import AGUIStorageAgent
from threadkeep.chat_history.ag_ui.wire import WireEvent, WireInput, event_fields, event_type
from threadkeep.chat_history.chat_records import ChatEvent, ChatEventCreate, ChatState
from threadkeep.chat_history.chats import ChatRepository
from threadkeep.chat_history.constants import (
    DEDUPLICATION_KEY_LENGTH,
    LOCATOR_KIND_CHAT,
    LOCATOR_KIND_MESSAGE,
    LOCATOR_KIND_REASONING,
    LOCATOR_KIND_TOOL_CALL,
    MEMORY_CHAT_MESSAGE_EVENT_TYPE,
    PAYLOAD_VERSION,
    MessageStatus,
    Role,
    app_str,
    chat_deduplication_key,
    emitter_for_role,
    locator_key,
    normalize_participant_id,
    participant_id,
    session_deduplication_key,
    wire_non_empty_str,
)
from threadkeep.chat_history.dto import (
    ChatCreate,
    MessageCreate,
    MessagePublic,
    MessageReasoningCreate,
    MessageReasoningUpdate,
    MessageToolCallCreate,
    MessageToolCallUpdate,
    MessageUpdate,
)
from threadkeep.chat_history.locator import LocatorIndex
from threadkeep.chat_history.messages import MessageRepository
from threadkeep.chat_history.models import Chat, EntityLocator, Message, Reasoning, Subagent, ToolCall
from threadkeep.chat_history.protocols import (
    ChatRepositoryLike,
    EventRepositoryLike,
    MessageRepositoryLike,
    StateRepositoryLike,
)
from threadkeep.chat_history.registry import ChatSessionRegistry
from threadkeep.chat_history.repair import repair_messages
from threadkeep.chat_history.stream_manager import RunHandle, StreamPersistenceManager
from threadkeep.chat_history.translate import translate_messages

del _ag_ui

__all__ = [
    "DEDUPLICATION_KEY_LENGTH",
    "LOCATOR_KIND_CHAT",
    "LOCATOR_KIND_MESSAGE",
    "LOCATOR_KIND_REASONING",
    "LOCATOR_KIND_TOOL_CALL",
    "MEMORY_CHAT_MESSAGE_EVENT_TYPE",
    "PAYLOAD_VERSION",
    "AGUIAgent",
    "AGUIStorageAgent",
    "Chat",
    "ChatCreate",
    "ChatEvent",
    "ChatEventCreate",
    "ChatRepository",
    "ChatRepositoryLike",
    "ChatSessionRegistry",
    "ChatState",
    "EntityLocator",
    "ErrorCodes",
    "EventRepositoryLike",
    "ExtendedBaseMessage",
    "InputRules",
    "LocatorIndex",
    "Message",
    "MessageCreate",
    "MessagePublic",
    "MessageReasoningCreate",
    "MessageReasoningUpdate",
    "MessageRepository",
    "MessageRepositoryLike",
    "MessageStatus",
    "MessageToolCallCreate",
    "MessageToolCallUpdate",
    "MessageUpdate",
    "Patience",
    "Reasoning",
    "Role",
    "RunHandle",
    "StateRepositoryLike",
    "StorageState",
    "StreamPersistenceManager",
    "Subagent",
    "ToolCall",
    "WireEvent",
    "WireInput",
    "app_str",
    "chat_deduplication_key",
    "emitter_for_role",
    "event_fields",
    "event_type",
    "locator_key",
    "normalize_participant_id",
    "participant_id",
    "repair_messages",
    "session_deduplication_key",
    "translate_messages",
    "wire_non_empty_str",
]
