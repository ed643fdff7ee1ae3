"""Which messages of a run's input are new, and what that means for the calls that wait. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from threadkeep.chat_history.ag_ui.lenient import compact_json, identifier_of, list_of, mapping_of, text_of
from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.models import Message, ToolCall

Fields = Mapping[str, Any]


@dataclass(slots=True)
class Answer:
    """A tool message of the client for a stored call that has no result."""

    call: ToolCall
    fields: Fields


@dataclass(slots=True)
class Arrival:
    """What an input brings.

    `users` are the user messages to store, `answers` the results of waiting calls, `abandoned` the calls that were
    waiting when the user moved on or cancelled them. `refused` says why the input cannot be taken. `replay_until` is
    the message at which the history given to the agent ends, where the client asks to answer an earlier one again.
    """

    users: list[Fields] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    abandoned: list[ToolCall] = field(default_factory=list)
    refused: str | None = None
    replay_until: UUID | None = None


def read_input(messages: Sequence[Fields], resume: Sequence[Fields], stored: Sequence[Message]) -> Arrival:
    """Compare the messages of an input with those that are stored.

    Clients resend all they have, or only what is new; some give every message a new id when they do. Only user
    messages, and tool messages that answer a stored call without a result, may be new.
    """
    arrival = Arrival()
    known = _Known(stored)
    begin, last_known_user = known.resent(messages)
    last_user = max((at for at, each in enumerate(messages) if each.get("role") == Role.USER), default=-1)
    for place, fields in enumerate(messages[begin:], begin):
        role, agui_id = fields.get("role"), identifier_of(fields.get("id"))
        if role == Role.USER:
            earlier = known.users.get(agui_id or "")
            last_known_user = earlier
            if earlier is None and all(agui_id is None or new.get("id") != agui_id for new in arrival.users):
                arrival.users.append(fields)
        elif role == Role.TOOL:
            call = known.call(identifier_of(fields.get("toolCallId")))
            if call is not None and not is_answered(call):
                arrival.answers.append(Answer(call, fields))
            elif call is None and agui_id not in known.ids and place > last_user:
                # Further up it is an echo of a result that no call of the agent's stream was there for.
                arrival.refused = f"The tool message {agui_id!r} answers no stored tool call"
        elif role != "activity" and agui_id not in known.ids and not known.has_said(fields):
            arrival.refused = f"The {role} message {agui_id!r} is new; only user messages may be"
    if messages and messages[-1].get("role") == Role.USER and not (arrival.users or arrival.answers or resume):
        arrival.replay_until = last_known_user.message_uuid if last_known_user is not None else None
    arrival.abandoned = list(_abandoned(arrival, resume, stored))
    return arrival


def is_answered(call: ToolCall) -> bool:
    """Whether a stored call has a result, be it an empty one."""
    # Other writers fill `tool_call_id` with the call's own id from its beginning.
    return bool(call.content or call.tool_call_id not in (None, call.agui_id))


def stored_content(fields: Fields) -> tuple[str, list[Any] | None]:
    """The text of a client message, and its parts where it has some."""
    content = fields.get("content")
    if not isinstance(content, list | tuple):
        return text_of(content), None
    texts = (part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str)), list(content)


class _Known:
    """What is stored, the way an input refers to it."""

    def __init__(self, stored: Sequence[Message]) -> None:
        self.users: dict[str, Message] = {}
        self.ids: set[str] = set()
        self._calls: dict[str, ToolCall] = {}
        self._texts: set[str] = set()
        self._talk: list[tuple[str, str, Message]] = []
        for message in stored:
            ids = [str(message.message_uuid), *([message.agui_id] if message.agui_id else [])]
            if message.role == Role.USER:
                self.users.update(dict.fromkeys(ids, message))
            else:
                self.ids.update(ids)
                self._texts.add(message.content)
            if message.content:
                self._talk.append((message.role, message.content, message))
            for call in message.tool_calls:
                self.ids.update(filter(None, (call.tool_call_id, str(call.uuid))))
                self._calls.update(dict.fromkeys(filter(None, (call.agui_id, str(call.uuid))), call))
            for step in message.reasonings:
                self.ids.update(filter(None, (step.agui_id, str(step.uuid))))
                self._texts.add(step.content)
        self._texts.discard("")

    def call(self, agui_id: str | None) -> ToolCall | None:
        return None if agui_id is None else self._calls.get(agui_id)

    def has_said(self, fields: Fields) -> bool:
        """Whether a message with an unknown id is one that is stored: its calls are, or its very text is."""
        calls = [identifier_of(mapping_of(call).get("id")) for call in list_of(fields.get("toolCalls"))]
        if calls:
            return all(call in self._calls for call in calls)
        text = text_of(fields.get("content"))
        # A blank message leaves no row, yet the client has it.
        return fields.get("role") in (Role.ASSISTANT, Role.REASONING) and (not text or text in self._texts)

    def resent(self, messages: Sequence[Fields]) -> tuple[int, Message | None]:
        """How many messages at the front are the stored conversation under new ids, and its last user message.

        It must be the beginning of the conversation, and more than one message of it: a user may say "yes" twice.
        """
        if any(identifier_of(each.get("id")) in self.users for each in messages if each.get("role") == Role.USER):
            return 0, None
        said = [
            (place, text)
            for place, each in enumerate(messages)
            if each.get("role") in (Role.USER, Role.ASSISTANT) and (text := stored_content(each)[0])
        ]
        same = 0
        for (place, text), (role, content, _) in zip(said, self._talk, strict=False):
            if messages[place].get("role") != role or text != content:
                break
            same += 1
        if same < 2:
            return 0, None
        users = (message for role, _, message in reversed(self._talk[:same]) if role == Role.USER)
        return said[same - 1][0] + 1, next(users, None)


def _abandoned(arrival: Arrival, resume: Sequence[Fields], stored: Sequence[Message]) -> Iterator[ToolCall]:
    answered = {id(answer.call) for answer in arrival.answers}
    cancelled = {identifier_of(each.get("interruptId")) for each in resume if each.get("status") == "cancelled"}
    given_up = {
        identifier_of(mapping_of(interrupt).get("toolCallId"))
        for message in stored
        for interrupt in message.interrupts or []
        if identifier_of(mapping_of(interrupt).get("id")) in cancelled
    }
    for message in stored:
        for call in message.tool_calls:
            waits = call.awaiting and call.status == MessageStatus.ACTIVE and id(call) not in answered
            if waits and (arrival.users or (call.agui_id is not None and call.agui_id in given_up)):
                yield call


def result_of(fields: Fields) -> tuple[str, str | None]:
    """The content and the error of a tool message."""
    content = fields.get("content")
    error = fields.get("error")
    return text_of(content), error if isinstance(error, str) or error is None else compact_json(error)
