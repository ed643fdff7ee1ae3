"""A history that a chat API accepts: every call with its result right after it, every result with its call. Pure.

What is stored stays as it is; this makes the copy that a model is sent.
"""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent_framework import Content, Message

from threadkeep.integrations.agent_framework.contents import APPROVALS, arguments_text
from threadkeep.integrations.agent_framework.marks import mark_stand_in

Dangling = Literal["close", "drop"]
"""What happens to calls without a result: `close` answers them with a text that says so, `drop` leaves them out."""


@dataclass(slots=True)
class _Call:
    """A call in its message, and the results that came for it."""

    content: Content
    results: list[Content] = field(default_factory=list)
    again: bool = False


def repaired(
    messages: Sequence[Message],
    *,
    dangling: Dangling = "close",
    open_calls: Collection[str] = (),
    said: Mapping[str, str] | None = None,
) -> list[Message]:
    """The messages as a chat API accepts them.

    Results go right after the message with their calls, a result without a call is left out, and so are calls that
    come twice, requests for approval that are answered or given up, and messages that are nothing but reasoning with
    no answer after it. Messages that need no change are the same objects.

    Args:
        messages: the conversation.
        dangling: what to do with calls that have no result.
        open_calls: ids of calls that are left open, because their results are still to come.
        said: the stand-in for a missing result by call id, where there is a better one than usual.
    """
    calls = _pair(messages)
    built: list[Message] = []
    for message in messages:
        kept: list[Content] = []
        answered: list[Content] = []
        made_up: list[Content] = []
        for content in message.contents:
            call = calls.get(id(content))
            if content.type == "function_result":
                continue
            if content.type in APPROVALS and not _is_hosted(content):
                if content.function_call is not None and content.function_call.call_id in open_calls:
                    kept.append(content)
            elif call is None:
                kept.append(content)
            elif call.again:
                continue
            elif call.results:
                kept.append(content)
                answered.append(call.results[0])
            elif content.call_id in open_calls:
                kept.append(content)
            elif dangling == "close":
                kept.append(content)
                text = (said or {}).get(content.call_id or "") or stand_in(content.name or "")
                made_up.append(Content.from_function_result(content.call_id or "", result=text))
        if kept:
            built.append(_with_contents(message, kept))
        if answered:
            built.extend(_results(messages, answered))
        if made_up:
            result = Message("tool", made_up)
            mark_stand_in(result)
            built.append(result)
    return _without_loose_reasoning(built)


def stand_in(name: str) -> str:
    """What a model is told of a call whose result nobody has."""
    return f"{name} was interrupted before it gave a result"


def _pair(messages: Sequence[Message]) -> dict[int, _Call]:
    """The local calls of a conversation by the identity of their contents. A result goes to the last call before it."""
    calls: dict[int, _Call] = {}
    latest: dict[str, _Call] = {}
    for message in messages:
        for content in message.contents:
            if content.type == "function_call" and not (content.informational_only or content.hosted):
                call = calls[id(content)] = _Call(content)
                before = latest.get(content.call_id or "")
                if before is not None and not before.results and _is_same(before.content, content):
                    call.again = True
                else:
                    latest[content.call_id or ""] = call
            elif content.type == "function_result" and (content.call_id or "") in latest:
                latest[content.call_id or ""].results.append(content)
    return calls


def _is_same(one: Content, other: Content) -> bool:
    return one.name == other.name and arguments_text(one.arguments) == arguments_text(other.arguments)


def _is_hosted(content: Content) -> bool:
    """Whether an approval is the service's own: it is part of what the service is to be sent."""
    call = content.function_call
    return call is not None and bool(call.hosted or call.type != "function_call")


def _results(messages: Iterable[Message], results: Iterable[Content]) -> Iterator[Message]:
    """The messages that hold these results, without what else they hold."""
    wanted = {id(result) for result in results}
    for message in messages:
        found = [content for content in message.contents if id(content) in wanted]
        if found:
            yield _with_contents(message, found)


def _with_contents(message: Message, kept: list[Content]) -> Message:
    if len(kept) != len(message.contents):
        message = copy.copy(message)
        message.contents = kept
    return message


def _without_loose_reasoning(messages: list[Message]) -> list[Message]:
    """Services refuse reasoning that leads to nothing, e.g. of a call that is left out."""
    kept: list[Message] = []
    for message in reversed(messages):
        is_loose = message.role == "assistant" and all(content.type == "text_reasoning" for content in message.contents)
        if not is_loose or (kept and kept[-1].role == "assistant"):
            kept.append(message)
    return kept[::-1]
