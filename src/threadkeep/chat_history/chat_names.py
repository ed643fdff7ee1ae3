"""What a new chat is called: the beginning of what its user says first. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.constants import Role

NO_NAME = "New Chat"

_LONGEST = 100
_SHORTEST_CUT = 70
"""A longer text is cut where a word ends, unless that leaves no more characters than this."""
_EDGE_OF_A_WORD = re.compile(r"\b")


def name_of_chat(messages: Iterable[Mapping[str, Any]]) -> str:
    """The name for a chat that begins with these AG-UI messages, given as fields under their wire names."""
    user = next((fields for fields in messages if fields.get("role") == Role.USER), None)
    text = "" if user is None else text_and_parts(user.get("content"))[0]
    return shortened(text) or NO_NAME


def shortened(text: str) -> str:
    """At most 100 characters of a text, without blanks around them."""
    text = text.strip()
    if len(text) <= _LONGEST:
        return text
    # One character more, so that the edge of the text is not taken for the edge of a word.
    edges = (edge.start() for edge in _EDGE_OF_A_WORD.finditer(text[: _LONGEST + 1]))
    cuts = [edge for edge in edges if _SHORTEST_CUT < edge <= _LONGEST]
    return text[: cuts[-1] if cuts else _LONGEST].strip()
