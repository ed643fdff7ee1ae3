"""Between the framework's messages and rows of chat history, both ways. Pure: ids are derived or given, time is given.

A row holds what every reader of chat history knows: text, parts, tool calls, reasonings. What it cannot hold, hosted
results or annotations for example, is kept in the framework's own form beside it, and comes back as it was.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from agent_framework import Content, Message
from pydantic_core import to_jsonable_python

from threadkeep.chat_history import Message as Row
from threadkeep.chat_history import MessageReasoningCreate, MessageStatus, Reasoning, Role, ToolCall
from threadkeep.integrations.agent_framework.marks import without_marks
from threadkeep.integrations.agent_framework.parts import content_of_part, part_of_content
from threadkeep.integrations.agent_framework.rows import (
    FrameworkMessageCreate,
    FrameworkToolCallCreate,
    FrameworkToolCallUpdate,
    Native,
    NewRow,
)

APPROVALS = ("function_approval_request", "function_approval_response")
# An agent that was given no name signs with this one.
_NO_NAME = "UnnamedAgent"
# The function loop gives calls such ids to tell them apart within a run; they mean nothing after it.
_ID_WITHIN_A_RUN = "af-call-"
_LARGE_FORM = "agent_framework"
_LARGE_CHARACTERS = 64_000
_LARGEST_CONTENT_CHARACTERS = 250_000
_SIGNATURE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def new_row(
    message: Message,
    at: datetime,
    *,
    author: str = "",
    run_id: str | None = None,
    status: MessageStatus = MessageStatus.COMPLETE,
) -> NewRow | None:
    """The row for a message, or None where nothing of it belongs in a row.

    Results of functions are not part of it: they live in the row of their call.

    Args:
        message: the framework's message.
        at: when it was said.
        author: who speaks where the message does not say; for what the agent says.
        run_id: the run that it belongs to.
        status: how it ended; its open calls stay `active`.
    """
    contents = [content for content in message.contents if content.type not in ("function_result", "usage")]
    if not contents:
        return None
    role = _role_of(message, contents)
    name = message.author_name if message.author_name not in (None, _NO_NAME) else None
    parts = None
    if role is Role.USER and any(content.type != "text" for content in contents):
        found = [part_of_content(content) for content in contents]
        parts = [part for part in found if part is not None] or None
    created = FrameworkMessageCreate(
        message_uuid=uuid4(),
        agui_id=message.message_id or None,
        role=role,
        name=name or (author if role is Role.ASSISTANT else ""),
        content=_text(contents),
        parts=parts,
        in_progress=False,
        status=status,
        timestamp=at,
        run_id=run_id,
    )
    row = NewRow(created)
    for content in contents:
        if content.type == "function_call":
            row.calls.append(
                FrameworkToolCallCreate(
                    message_uuid=created.message_uuid,
                    agui_id=content.call_id or None,
                    name=content.name or "",
                    arguments=arguments_text(content.arguments),
                    created_at=at,
                )
            )
        elif content.type == "text_reasoning":
            row.reasonings.append(
                MessageReasoningCreate(
                    message_uuid=created.message_uuid,
                    agui_id=content.id,
                    content=content.text or "",
                    encrypted_value=content.protected_data,
                    in_progress=False,
                    status=status,
                    created_at=at,
                )
            )
    native = _native_message(message, contents)
    if native != plain(_from_row(created, row.calls, row.reasonings)):
        if _size(native) > _LARGE_CHARACTERS and role is not Role.USER:
            # Long values in parts are stored apart from the message, as attachments are.
            created.parts = [{"type": _LARGE_FORM, "message": native}]
        else:
            created.agent_framework = native
    return row


def answer(result: Content, call_uuid: UUID, result_id: str | None) -> FrameworkToolCallUpdate:
    """What changes in a stored call when its result is there."""
    text = result_text(result)
    native = _native_content(result)
    failed = native.get("exception")
    update = FrameworkToolCallUpdate(
        content=text,
        tool_call_id=result_id or str(call_uuid),
        status=MessageStatus.ERRORED if failed else MessageStatus.COMPLETE,
        in_progress=False,
        awaiting=False,
    )
    if failed:
        update.error = str(failed)
    items = result.items or ()
    if any(item.type != "text" for item in items):
        parts = [part_of_content(item) for item in items]
        update.parts = [part for part in parts if part is not None] or None
    shown = [content for part in update.parts or () if (content := content_of_part(part)) is not None]
    plain_result = Content.from_function_result(result.call_id or "", result=shown or text)
    if native != _native_content(plain_result):
        update.agent_framework = _light(native)
    return update


def pending_form(message: Message) -> Native:
    """A message whose calls wait for approval, in the form that is kept until they have their results."""
    return _native_message(message, [each for each in message.contents if each.type != "function_result"])


def restored(row: Row) -> list[Message]:
    """A stored row as the framework's messages: the message itself, then one with the results of its calls."""
    if row.role == Role.ACTIVITY:
        return []
    native = getattr(row, "agent_framework", None) or _large_form(row.parts)
    message = _from_native(native) if isinstance(native, Mapping) else None
    if message is None:
        message = _from_row(row, row.tool_calls, row.reasonings)
    results = [result for call in row.tool_calls if (result := _result(call)) is not None]
    answered = {result.call_id for result in results}
    message.contents = [content for content in message.contents if not _is_settled(content, answered)]
    messages = [message] if message.contents else []
    if results:
        messages.append(Message("tool", results))
    return messages


