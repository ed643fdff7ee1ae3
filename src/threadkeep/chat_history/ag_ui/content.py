"""Content that may be text or parts: kept as what it is, and readable as text. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import plain, text_of

# AG-UI's parts of both lines; `binary` is of the older one.
_PART_TYPES = frozenset({"text", "image", "audio", "video", "document", "binary"})


def parts_of(content: Any) -> list[Any] | None:
    """The parts of a content that is a list of them, else None: a list of other things is a value like any other."""
    if not isinstance(content, list | tuple) or not content:
        return None
    parts = [plain(part) for part in content]
    kinds = [part.get("type") if isinstance(part, dict) else None for part in parts]
    known = all(isinstance(kind, str) for kind in kinds) and not _PART_TYPES.isdisjoint(kinds)
    return parts if known else None


def text_of_parts(parts: Sequence[Any]) -> str:
    """What the text parts say, one after the other."""
    texts = (part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def text_and_parts(content: Any) -> tuple[str, list[Any] | None]:
    """A content as text, and its parts where it has some; anything else that is no text is compact JSON."""
    parts = parts_of(content)
    return (text_of(content), None) if parts is None else (text_of_parts(parts), parts)
