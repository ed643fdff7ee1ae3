"""A replayed history that model providers accept. Pure: messages in, messages out, nothing stored is touched.

Providers refuse a whole conversation for one call that has no result, one blank text, or one reasoning that they
cannot verify. What is in order comes out as the same objects.
"""

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from ag_ui.core import ToolCall as AGUIToolCall
from pydantic import BaseModel

from threadkeep.chat_history.ag_ui.lenient import mapping_of
from threadkeep.chat_history.ag_ui.replayed import CLASS_OF_ROLE, ExtendedBaseMessage
from threadkeep.chat_history.argument_json import as_json_object
from threadkeep.chat_history.constants import Role
from threadkeep.chat_history.unanswered import completed, stand_in

BLANK_QUESTION = "(empty message)"
"""What is said for a user who said nothing: the turn must stay, and no provider takes a blank one."""
_NO_NAME = "unknown"

M = TypeVar("M", bound=BaseModel)


def repair_messages(
    messages: Sequence[ExtendedBaseMessage], *, alternate: bool = False, keep_unsigned: bool = False
) -> list[ExtendedBaseMessage]:
    """A history in the form that model providers accept.

    Each call of an assistant message is followed by its result, once and in the order of the calls; results of no
    call and second results are left out, and a call without one is answered by a neutral text. Arguments become a JSON
    object. Blank messages are left out, except that a user's says so. A reasoning comes right before the message
    that it led to; without one, without content, or without the signature by which providers verify it, it is left
    out. Ids of calls and messages that are used twice become unique; of calls, the last one keeps its own.
    A history that a translation of your own has made of anything else than AG-UI messages passes as it is.

    Args:
        messages: what `translate_messages` returned.
        alternate: also join messages of one role that follow each other, for the models that insist on turns.
        keep_unsigned: keep reasonings without a signature, for the models that want them back in plain text.
    """
    if not all(isinstance(message, BaseModel) for message in messages):
        return [*messages]
    blocks = _blocks(messages, keep_unsigned)
    _give_results(messages, blocks)
    if alternate:
        blocks = _joined(blocks)
    _make_calls_unique(blocks)
    return list(_unique_ids(message for block in blocks for message in block.messages()))


@dataclass(slots=True)
class _Block:
    """A message, with what must stand around it: its reasonings before it, the results of its calls behind it.

    `at` is its place in the history that came; that of a reasoning orders the reasonings.
    """

    at: int
    message: ExtendedBaseMessage
    reasonings: list[tuple[int, ExtendedBaseMessage]] = field(default_factory=list)
    results: list[ExtendedBaseMessage | None] = field(default_factory=list)

    @property
    def calls(self) -> list[AGUIToolCall]:
        return _get(self.message, "tool_calls") or []

    def messages(self) -> Iterator[ExtendedBaseMessage]:
        yield from (reasoning for _, reasoning in sorted(self.reasonings, key=lambda pair: pair[0]))
        yield self.message
        for call, result in zip(self.calls, self.results, strict=True):
            yield _result(call, result)


_Slot = tuple[_Block, int]


# Messages and their reasonings


def _blocks(messages: Sequence[ExtendedBaseMessage], keep_unsigned: bool) -> list[_Block]:
    """What is said, without the results, which are given out later."""
    blocks: list[_Block] = []
    for at, message in enumerate(messages):
        speech = None if message.role in (Role.TOOL, Role.REASONING) else _speech(message)
        if speech is not None:
            blocks.append(_Block(at, speech, [], [None] * len(_get(speech, "tool_calls") or ())))
    places = [block.at for block in blocks]
    of_record = {_get(block.message, "uuid"): block for block in blocks if block.message.role == Role.ASSISTANT}
    for at, message in enumerate(messages):
        if message.role != Role.REASONING or not _is_accepted(message, keep_unsigned):
            continue
        owner, next_spoken = _get(message, "belongs_to"), bisect_right(places, at)
        block = None if owner is None else of_record.get(owner)
        if block is None and next_spoken < len(blocks) and blocks[next_spoken].message.role == Role.ASSISTANT:
            block = blocks[next_spoken]
        if block is not None:
            block.reasonings.append((at, _with(message, tool_calls=None)))
    return blocks


def _is_accepted(reasoning: ExtendedBaseMessage, keep_unsigned: bool) -> bool:
    is_signed = bool(_get(reasoning, "encrypted_value"))
    return is_signed or (keep_unsigned and not _is_blank(_get(reasoning, "content")))


def _speech(message: ExtendedBaseMessage) -> ExtendedBaseMessage | None:
    """The message as it can be sent; None where there is nothing in it."""
    content, calls = _get(message, "content"), _get(message, "tool_calls")
    if message.role == Role.ASSISTANT and calls:
        return _with(message, tool_calls=_calls(calls), content=None if _is_blank(content) else content)
    content = _without_blanks(content)
    if _is_blank(content):
        if message.role != Role.USER:
            return None
        content = BLANK_QUESTION
    return _with(message, content=content, tool_calls=None)


def _without_blanks(content: Any) -> Any:
    """The parts that say something; other content as it is."""
    if not isinstance(content, list | tuple):
        return content
    kept = [part for part in content if not _is_blank_part(part)]
    return content if len(kept) == len(content) else kept


def _is_blank(content: Any) -> bool:
    return not content or (isinstance(content, str) and not content.strip())


