"""The beginning of a recorded run: the chat is found or made, what the client sent is stored, history is read."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.fold import Fold
from threadkeep.chat_history.ag_ui.identities import INPUT, Identities
from threadkeep.chat_history.ag_ui.inputs import LENIENT, Arrival, InputRules, read_input
from threadkeep.chat_history.ag_ui.leftovers import Leftover, interrupted, leftovers
from threadkeep.chat_history.ag_ui.lenient import error_of, identifier_of, mapping_of, plain, text_of
from threadkeep.chat_history.ag_ui.records import Call, Row, Text
from threadkeep.chat_history.ag_ui.reopening import Again, answered_before
from threadkeep.chat_history.ag_ui.snapshot import Known, Question
from threadkeep.chat_history.ag_ui.wire import message_fields
from threadkeep.chat_history.branches import leading_to
from threadkeep.chat_history.chat_names import name_of_chat
from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.dto import (
    ChatCreate,
    MessageCreate,
    MessageReasoningUpdate,
    MessageToolCallUpdate,
    MessageUpdate,
)
from threadkeep.chat_history.models import Chat, Message, Reasoning, ToolCall
from threadkeep.chat_history.protocols import ChatRepositoryLike, MessageRepositoryLike
from threadkeep.chat_history.unanswered import is_answered

_TICK = timedelta(microseconds=1)
Changes = dict[int, tuple[Leftover, dict[str, Any]]]


class InvalidInput(Exception):
    """The input has a new message that only the agent may bring. Nothing was stored."""


class LiveRuns:
    """The runs that are being recorded in this process, by chat. What another run left open is a leftover."""

    def __init__(self) -> None:
        self._runs: defaultdict[UUID, Counter[str]] = defaultdict(Counter)

    def of(self, chat_uuid: UUID) -> frozenset[str]:
        return frozenset(self._runs.get(chat_uuid, ()))

    def enter(self, chat_uuid: UUID, run_id: str) -> None:
        self._runs[chat_uuid][run_id] += 1

    def leave(self, chat_uuid: UUID, run_id: str) -> None:
        runs = self._runs[chat_uuid]
        runs[run_id] -= 1
        if runs[run_id] <= 0:
            del runs[run_id]
        if not runs:
            del self._runs[chat_uuid]


live_runs = LiveRuns()


@dataclass(slots=True)
class OpenedRun:
    """A run that may begin.

    `history` is what the agent is to see, `carried` are calls that wait since earlier runs, `follows` is the stored
    message that the agent answers, where that is not the newest one. `own` is what is stored of the run already, where
    it is opened again, and `take` tells it from an earlier run of the same id.
    """

    chat: Chat
    thread_id: str
    run_id: str
    history: list[Message]
    fold: Fold
    carried: dict[Row | Call, UUID]
    follows: UUID | None = None
    own: list[Message] = field(default_factory=list)
    take: str = ""


async def open_run(
    user_id: UUID,
    chat_repo: ChatRepositoryLike,
    message_repo: MessageRepositoryLike,
    run_input: Any,
    rules: InputRules = LENIENT,
    again: Again | None = None,
) -> OpenedRun:
    """Open a run: from here on it is live, until `live_runs.leave`.

    With `again`, it is one that was opened before, and everything is as it was then.
    Raises InvalidInput before anything is stored, and whatever the repositories raise.
    """
    messages = [message_fields(message) for message in run_input.messages]
    resume = [message_fields(entry) for entry in run_input.resume or ()]
    chat = await chat_repo.get_chat_by_thread_id(user_id, run_input.thread_id)
    stored = list(await message_repo.get_chat_messages(chat.chat_uuid)) if chat is not None else []
    is_used = any(message.run_id == run_input.run_id for message in stored)
    own: list[Message] = []
    if again is not None:
        own = [message for message in stored if message.run_id == run_input.run_id]
        stored = [message for message in stored if message.run_id != run_input.run_id]
    arrival = read_input(messages, resume, stored, rules, getattr(run_input, "parent_run_id", None))
    if arrival.refused is not None:
        raise InvalidInput(arrival.refused)
    if chat is None:
        try:
            name = name_of_chat(arrival.users)
            chat = await chat_repo.create_chat(ChatCreate(user_uuid=user_id, thread_id=run_input.thread_id, name=name))
        except ValueError as error:
            raise InvalidInput(str(error)) from error
    live = live_runs.of(chat.chat_uuid)
    is_new = again is not None or not (is_used or run_input.run_id in live)
    take = "" if is_new else uuid4().hex
    identities = Identities(chat.chat_uuid, run_input.run_id, take)
    changes = _changes(arrival, stored, live)
    now = max([datetime.now(UTC), *(message.timestamp + _TICK for message in stored[-1:])])
    users = [
        _user_message(fields, chat, run_input.run_id, now + place * _TICK, identities)
        for place, fields in enumerate(arrival.users)
    ]
    if users:
        users[0].follows = arrival.after
    created: list[Message] = []
    present = {message.message_uuid: message for message in own}
    if changes or any(user.message_uuid not in present for user in users):
        async with message_repo.transaction():
            for record, fields in changes.values():
                await _store_change(message_repo, record, fields)
            created = [present.get(user.message_uuid) or await message_repo.create_message(user) for user in users]
    else:
        created = [present[user.message_uuid] for user in users]
    # This run sees them whole, whatever the store could take of them.
    created = [
        message.model_copy(update={"content": user.content, "parts": user.parts})
        for message, user in zip(created, users, strict=True)
    ]
    earlier = _changed(stored, changes)
    history = [*earlier, *created]
    shown = [*leading_to(earlier, arrival.after), *created]
    carried = _carried(history if again is None else answered_before(history, messages, again))
    fold = Fold(
        now + len(users) * _TICK,
        client_tools=[text_of(message_fields(tool).get("name")) for tool in run_input.tools or ()],
        carried=[record for record in carried if isinstance(record, Call)],
        known=_known(stored, shown),
        state=getattr(run_input, "state", None),
    )
    live_runs.enter(chat.chat_uuid, run_input.run_id)
    follows = None if created else arrival.after
    return OpenedRun(chat, run_input.thread_id, run_input.run_id, shown, fold, carried, follows, own, take)


def _changes(arrival: Arrival, stored: Sequence[Message], live: frozenset[str]) -> Changes:
    """What the input, and the end of runs that died, change in stored records."""
    changes: Changes = {id(record): (record, interrupted(record)) for record in leftovers(stored, live)}
    for call in arrival.abandoned:
        changes[id(call)] = (call, {**interrupted(call), "awaiting": False})
    for answer in arrival.answers:
        content, parts = text_and_parts(answer.fields.get("content"))
        error = error_of(answer.fields.get("error"))
        result_id = identifier_of(answer.fields.get("id"))
        if result_id is None or (result_id == answer.call.agui_id and not content):
            # An empty result under the call's own id could not be told from none.
            result_id = str(answer.call.uuid)
        changes[id(answer.call)] = (
            answer.call,
            {
                "content": content,
                "parts": parts,
                "tool_call_id": result_id,
                "error": error,
                "status": MessageStatus.ERRORED if error else MessageStatus.COMPLETE,
                "in_progress": False,
                "awaiting": False,
            },
        )
    return changes


async def _store_change(repository: MessageRepositoryLike, record: Leftover, fields: dict[str, Any]) -> None:
    if isinstance(record, Message):
        await repository.update_message(record.message_uuid, MessageUpdate.model_validate(fields))
    elif isinstance(record, ToolCall):
        await repository.update_message_tool_call(record.uuid, MessageToolCallUpdate.model_validate(fields))
    elif isinstance(record, Reasoning):
        await repository.update_message_reasoning(record.uuid, MessageReasoningUpdate.model_validate(fields))


def _changed(stored: Sequence[Message], changes: Changes) -> list[Message]:
    """The messages as they are after the changes; those that the repository handed out stay as they were."""

    def after(record: Any) -> dict[str, Any]:
        return changes[id(record)][1] if id(record) in changes else {}

    messages: list[Message] = []
    for message in stored:
        parts = (message, *message.tool_calls, *message.reasonings)
        if any(id(part) in changes for part in parts):
            message = message.model_copy(
                update={
                    **after(message),
                    "tool_calls": [call.model_copy(update=after(call)) for call in message.tool_calls],
                    "reasonings": [step.model_copy(update=after(step)) for step in message.reasonings],
                }
            )
        messages.append(message)
    return messages


def _user_message(
    fields: Mapping[str, Any], chat: Chat, run_id: str, at: datetime, identities: Identities
) -> MessageCreate:
    content, parts = text_and_parts(fields.get("content"))
    agui_id = identifier_of(fields.get("id"))
    return MessageCreate(
        chat_uuid=chat.chat_uuid,
        message_uuid=identities.next(INPUT, agui_id),
        agui_id=agui_id,
        role=Role.USER,
        name=identifier_of(fields.get("name")) or "",
        content=content,
        parts=parts,
        in_progress=False,
        status=MessageStatus.COMPLETE,
        timestamp=at,
        run_id=run_id,
        encrypted_value=identifier_of(fields.get("encryptedValue")),
        metadata=plain(mapping_of(fields.get("metadata"))) or None,
    )


def _carried(history: Sequence[Message]) -> dict[Row | Call, UUID]:
    """The calls of earlier runs without a result, with their rows, in the form that the fold works on.

    Most will never get one, but an agent may answer in a later run what it was interrupted in.
    """
    carried: dict[Row | Call, UUID] = {}
    for message in history:
        waiting = [call for call in message.tool_calls if not is_answered(call)]
        if not waiting:
            continue
        row = Row(message.agui_id, Role.ASSISTANT, message.timestamp, content=Text(message.content))
        row.name, row.interrupts, row.encrypted_value = message.name, message.interrupts, message.encrypted_value
        row.step, row.metadata, row.subagent_run_id = message.step, message.metadata, message.subagent_run_id
        row.outcome, row.result, row.usage = message.outcome, message.result, message.usage
        row.status, row.error, row.spoken, row.kept = message.status, message.error, True, True
        carried[row] = message.message_uuid
        for stored in waiting:
            call = Call(stored.agui_id, stored.name, stored.created_at, row, arguments=Text(stored.arguments))
            call.encrypted_value, call.sealed, call.awaiting = stored.encrypted_value, True, stored.awaiting
            call.status, call.error = stored.status, stored.error
            call.subagent_run_id, call.metadata = stored.subagent_run_id, stored.metadata
            row.calls.append(call)
            carried[call] = stored.uuid
    return carried


def _known(stored: Sequence[Message], shown: Sequence[Message]) -> Known:
    users = [place for place, message in enumerate(shown) if message.role == Role.USER]
    if not users:
        return Known(*_ids_and_texts(stored))
    message = shown[users[-1]]
    ids = frozenset(filter(None, (message.agui_id, str(message.message_uuid))))
    # Another answer to it that was stored before is an echo too.
    begin = next(
        (place for place, each in enumerate(stored, 1) if each.message_uuid == message.message_uuid), len(stored)
    )
    since = Known(*_ids_and_texts(stored[begin:]))
    return Known(*_ids_and_texts(stored), Question(ids, message.content, len(users)), since)


def _ids_and_texts(messages: Sequence[Message]) -> tuple[frozenset[str], frozenset[str]]:
    ids: set[str] = set()
    texts: set[str] = set()
    for message in messages:
        if message.role != Role.USER:
            ids.update(filter(None, (message.agui_id, str(message.message_uuid))))
            texts.add(message.content)
        for step in message.reasonings:
            ids.update(filter(None, (step.agui_id, str(step.uuid))))
            texts.add(step.content)
    return frozenset(ids), frozenset(texts - {""})
