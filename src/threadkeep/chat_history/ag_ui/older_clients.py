"""Messages in the form that a client of either line of AG-UI takes: neither line reads all that the other one sends.

Clients before 1.0 fail on tool results in parts and on file sources; those since 1.0 know no `binary` parts. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.lenient import mapping_of, text_of

_MEDIA = ("image", "audio", "video")
_SOURCES = (("url", "url"), ("data", "data"), ("id", "file"))


def message_for(message: Mapping[str, Any], *, speaks_1_x: bool) -> dict[str, Any]:
    """An AG-UI message for a client that says that it speaks 1.x, or for one that does not say so."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    if message.get("role") == "tool" and not speaks_1_x:
        return {**message, "content": text_and_parts(content)[0]}
    return {**message, "content": parts_for(content, speaks_1_x=speaks_1_x)}


def parts_for(parts: Sequence[Any], *, speaks_1_x: bool) -> list[Any]:
    """The parts of a content, the same way."""
    return [_media(part) if speaks_1_x else _without_file(part) for part in parts]


def _without_file(part: Any) -> Any:
    """A part whose file only its provider knows becomes words."""
    source = mapping_of(mapping_of(part).get("source"))
    if source.get("type") != "file":
        return part
    return {"type": "text", "text": f"[{text_of(part.get('type')) or 'file'} {text_of(source.get('value'))}]"}


def _media(part: Any) -> Any:
    """A `binary` part as the part that took its place."""
    fields = mapping_of(part)
    if fields.get("type") != "binary":
        return part
    mime_type = text_of(fields.get("mimeType"))
    medium = mime_type.partition("/")[0]
    given = ((kind, fields.get(name)) for name, kind in _SOURCES if isinstance(fields.get(name), str))
    source_type, value = next(given, ("url", ""))
    source = {"type": source_type, "value": value, "mimeType": mime_type}
    named = {"metadata": {"filename": fields["filename"]}} if isinstance(fields.get("filename"), str) else {}
    return {"type": medium if medium in _MEDIA else "document", "source": source, **named}
