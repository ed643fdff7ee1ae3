"""Microsoft's Agent Framework: its agents' history as chats, written after each service call. Knows no server."""

try:
    import agent_framework as _agent_framework
except ImportError as error:
    from threadkeep.errors import MissingExtra

    raise MissingExtra("agent-framework", "threadkeep.integrations.agent_framework") from error

from threadkeep.integrations.agent_framework.ag_ui import FrameworkAGUIAgent
from threadkeep.integrations.agent_framework.agent import PersistentAgent
from threadkeep.integrations.agent_framework.conversation import Conflict, ConversationConflict
from threadkeep.integrations.agent_framework.middleware import ChatHistoryPersistingMiddleware
from threadkeep.integrations.agent_framework.provider import ThreadkeepHistoryProvider
from threadkeep.integrations.agent_framework.repair import repaired
from threadkeep.integrations.agent_framework.rows import FrameworkMessage, FrameworkToolCall
from threadkeep.integrations.agent_framework.sessions import RecordedSession
from threadkeep.integrations.agent_framework.snapshots import ThreadkeepSnapshotStore

del _agent_framework

__all__ = [
    "ChatHistoryPersistingMiddleware",
    "Conflict",
    "ConversationConflict",
    "FrameworkAGUIAgent",
    "FrameworkMessage",
    "FrameworkToolCall",
    "PersistentAgent",
    "RecordedSession",
    "ThreadkeepHistoryProvider",
    "ThreadkeepSnapshotStore",
    "repaired",
]
