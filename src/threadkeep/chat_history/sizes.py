"""Keeping a message within what the service takes. Pure: nothing vanishes, what is cut says so.

What has ended is stored whole, with the help of attachments; here is what happens to a text that still grows, and to a
message that is too large even without its longest texts.
"""

import json
import re
from typing import Any

from threadkeep.chat_history.models import Message

MAX_CONTENT_CHARACTERS = 1_000_000
# The service takes 4 MiB of body; some room is left for what surrounds the texts.
MAX_BODY_BYTES = 4 * 1024 * 1024 - 64 * 1024
_LARGE_PART_BYTES = 256 * 1024
# No character takes more bytes than this in JSON.
SAFE_CHARACTERS = MAX_BODY_BYTES // 6
_CUT = re.compile(r"\w+ cut: ")


def fit(message: Message) -> dict[str, Any]:
    """The fields to change so that a message can be stored; empty where it fits as it is."""
    changes: dict[str, Any] = {}
    room = content_room(message.content)
    if len(message.content) > room:
        changes.update(_cut(message, "content", room))
    parts: list[Any] = [*message.tool_calls, *message.reasonings]
    content = changes.get("content", message.content)
    characters = len(content) + sum(len(part.content) + len(getattr(part, "arguments", "")) for part in parts)
    if characters <= SAFE_CHARACTERS and message.parts is None:
        return changes
    surplus = json_bytes(message.model_dump(mode="json")) - json_bytes(message.content) + json_bytes(content)
    surplus -= MAX_BODY_BYTES
    if surplus > 0 and message.parts is not None:
        lighter = [_light_part(part) for part in message.parts]
        surplus -= json_bytes(message.parts) - json_bytes(lighter)
        changes |= {"parts": lighter, "error": message.error or "parts cut: the largest are not stored"}
    if surplus <= 0:
        return changes
    calls, steps = list(message.tool_calls), list(message.reasonings)
    while surplus > 0:
        nested: list[Any] = [*calls, *steps]
        places = [(len(part.content), place, "content") for place, part in enumerate(nested)]
        places += [(len(call.arguments), place, "arguments") for place, call in enumerate(calls)]
        longest, place, field = max(places, default=(0, 0, ""))
        if longest <= 1:
            break
        part = nested[place]
        text = getattr(part, field)
        size = json_bytes(text)
        keep = max(1, longest - 1 - surplus * longest // size)
        cut = part.model_copy(update=_cut(part, field, keep))
        surplus -= size - json_bytes(getattr(cut, field))
        if place < len(calls):
            calls[place] = cut
        else:
            steps[place - len(calls)] = cut
    return {**changes, "tool_calls": calls, "reasonings": steps}


def _light_part(part: Any) -> Any:
    """A part that is replayed later: a large one becomes a text that says what was there."""
    size = json_bytes(part)
    if size <= _LARGE_PART_BYTES:
        return part
    kind = part.get("type", "part") if isinstance(part, dict) else "part"
    return {"type": "text", "text": f"[{kind} of {size:,} bytes, not stored]"}


def _cut(record: Any, field: str, keep: int) -> dict[str, Any]:
    text = getattr(record, field)
    return {field: text[:keep], "error": record.error or cut_note(field, keep, len(text))}


def content_room(content: str) -> int:
    """How many characters of a message's content its event has room for, and some for what is beside it."""
    if len(content) <= SAFE_CHARACTERS or json_bytes(content[:MAX_CONTENT_CHARACTERS]) <= MAX_BODY_BYTES * 3 // 4:
        return MAX_CONTENT_CHARACTERS
    return SAFE_CHARACTERS * 3 // 4


def cut_note(field: str, keep: int, total: int | None) -> str:
    """What a record says of a text that is not stored whole."""
    of_all = "" if total is None else f" of {total:,}"
    return f"{field} cut: the first {keep:,}{of_all} characters are stored"


def is_cut_note(error: str | None) -> bool:
    """Whether it is this module that says so."""
    return error is not None and _CUT.match(error) is not None


def json_bytes(value: Any) -> int:
    """How many bytes a value takes in a request."""
    try:
        return len(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        # Half a surrogate pair is sent as an escape, and then all else that is not ASCII is too.
        return len(json.dumps(value))
