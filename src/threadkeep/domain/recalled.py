"""What came from memory: marked where it enters a conversation, and left out where memories are extracted.

An agent that is reminded of something must not have it noted as if somebody had just said it.
"""

import re

from threadkeep.contract.recalled import CLOSE, OPEN

EVENT_TYPE = "memory"
"""The type of an event that holds nothing but memories, whoever sends it."""
_BLOCK = re.compile(re.escape(OPEN) + ".*?" + re.escape(CLOSE), re.DOTALL)


def without(text: str) -> str:
    """The text without what is in marks."""
    return _BLOCK.sub("", text) if OPEN in text else text