def _is_blank_part(part: Any) -> bool:
    fields = part.__dict__ if isinstance(part, BaseModel) else mapping_of(part)
    return fields.get("type") == "text" and _is_blank(fields.get("text"))


# Calls and their results


def _calls(calls: Sequence[AGUIToolCall]) -> list[AGUIToolCall]:
    """The calls of one message with a name and with arguments that are a JSON object; a repeated one counts once."""
    kept: list[AGUIToolCall] = []
    for call in calls:
        function = _with(
            call.function,
            name=call.function.name if call.function.name.strip() else _NO_NAME,
            arguments=as_json_object(call.function.arguments),
        )
        call = _with(call, function=function)
        if not any(call.id == other.id and function == other.function for other in kept):
            kept.append(call)
    return kept


def _give_results(messages: Sequence[ExtendedBaseMessage], blocks: Sequence[_Block]) -> None:
    """Give each result to its call: to the nearest one before it that has none, as providers use ids again.

    A result that no call of its id comes before belongs to the next one after it.
    """
    at_place = {block.at: block for block in blocks}
    before: defaultdict[str, list[deque[_Slot]]] = defaultdict(list)
    early: list[ExtendedBaseMessage] = []
    for at, message in enumerate(messages):
        if message.role == Role.TOOL:
            call_id = _get(message, "tool_call_id")
            _put(message, before[call_id]) if call_id in before else early.append(message)
        elif block := at_place.get(at):
            for agui_id, slots in _slots(block).items():
                before[agui_id].append(slots)
    after = {agui_id: deque(slot for slots in stack for slot in slots) for agui_id, stack in before.items()}
    for message in early:
        _put(message, [after.get(_get(message, "tool_call_id"), deque())])


def _slots(block: _Block) -> dict[str, deque[_Slot]]:
    """The calls of a block that wait for a result, by id."""
    slots: defaultdict[str, deque[_Slot]] = defaultdict(deque)
    for number, call in enumerate(block.calls):
        slots[call.id].append((block, number))
    return slots


def _put(message: ExtendedBaseMessage, stack: list[deque[_Slot]]) -> None:
    """Give a result to the first open call of the latest message that has one; else it is a second one."""
    while stack and not stack[-1]:
        stack.pop()
    if stack:
        block, number = stack[-1].popleft()
        block.results[number] = message


def _result(call: AGUIToolCall, result: ExtendedBaseMessage | None) -> ExtendedBaseMessage:
    name = call.function.name
    if result is None:
        return CLASS_OF_ROLE[Role.TOOL](
            id=f"{call.id}-result",
            role=Role.TOOL.value,
            content=stand_in(name, None),
            tool_call_id=call.id,
            is_stand_in=True,
        )
    content, status = _without_blanks(_get(result, "content")), _get(result, "status")
    if _get(result, "is_stand_in") and status is not None:
        content = stand_in(name, status)
    elif _is_blank(content):
        content = completed(name)
    return _with(result, content=content, tool_call_id=call.id, tool_calls=None)


# Ids


def _make_calls_unique(blocks: Sequence[_Block]) -> None:
    """Give every call an id of its own. The last one of an id keeps it: it may still be waiting for its result."""
    left = Counter(call.id for block in blocks for call in block.calls)
    ids = _Ids(left)
    for block in blocks:
        calls = [*block.calls]
        for number, call in enumerate(calls):
            left[call.id] -= 1
            if left[call.id] or not call.id:
                calls[number] = _with(call, id=ids.new(call.id or "call"))
        if calls:
            block.message = _with(block.message, tool_calls=calls)


def _unique_ids(messages: Iterable[ExtendedBaseMessage]) -> Iterator[ExtendedBaseMessage]:
    """The messages, each with an id of its own: whoever keeps messages by their ids would lose one otherwise."""
    messages = [*messages]
    ids = _Ids(message.id for message in messages)
    seen: set[str] = set()
    for message in messages:
        if not message.id or message.id in seen:
            message = _with(message, id=ids.new(message.id or "message", _get(message, "uuid")))
        seen.add(message.id)
        yield message


class _Ids:
    """Ids that are not taken yet."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._used: Counter[str] = Counter()

    def new(self, agui_id: str, uuid: UUID | None = None) -> str:
        """The record's own id, else a numbered one."""
        new = str(uuid or agui_id)
        while new in self._taken:
            self._used[agui_id] += 1
            new = f"{agui_id}-{self._used[agui_id]}"
        self._taken.add(new)
        return new


# Turns


def _joined(blocks: Sequence[_Block]) -> list[_Block]:
    """Blocks whose roles alternate: what one says in two messages becomes the later one of them."""
    joined: list[_Block] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if before is None or before.message.role != block.message.role or before.calls:
            joined.append(block)
            continue
        content = _both(_get(before.message, "content"), _get(block.message, "content"))
        block.message = _with(block.message, content=content)
        block.reasonings = before.reasonings + block.reasonings
        joined[-1] = block
    return joined


def _both(first: Any, second: Any) -> Any:
    if _is_blank(second):
        return first
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def _with(model: M, **fields: Any) -> M:
    """The same object where nothing differs, else a copy."""
    changes = {name: value for name, value in fields.items() if _get(model, name) != value}
    return model.model_copy(update=changes) if changes else model


def _get(model: object, name: str) -> Any:
    """A field, where the model has it: a history may be made of the protocol's own classes, which have fewer."""
    return getattr(model, name, None)
