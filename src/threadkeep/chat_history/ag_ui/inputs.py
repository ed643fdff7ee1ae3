"""Which messages of a run's input are new, and what that means for the calls that wait. Pure.

The history is the server's. From the client come user messages, and tool messages that answer stored calls; all else
that an input brings must be stored already, and what is stored is never taken from the client's copy.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.echoes import Fields, Reading, Stored
from threadkeep.chat_history.ag_ui.lenient import identifier_of, list_of, mapping_of, text_of
from threadkeep.chat_history.branches import NOTHING
from threadkeep.chat_history.constants import MessageStatus, Role
from threadkeep.chat_history.models import Message, ToolCall
from threadkeep.chat_history.unanswered import is_answered, is_stand_in


@dataclass(frozen=True, slots=True)
class InputRules:
    """How the messages of an input are read.

    Attributes:
        strict: only ids count. A message whose id is not stored must be a user message; a tool message that answers
            a stored call under a new id is refused too, so that frontend tools and approvals do not work.
        whole: whether the frontend always sends the whole conversation that it shows (then one that begins with a
            new message begins anew), or only what is new. None tells by what the input shows, which is a guess only
            where the input has nothing of what is stored.
    """

    strict: bool = False
    whole: bool | None = None


LENIENT = InputRules()


@dataclass(slots=True)
class Answer:
    """A tool message of the client for a stored call that has no result."""

    call: ToolCall
    fields: Fields


@dataclass(slots=True)
class Arrival:
    """What an input brings.

    `users` are the user messages to store, `answers` the results of waiting calls, `abandoned` the calls that were
    waiting when the user moved on or cancelled them. `refused` says why the input cannot be taken. `after` is the
    stored message that what is new comes after, where that is not the newest one: the user has edited an earlier
    message, asks for another answer to it, or goes on from an earlier run. It is the nil UUID where the conversation
    begins anew.
    """

    users: list[Fields] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    abandoned: list[ToolCall] = field(default_factory=list)
    refused: str | None = None
    after: UUID | None = None


def read_input(
    messages: Sequence[Fields],
    resume: Sequence[Fields],
    stored: Sequence[Message],
    rules: InputRules = LENIENT,
    parent_run_id: str | None = None,
) -> Arrival:
    """Compare the messages of an input with those that are stored.

    Clients resend all they have, or only what is new; some give every message a new id when they do.
    Where `parent_run_id` names a run of this chat, what is new comes after its last message, whatever else is shown:
    the client has said it, and need not be guessed at. A question that is asked again stays where it was asked.
    """
    arrival = Arrival()
    known = Stored(stored)
    is_asked_again = False
    if rules.strict:
        _read_strictly(messages, known, arrival)
    else:
        reading = known.read(messages)
        arrival.users = reading.new
        _read_results(messages, known, arrival)
        _refuse_the_rest(messages, known, arrival)
        brings_something = arrival.users or arrival.answers or resume or not messages
        is_asked_again = not brings_something and messages[-1].get("role") == Role.USER
        arrival.after = _after(messages, known, reading, rules, is_asked_again)
    parent_end = known.branches.end_of_run(parent_run_id)
    if parent_end is not None and not is_asked_again:
        arrival.after = _unless_newest(parent_end, known)
    moves_on = bool(arrival.users) or is_asked_again
    arrival.abandoned = list(_abandoned(arrival, resume, stored, moves_on))
    return arrival


def _read_strictly(messages: Sequence[Fields], known: Stored, arrival: Arrival) -> None:
    ids = known.every_id()
    for fields in messages:
        agui_id = identifier_of(fields.get("id"))
        if agui_id in ids or _is_blank(fields):
            continue
        if fields.get("role") == Role.USER:
            arrival.users.append(fields)
            if agui_id is not None:
                ids.add(agui_id)
        else:
            _refuse(arrival, f"The {fields.get('role')} message {agui_id!r} is new; only user messages may be")


def _read_results(messages: Sequence[Fields], known: Stored, arrival: Arrival) -> None:
    """Find the calls that tool messages answer.

    Providers use the ids of calls again in later turns. Where the input shows the calls too, a result belongs to the
    one before it, so those that are shown after it are counted off from the newest.
    """
    last_user = max((at for at, each in enumerate(messages) if each.get("role") == Role.USER), default=-1)
    shown_later: Counter[str] = Counter()
    answers: dict[int, Answer] = {}
    for at, fields in reversed([*enumerate(messages)]):
        shown_later.update(_ids_of_calls(fields))
        call_id = identifier_of(fields.get("toolCallId")) or ""
        if fields.get("role") != Role.TOOL:
            continue
        calls = known.calls.get(call_id, [])
        if not calls:
            if identifier_of(fields.get("id")) not in known.ids and at > last_user:
                # Further up it is an echo of a result that no call of the agent's stream was there for.
                _refuse(arrival, f"The tool message {fields.get('id')!r} answers no stored tool call")
        elif shown_later[call_id] < len(calls):
            call = calls[-1 - shown_later[call_id]]
            made_up = fields.get("id") == str(call.uuid) and is_stand_in(text_of(fields.get("content")), call.name)
            if not (is_answered(call) or made_up):
                # Of several results for one call the first counts, and this goes backwards.
                answers[id(call)] = Answer(call, fields)
    arrival.answers = [*reversed(answers.values())]


def _ids_of_calls(fields: Fields) -> Iterator[str]:
    if fields.get("role") == Role.ASSISTANT:
        for call in list_of(fields.get("toolCalls")):
            if agui_id := identifier_of(mapping_of(call).get("id")):
                yield agui_id


def _refuse_the_rest(messages: Sequence[Fields], known: Stored, arrival: Arrival) -> None:
    for fields in messages:
        role, agui_id = fields.get("role"), identifier_of(fields.get("id"))
        if role in (Role.USER, Role.TOOL, "activity") or _is_blank(fields):
            continue
        if agui_id not in known.ids and not known.places_of(fields):
            _refuse(arrival, f"The {role} message {agui_id!r} is new; only user messages may be")


def _refuse(arrival: Arrival, why: str) -> None:
    arrival.refused = arrival.refused or why


def _is_blank(fields: Fields) -> bool:
    """Whether a message left no row although the client has it, as an agent's message without a word does."""
    says_nothing = not text_of(fields.get("content")) and not list_of(fields.get("toolCalls"))
    return fields.get("role") in (Role.ASSISTANT, Role.REASONING) and says_nothing


