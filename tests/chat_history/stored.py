"""Stored messages for tests."""

from typing import Any

from threadkeep.chat_history import Message


def spoken(content: str, **fields: Any) -> Message:
    """A message of the agent that has ended well, unless the fields say otherwise."""
    return Message(**{"role": "assistant", "status": "complete", "in_progress": False, "content": content, **fields})
