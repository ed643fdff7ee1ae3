"""What one run says, until it is stored: each service call's inputs that the chat does not have yet, and its response.

The function loop hands every service call the whole conversation so far, so marks decide what is new. What was sent is
worth keeping once the service has begun to answer, a response once it is whole, or as far as its reader stayed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from agent_framework import Content, Message

from threadkeep.chat_history import MessageStatus, Role
from threadkeep.integrations.agent_framework.contents import (
    APPROVALS,
    answer,
    new_row,
    pending_form,
    plain,
    result_text,
)
from threadkeep.integrations.agent_framework.marks import (
    calls_of,
    is_stand_in,
    is_stored,
    mark_stored,
    message_uuid_of,
)
from threadkeep.integrations.agent_framework.overlap import new_messages, same_message
from threadkeep.integrations.agent_framework.rows import (
    FrameworkMessageCreate,
    FrameworkMessageUpdate,
    FrameworkToolCallUpdate,
    NewRow,
    RowChange,
    Write,
)


@dataclass(slots=True)
class Exchange:
    """One service call, as what is to be stored of it."""

    inputs: list[Write] = field(default_factory=list)
    outputs: list[Write] = field(default_factory=list)
    said: list[Message] = field(default_factory=list)


class RunRecord:
    """The record of one run in one chat.

    Args:
        chat: the key of the chat, as marks have it.
        stamp: gives the time of a new row.
        author: what the agent is called.
    """

    def __init__(self, chat: str, stamp: Callable[[], datetime], author: str = "") -> None:
        self.run_id = str(uuid4())
        self.exchanges: list[Exchange] = []
        self._chat = chat
        self._stamp = stamp
        self._author = author
        self._calls: dict[str, UUID] = {}
        self._rows_of_calls: dict[str, UUID] = {}
        self._answered: set[UUID] = set()
        self._said: list[Message] = []
        self._began = False

    def new_inputs(self, messages: Sequence[Message], is_input: Callable[[Message], bool]) -> list[Message]:
        """The messages of a service call that the chat does not have yet.

        Args:
            messages: all that the call is sent.
            is_input: whether an unmarked message is part of the conversation, not a provider's context.
        """
        self._learn(messages)
        for message in messages:
            # Whoever stands further out may have put a response together a second time.
            if self._began and message.role == "assistant":
                self._recognise(message)
        candidates = [message for message in messages if not is_stored(message, self._chat) and is_input(message)]
        if self._began:
            return candidates
        history = [message for message in messages if is_stored(message, self._chat)]
        return new_messages(history, candidates, self._chat)

    def add(
        self,
        inputs: Iterable[Message],
        outputs: Iterable[Message],
        status: MessageStatus = MessageStatus.COMPLETE,
    ) -> Exchange:
        """Note a service call, and mark its messages.

        Args:
            inputs: what was sent and is new.
            outputs: the response.
            status: how the response ended.
        """
        self._began = True
        exchange = Exchange()
        # Another middleware, further in, may have stored some of it meanwhile.
        for message in inputs:
            if not is_stored(message, self._chat):
                exchange.inputs += self._writes(message, MessageStatus.COMPLETE)
        for message in outputs:
            if not is_stored(message, self._chat):
                exchange.outputs += self._writes(message, status)
                exchange.said.append(message)
        if exchange.inputs or exchange.outputs:
            self.exchanges.append(exchange)
        return exchange

    def take(self, *, with_last_response: bool = True) -> list[Write]:
        """All that is to be stored, taken out of the record."""
        exchanges, self.exchanges = self.exchanges, []
        if exchanges and not with_last_response:
            exchanges[-1].outputs = []
        return [write for exchange in exchanges for write in (*exchange.inputs, *exchange.outputs)]

    def replace_answer(self, messages: Sequence[Message]) -> None:
        """Where a filter gave the caller another answer than the one that is still held back, that is what was said."""
        if not self.exchanges or not self.exchanges[-1].said:
            return
        held = self.exchanges[-1]
        if any(same_message(said, message) for said in held.said for message in messages):
            return
        given = [message for message in messages if message.role == "assistant" and not self._has_said(message)]
        held.outputs = [write for message in given for write in self._writes(message, MessageStatus.COMPLETE)]

    def delivered(self, messages: Sequence[Message]) -> list[Write]:
        """Mark what the caller is given, and note which calls wait for somebody's answer.

        A streamed response is put together a second time for the caller, so its messages have no marks yet.
        """
        changes: list[Write] = []
        for message in messages:
            changes += self._waiting(message)
            self._recognise(message)
        return changes

    def _recognise(self, message: Message) -> None:
        """Mark a message that says what was said in this run."""
        if is_stored(message, self._chat):
            return
        calls = {content.call_id or "" for content in message.contents if content.type == "function_call"}
        results = [content.call_id or "" for content in message.contents if content.type == "function_result"]
        said = self._has_said(message)
        if said is not None:
            message.additional_properties.update(said.additional_properties)
        elif calls and calls <= self._rows_of_calls.keys():
            uuid = self._rows_of_calls[next(iter(calls))]
            mark_stored(message, self._chat, uuid, {call: self._calls[call] for call in calls})
        elif results and all(self._calls.get(call) in self._answered for call in results):
            mark_stored(message, self._chat, None, {})

    def _has_said(self, message: Message) -> Message | None:
        return next((each for each in self._said if same_message(each, message)), None)

    def _learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if not is_stored(message, self._chat):
                continue
            calls, row = calls_of(message, self._chat), message_uuid_of(message, self._chat)
            self._calls.update(calls)
            if row is not None:
                self._rows_of_calls.update(dict.fromkeys(calls, row))
            if is_stand_in(message):
                continue
            for content in message.contents:
                if content.type == "function_result" and content.call_id in self._calls:
                    self._answered.add(self._calls[content.call_id])

    def _writes(self, message: Message, status: MessageStatus) -> list[Write]:
        at = self._stamp()
        writes: list[Write] = []
        for content in message.contents:
            if content.type == "function_result":
                writes += self._result(message, content, at)
        row = new_row(message, at, author=self._author, run_id=self.run_id, status=status)
        if row is not None:
            calls = {call.agui_id or str(call.uuid): call.uuid for call in row.calls}
            self._calls.update(calls)
            self._rows_of_calls.update(dict.fromkeys(calls, row.message.message_uuid))
            mark_stored(message, self._chat, row.message.message_uuid, calls)
            self._said.append(message)
            writes.append(row)
        else:
            mark_stored(message, self._chat, None, {})
        return writes

    def _result(self, message: Message, result: Content, at: datetime) -> list[Write]:
        call_id = result.call_id or ""
        uuid = self._calls.get(call_id)
        if uuid is not None:
            if uuid in self._answered:
                return []
            self._answered.add(uuid)
            return [RowChange(uuid, answer(result, uuid, message.message_id))]
        # A result of a call that the chat has never seen: a row of its own is better than its loss.
        row = FrameworkMessageCreate(
            agui_id=call_id or None,
            role=Role.TOOL,
            content=result_text(result),
            in_progress=False,
            status=MessageStatus.COMPLETE,
            timestamp=at,
            run_id=self.run_id,
            agent_framework=plain(Message("tool", [result])),
        )
        return [NewRow(row)]

    def _waiting(self, message: Message) -> list[Write]:
        changes: list[Write] = []
        requests: list[str] = []
        for content in message.contents:
            call = content.function_call if content.type == APPROVALS[0] else content
            if call is None or call.type != "function_call" or not content.user_input_request:
                continue
            uuid = self._calls.get(call.call_id or "")
            if uuid is not None and uuid not in self._answered:
                changes.append(RowChange(uuid, FrameworkToolCallUpdate(awaiting=True)))
                requests.append(call.call_id or "")
        # A request in a message of its own has a row of its own.
        made = {content.call_id for content in message.contents if content.type == "function_call"}
        rows = {self._rows_of_calls[each] for each in requests if each in made and each in self._rows_of_calls}
        if rows:
            update = FrameworkMessageUpdate(agent_framework=pending_form(message))
            changes += [RowChange(row, update) for row in rows]
        return changes
