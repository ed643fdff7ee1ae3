"""What `threadkeep.chat_history` offers, and what it says where AG-UI is not installed."""

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

import threadkeep.chat_history as chat_history
from threadkeep.errors import MissingExtra

PROMISED = [
    "MEMORY_CHAT_MESSAGE_EVENT_TYPE",
    "PAYLOAD_VERSION",
    "DEDUPLICATION_KEY_LENGTH",
    "LOCATOR_KIND_CHAT",
    "LOCATOR_KIND_MESSAGE",
    "LOCATOR_KIND_TOOL_CALL",
    "LOCATOR_KIND_REASONING",
    "app_str",
    "wire_non_empty_str",
    "session_deduplication_key",
    "chat_deduplication_key",
    "normalize_participant_id",
    "participant_id",
    "emitter_for_role",
    "locator_key",
    "Role",
    "MessageStatus",
    "Chat",
    "Message",
    "ToolCall",
    "Reasoning",
    "EntityLocator",
    "ChatCreate",
    "MessageCreate",
    "MessageUpdate",
    "MessageToolCallCreate",
    "MessageToolCallUpdate",
    "MessageReasoningCreate",
    "MessageReasoningUpdate",
    "MessagePublic",
    "ChatRepositoryLike",
    "MessageRepositoryLike",
    "ChatSessionRegistry",
    "LocatorIndex",
    "ChatRepository",
    "MessageRepository",
    "AGUIAgent",
    "AGUIStorageAgent",
    "StorageState",
    "ErrorCodes",
    "translate_messages",
    "ExtendedBaseMessage",
    "StreamPersistenceManager",
    "RunHandle",
]


def test_every_promised_name_is_there() -> None:
    assert set(PROMISED) <= set(chat_history.__all__)
    for name in chat_history.__all__:
        assert getattr(chat_history, name) is not None


def test_the_constants_are_those_that_other_stores_use() -> None:
    assert chat_history.MEMORY_CHAT_MESSAGE_EVENT_TYPE == "message"
    assert chat_history.PAYLOAD_VERSION == 1
    kinds = (
        chat_history.LOCATOR_KIND_CHAT,
        chat_history.LOCATOR_KIND_MESSAGE,
        chat_history.LOCATOR_KIND_TOOL_CALL,
        chat_history.LOCATOR_KIND_REASONING,
    )
    assert kinds == ("chat", "message", "tool_call", "reasoning")
    assert [role.value for role in chat_history.Role] == [
        "developer",
        "system",
        "assistant",
        "user",
        "tool",
        "reasoning",
        "activity",
    ]
    assert [status.value for status in chat_history.MessageStatus] == ["active", "complete", "interrupted", "errored"]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (chat_history.ChatSessionRegistry, "space chat_cls locator_cls always_locators"),
        (chat_history.LocatorIndex, "space locator_cls"),
        (chat_history.ChatRepository, "space registry chat_cls"),
        (chat_history.MessageRepository, "space registry chat_cls message_cls"),
        (chat_history.LocatorIndex.get, "self kind entity_uuid"),
        (chat_history.LocatorIndex.put, "self kind entity_uuid session_id chat_uuid message_uuid"),
    ],
)
def test_arguments_keep_their_names_and_their_order(function: Callable[..., Any], names: str) -> None:
    assert [*inspect.signature(function).parameters] == names.split()


def test_the_missing_extra_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # Restored afterwards: the classes of a second import would not be those that other tests hold.
    for name in [name for name in sys.modules if name.startswith(("threadkeep.chat_history", "ag_ui"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ag_ui", None)
    monkeypatch.setitem(sys.modules, "ag_ui.core", None)
    with pytest.raises(MissingExtra, match=r"pip install 'threadkeep\[ag-ui\]'"):
        importlib.import_module("threadkeep.chat_history")
