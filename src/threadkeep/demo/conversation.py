"""The messages of a run, read for the demo agents: as plain text, and as OpenAI's chat messages. Pure.

Messages come as AG-UI objects, as replayed history or as dicts; all are read through their camelCase fields.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

Json = dict[str, Any]


def user_texts(messages: Iterable[Any]) -> list[str]:
    """What the user has written so far, oldest first."""
    return [plain_text(fields.get("content")) for fields in map(message_fields, messages) if fields["role"] == "user"]


def plain_text(content: Any) -> str:
    """The text of a content: a string, or the text parts of a list of parts."""
    if isinstance(content, list):
        return " ".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def message_fields(message: Any) -> Mapping[str, Any]:
    """The camelCase fields of a message."""
    if isinstance(message, BaseModel):
        return message.model_dump(mode="json", by_alias=True, exclude_none=True)
    fields: Mapping[str, Any] = message
    return fields


def chat_messages(messages: Iterable[Any]) -> list[Json]:
    """The messages as OpenAI's chat completions take them.

    Reasoning and activities have no place there and are left out, as is an assistant's turn that says nothing.
    """
    return [chat for message in messages if (chat := _chat_message(message_fields(message))) is not None]


def _chat_message(fields: Mapping[str, Any]) -> Json | None:
    content = fields.get("content")
    match fields["role"]:
        case "system" | "developer":
            return {"role": "system", "content": plain_text(content)}
        case "user":
            return {"role": "user", "content": [*map(_part, content)] if isinstance(content, list) else content or ""}
        case "tool":
            return {"role": "tool", "tool_call_id": fields.get("toolCallId"), "content": plain_text(content)}
        case "assistant":
            calls = [_call(call) for call in fields.get("toolCalls") or ()]
            text = plain_text(content)
            if not calls:
                return {"role": "assistant", "content": text} if text else None
            return {"role": "assistant", "content": text or None, "tool_calls": calls}
    return None


def _call(call: Mapping[str, Any]) -> Json:
    function = call["function"]
    # Some servers refuse a call whose arguments are not JSON, and a call without arguments is streamed as none.
    arguments = function.get("arguments") or "{}"
    return {"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _part(part: Mapping[str, Any]) -> Json:
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part["text"]}
    source = part.get("source") or part
    if kind == "image" or str(source.get("mimeType", "")).startswith("image/"):
        url = source.get("url") or source.get("value") or source.get("data")
        if url and source.get("type") in ("data", "binary") and not source.get("url"):
            url = f"data:{source.get('mimeType')};base64,{url}"
        if url:
            return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": f"[{kind}: {source.get('mimeType') or 'attachment'}]"}