def _large_form(parts: Any) -> Any:
    """The framework's form of a message that was too large to be kept beside the row."""
    first = parts[0] if isinstance(parts, list) and parts else None
    is_form = isinstance(first, Mapping) and first.get("type") == _LARGE_FORM
    return first.get("message") if is_form and first is not None else None


def _is_settled(content: Content, answered: Collection[str | None]) -> bool:
    """Whether this is an approval whose call has its result."""
    call = content.function_call if content.type in APPROVALS else None
    return call is not None and call.call_id in answered


def is_answered(call: ToolCall) -> bool:
    """Whether a stored call has its result, be it an empty one."""
    return bool(call.content or _parts_of(call) or call.tool_call_id not in (None, call.agui_id))


def result_text(result: Content) -> str:
    """The result of a function as text, as a model is shown it."""
    if isinstance(result.result, str):
        return result.result
    if result.result is not None:
        return json.dumps(to_jsonable_python(result.result, fallback=str), ensure_ascii=False)
    return "\n".join(item.text for item in result.items or () if item.text)


def arguments_text(arguments: Any) -> str:
    """A call's arguments as the text that chat history keeps."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(to_jsonable_python(arguments, fallback=str), ensure_ascii=False)


def _role_of(message: Message, contents: Iterable[Content]) -> Role:
    if all(content.type in APPROVALS for content in contents):
        # Nobody said anything: replays of the chat for other readers leave it out.
        return Role.TOOL
    try:
        return Role(message.role)
    except ValueError:
        return Role.ASSISTANT


def _text(contents: Iterable[Content]) -> str:
    return "".join(content.text or "" for content in contents if content.type == "text")


def _from_row(row: Any, calls: Iterable[Any], reasonings: Iterable[Any]) -> Message:
    """The message that the common fields of a row make: reasonings, text or parts, calls."""
    contents = [_reasoning(step) for step in reasonings]
    if row.parts and row.role == Role.USER:
        contents += [content for part in row.parts if (content := content_of_part(part)) is not None]
    elif row.content:
        contents.append(Content.from_text(row.content))
    contents += [Content.from_function_call(_call_id(call), call.name, arguments=call.arguments) for call in calls]
    role = row.role if row.role != Role.REASONING else Role.ASSISTANT
    name = row.name if _SIGNATURE.fullmatch(row.name) else None
    return Message(str(role), contents, author_name=name, message_id=row.agui_id)


def _reasoning(step: Reasoning) -> Content:
    return Content.from_text_reasoning(id=step.agui_id, text=step.content or None, protected_data=step.encrypted_value)


def _call_id(call: ToolCall) -> str:
    return call.agui_id or str(call.uuid)


def _result(call: ToolCall) -> Content | None:
    if not is_answered(call):
        return None
    native = getattr(call, "agent_framework", None)
    if isinstance(native, Mapping):
        kept = _content_from_native(native)
        # Whoever changed the text since, changed the result.
        if kept is not None and result_text(kept) == call.content:
            return kept
    parts = [content for part in _parts_of(call) if (content := content_of_part(part)) is not None]
    return Content.from_function_result(_call_id(call), result=parts or call.content, exception=call.error)


def _parts_of(call: ToolCall) -> list[Any]:
    """The parts of a result that a frontend or an AG-UI agent gave."""
    return getattr(call, "parts", None) or []


def _native_message(message: Message, contents: Sequence[Content]) -> Native:
    # An approval that is pending refers to its call by such an id.
    keep_run_ids = any(content.type in APPROVALS for content in contents)
    name = None if message.author_name == _NO_NAME else message.author_name
    properties = without_marks(message.additional_properties)
    copy = Message(message.role, [], author_name=name, message_id=message.message_id, additional_properties=properties)
    native = plain(copy)
    native["contents"] = [_native_content(content, keep_run_ids=keep_run_ids) for content in contents]
    return native


def _native_content(content: Content, *, keep_run_ids: bool = False) -> Native:
    native: Native = to_jsonable_python(content.to_dict(), fallback=str, inf_nan_mode="strings")
    is_call = content.type in ("function_call", "function_result")
    if is_call and not keep_run_ids and str(native.get("id", "")).startswith(_ID_WITHIN_A_RUN):
        del native["id"]
    return native


def plain(message: Message) -> Native:
    """A message in its serialised form, as plain JSON values."""
    native: Native = to_jsonable_python(message.to_dict(), fallback=str, inf_nan_mode="strings")
    return native


def _from_native(native: Mapping[str, Any]) -> Message | None:
    try:
        return Message.from_dict(dict(native))
    except (TypeError, ValueError, KeyError):
        return None


def _content_from_native(native: Mapping[str, Any]) -> Content | None:
    try:
        return Content.from_dict(native)
    except (TypeError, ValueError, KeyError):
        return None


def _light(native: Native) -> Native | None:
    """The form of a result, unless it is too large to stand beside its call: its text and its parts are kept anyway."""
    return native if _size(native) <= _LARGEST_CONTENT_CHARACTERS else None


def _size(native: Native) -> int:
    return len(json.dumps(native, ensure_ascii=False))
