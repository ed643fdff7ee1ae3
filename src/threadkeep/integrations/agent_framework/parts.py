"""Between the parts of AG-UI's multimodal user messages and the framework's contents. Pure."""

from collections.abc import Mapping
from typing import Any

from agent_framework import Content

_KINDS = ("image", "audio", "video")


def part_of_content(content: Content) -> dict[str, Any] | None:
    """A user's content as an AG-UI part; None where the protocol has no part for it."""
    if content.type == "text":
        return {"type": "text", "text": content.text or ""}
    if content.type not in ("data", "uri") or not content.uri:
        return None
    media_type = content.media_type or ""
    kind = media_type.partition("/")[0]
    source: dict[str, Any] = {"type": "url", "value": content.uri}
    if content.type == "data":
        source = {"type": "data", "value": content.uri.partition(",")[2]}
    if media_type:
        source["mimeType"] = media_type
    return {"type": kind if kind in _KINDS else "document", "source": source}


def content_of_part(part: Any) -> Content | None:
    """An AG-UI part as the framework's content; None for one that says nothing."""
    if not isinstance(part, Mapping):
        return None
    if part.get("type") == "text":
        return Content.from_text(str(part.get("text") or ""))
    media_type = _text(part.get("mimeType")) or "application/octet-stream"
    source = part.get("source")
    if isinstance(source, Mapping):
        media_type = _text(source.get("mimeType")) or media_type
        value = _text(source.get("value"))
        return _content(value if source.get("type") == "url" else None, value, media_type)
    return _content(_text(part.get("url")), _text(part.get("data")), media_type)


def _content(url: str | None, data: str | None, media_type: str) -> Content | None:
    if url:
        return Content.from_uri(url, media_type=media_type)
    if data:
        return Content.from_uri(f"data:{media_type};base64,{data}", media_type=media_type)
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