def _after(
    messages: Sequence[Fields], known: Stored, reading: Reading, rules: InputRules, is_asked_again: bool
) -> UUID | None:
    branches = known.branches
    if reading.new and reading.last is None:
        anew = _asks_anew(messages, known) if rules.whole is None else rules.whole
        return NOTHING if anew and branches.stored else None
    if reading.last is None:
        return None
    place = reading.last_user if is_asked_again else branches.end_of_turn(reading.last)
    return None if place is None else _unless_newest(place, known)


def _unless_newest(place: int, known: Stored) -> UUID | None:
    branches = known.branches
    return None if place == branches.newest else branches.stored[place].message_uuid


def _asks_anew(messages: Sequence[Fields], known: Stored) -> bool:
    """Whether the only question of a chat comes once more, with something added: so it was edited.

    That a client which sends only what is new says such a thing next is unlikely, and then the question is whole.
    """
    asked = [fields for fields in messages if fields.get("role") == Role.USER]
    questions = [place for place in known.branches.leading_to(known.branches.newest) if known.branches.is_user(place)]
    if len(asked) != 1 or len(questions) != 1:
        return False
    before = known.branches.stored[questions[0]].content.strip()
    text = text_and_parts(asked[0].get("content"))[0].strip()
    added = text.removeprefix(before)
    return before not in ("", text) and added != text and not added[0].isalnum()


def _abandoned(
    arrival: Arrival, resume: Sequence[Fields], stored: Sequence[Message], moves_on: bool
) -> Iterator[ToolCall]:
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
            if waits and (moves_on or (call.agui_id is not None and call.agui_id in given_up)):
                yield call
