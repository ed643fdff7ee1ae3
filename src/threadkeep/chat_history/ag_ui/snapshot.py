"""Merging a MESSAGES_SNAPSHOT into the rows of a run: it fills gaps and adds what is new, and takes nothing away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history.ag_ui.activities import Activities
from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.lenient import error_of, identifier_of, list_of, mapping_of, plain, text_of
from threadkeep.chat_history.ag_ui.records import Call, Reasoning, Row, merged
from threadkeep.chat_history.ag_ui.turn import Turn
from threadkeep.chat_history.constants import Role
from threadkeep.chat_history.unanswered import is_stand_in


@dataclass(frozen=True, slots=True)
class Known:
    """What was stored of the thread before this run: ids of everything, texts of assistant messages and reasonings.

    `question` is the last user message that the agent was given: its ids, its text, and how many it was given with
    it; `since` is what of all this was stored behind that message.
    """

    ids: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    question: "Question | None" = None
    since: "Known | None" = None

    def behind(self, users: Sequence[Mapping[str, Any]]) -> "Known":
        """What may come again behind these user messages of a snapshot.

        Agents use ids again and say the same words twice, so where the snapshot goes up to the present question, only
        what was stored behind that is an echo.
        """
        if self.question is None or self.since is None or not users:
            return self
        last = users[-1]
        is_it = identifier_of(last.get("id")) in self.question.ids
        says_it = len(users) == self.question.number and text_and_parts(last.get("content"))[0] == self.question.text
        return self.since if is_it or says_it else self


@dataclass(frozen=True, slots=True)
class Question:
    """A user message as an agent may give it back; it is the `number`-th that the agent was given."""

    ids: frozenset[str]
    text: str
    number: int


NOTHING_KNOWN = Known()


def merge(turn: Turn, messages: Sequence[Any], known: Known, activities: Activities) -> None:
    """Merge a snapshot.

    A snapshot is the whole conversation, so only what stands behind its last user message is of this run. There an
    assistant message is matched by id, then by its calls, then by its text, since agents give messages new ids
    when they store them; what matches nothing and was not stored before is a new row.
    """
    entries = [entry for entry in messages if isinstance(entry, Mapping)]
    users = [at for at, entry in enumerate(entries) if entry.get("role") == "user"]
    begin = users[-1] + 1 if users else 0
    known = known.behind([entries[at] for at in users])
    for position, entry in enumerate(entries):
        role = entry.get("role")
        if role == "tool":
            _merge_result(turn, entry)
        elif position < begin:
            continue
        elif role == "assistant":
            _merge_assistant(turn, entry, known)
        elif role == "reasoning":
            _merge_reasoning(turn, entry, known)
        elif role == "activity":
            _merge_activity(turn, activities, entry, known)


def _merge_assistant(turn: Turn, entry: Mapping[str, Any], known: Known) -> None:
    agui_id = identifier_of(entry.get("id"))
    content = text_of(entry.get("content"))
    calls = [mapping_of(call) for call in list_of(entry.get("toolCalls"))]
    row = turn.row_of(agui_id) or _row_by_calls(turn, calls) or _row_by_text(turn, content)
    if row is None:
        if agui_id in known.ids or (content and content in known.texts) or not (content or calls):
            return
        name, owner = identifier_of(entry.get("name")), identifier_of(entry.get("subagentRunId"))
        row = turn.begin_text(agui_id, Role.ASSISTANT, name, owner)
        turn.end_text(row)
    elif agui_id is not None:
        turn.alias(agui_id, row)
    if content and _may_fill(turn, row, content):
        turn.say(row, content[row.content.length :])
    for fields in calls:
        _merge_call(turn, row, fields)
    encrypted = identifier_of(entry.get("encryptedValue"))
    if encrypted is not None and row.encrypted_value is None:
        row.encrypted_value = encrypted
        turn.touch(row)
    _fill_metadata(turn, row, entry)


def _merge_call(turn: Turn, row: Row, fields: Mapping[str, Any]) -> None:
    agui_id = identifier_of(fields.get("id"))
    function = mapping_of(fields.get("function"))
    call = turn.call_of(agui_id)
    if call is None:
        call = turn.begin_call(agui_id, text_of(function.get("name")), row.agui_id)
    if not call.arguments:
        turn.argue(call, text_of(function.get("arguments")))
    encrypted = identifier_of(fields.get("encryptedValue"))
    if encrypted is not None and call.encrypted_value is None:
        call.encrypted_value = encrypted
        turn.touch(call.row)
    _fill_metadata(turn, call, fields)


def _merge_result(turn: Turn, entry: Mapping[str, Any]) -> None:
    call = turn.call_of(identifier_of(entry.get("toolCallId")))
    if call is None:
        return
    _fill_metadata(turn, call, entry)
    if call.answered:
        return
    content, parts = text_and_parts(entry.get("content"))
    if call.sealed and is_stand_in(content, call.name):
        # The agent was given it in place of a result, and shows it as one.
        return
    turn.answer(call, content, identifier_of(entry.get("id")), error_of(entry.get("error")), parts)


def _merge_reasoning(turn: Turn, entry: Mapping[str, Any], known: Known) -> None:
    agui_id = identifier_of(entry.get("id"))
    content = text_of(entry.get("content"))
    encrypted = identifier_of(entry.get("encryptedValue"))
    present = [each for row in turn.rows for each in row.reasonings] + turn.pending
    if agui_id in known.ids or content in known.texts or not (content or encrypted):
        return
    for each in present:
        if each.agui_id == agui_id or (content and str(each.content) == content):
            _fill_metadata(turn, each, entry)
            return
    reasoning = turn.begin_reasoning(agui_id, None)
    reasoning.encrypted_value = encrypted
    turn.keep_reasoning(reasoning)
    turn.think(reasoning, content)
    turn.end_reasoning(reasoning)
    _fill_metadata(turn, reasoning, entry)


def _merge_activity(turn: Turn, activities: Activities, entry: Mapping[str, Any], known: Known) -> None:
    agui_id, kind = identifier_of(entry.get("id")), text_of(entry.get("activityType"))
    if agui_id not in known.ids:
        owner = identifier_of(entry.get("subagentRunId"))
        row = activities.show(agui_id, kind, entry.get("content"), replace=False, owner=owner)
        _fill_metadata(turn, row, entry)


def _fill_metadata(turn: Turn, record: Row | Call | Reasoning, entry: Mapping[str, Any]) -> None:
    """Add what a snapshot says beside the stream; where both speak of a key, the stream's word counts."""
    if metadata := mapping_of(entry.get("metadata")):
        record.metadata = merged(plain(metadata), record.metadata or {})
        turn.touch_row_of(record)


def _row_by_calls(turn: Turn, calls: Sequence[Mapping[str, Any]]) -> Row | None:
    for fields in calls:
        call = turn.call_of(identifier_of(fields.get("id")))
        if call is not None:
            return call.row
    return None


def _row_by_text(turn: Turn, content: str) -> Row | None:
    if not content:
        return None
    for row in turn.rows:
        if row.role is Role.ASSISTANT and row.content.length == len(content) and str(row.content) == content:
            return row
    return None


def _may_fill(turn: Turn, row: Row, content: str) -> bool:
    """Whether the snapshot only goes on where the row ends. Where one id stands for several rows, their texts stay."""
    if sum(each.agui_id == row.agui_id for each in turn.rows) > 1:
        return False
    return row.content.length < len(content) and content.startswith(str(row.content))
