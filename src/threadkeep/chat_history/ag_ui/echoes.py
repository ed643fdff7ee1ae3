"""Which messages of an input are stored already, by their ids, their calls, their words and their place. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from threadkeep.chat_history.ag_ui.content import text_and_parts
from threadkeep.chat_history.ag_ui.lenient import identifier_of, list_of, mapping_of
from threadkeep.chat_history.branches import Branches
from threadkeep.chat_history.constants import Role
from threadkeep.chat_history.models import Message, ToolCall

Fields = Mapping[str, Any]
Places = Sequence[int]
_FEW = 8
"""How many stored messages are looked at for one of the input, where one id or text stands for many."""


@dataclass(slots=True)
class Reading:
    """An input as it was read: the user messages that are new, and which stored message the known ones lead up to.

    `last` is the place of the newest stored message that the input has, None where it has none; `last_user` that of
    the last user message of the input, where it is stored.
    """

    new: list[Fields] = field(default_factory=list)
    last: int | None = None
    last_user: int | None = None


class Stored:
    """What is stored of a chat, the way an input refers to it."""

    def __init__(self, stored: Sequence[Message]) -> None:
        self.branches = Branches(stored)
        self.ids: set[str] = set()
        self.calls: defaultdict[str, list[ToolCall]] = defaultdict(list)
        self._messages = stored
        self._users: defaultdict[str, list[int]] = defaultdict(list)
        self._others: defaultdict[str, list[int]] = defaultdict(list)
        self._of_call: defaultdict[str, list[int]] = defaultdict(list)
        for place, message in enumerate(stored):
            by_id = self._users if message.role == Role.USER else self._others
            for each in _ids(message):
                by_id[each].append(place)
            if message.role != Role.USER:
                self.ids.update(_ids(message))
            for call in message.tool_calls:
                self.ids.update(filter(None, (call.tool_call_id, str(call.uuid))))
                for each in filter(None, (call.agui_id, str(call.uuid))):
                    self.calls[each].append(call)
                    self._of_call[each].append(place)
            for step in message.reasonings:
                self.ids.update(filter(None, (step.agui_id, str(step.uuid))))

    def every_id(self) -> set[str]:
        """All ids of messages, calls, results and reasonings."""
        return {*self.ids, *self._users, *self.calls}

    def places_of(self, fields: Fields) -> Places:
        """Where a message that is no user's is stored: by its id, else by its calls, else by its very words."""
        role = fields.get("role")
        if role in (Role.USER, Role.TOOL):
            return ()
        agui_id, text = identifier_of(fields.get("id")) or "", _words(text_and_parts(fields.get("content"))[0])
        if found := self._others.get(agui_id):
            # Agents use ids again, for another answer to the same question too.
            return found if len(found) == 1 else self._texts_of_id.get((agui_id, text), found)
        calls = [identifier_of(mapping_of(call).get("id")) for call in list_of(fields.get("toolCalls"))]
        if calls:
            return next((self._of_call[call] for call in calls if call and call in self._of_call), ())
        return self._texts.get((role, text), ()) if text and isinstance(role, str) else ()

    def read(self, messages: Sequence[Fields]) -> Reading:
        """Walk along an input and along the stored branches that it shows.

        A user message is stored already where its id is and it says the same; where its id is and something known
        comes after it, since a client may lose some of what it shows; and where a message with the same words stands
        in the very place to which the known messages around it lead. Any other is new: the same words in another
        place are said again, and other words in the place of a stored message are an edit of it.
        """
        reading = Reading()
        twice: defaultdict[str | None, list[Fields]] = defaultdict(list)
        anchors = [self.places_of(fields) for fields in messages]
        known = [place for place, fields in enumerate(messages) if anchors[place] or self._users_by_id(fields)]
        last_known = known[-1] if known else -1
        last_anchor = max((at for at, places in enumerate(anchors) if places), default=-1)
        for at, fields in enumerate(messages):
            if fields.get("role") != Role.USER:
                if anchors[at]:
                    reading.last = _onwards(anchors[at], reading.last)
                continue
            place = self._by_id(fields, reading.last, at < last_known)
            if place is None and not self._users_by_id(fields):
                answers = _answers(messages, anchors, at)
                place = self._by_place(fields, reading, at < last_anchor, answers)
            reading.last_user = place
            if place is not None:
                reading.last = max(place, -1 if reading.last is None else reading.last)
            elif not _is_same_again(fields, sent := twice[identifier_of(fields.get("id"))]):
                sent.append(fields)
                reading.new.append(fields)
        return reading

    @cached_property
    def _texts(self) -> dict[tuple[str, str], list[int]]:
        texts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for place, message in enumerate(self._messages):
            texts[message.role, _words(message.content)].append(place)
            for step in message.reasonings:
                texts[Role.REASONING, _words(step.content)].append(place)
        return texts

    @cached_property
    def _texts_of_id(self) -> dict[tuple[str, str], list[int]]:
        texts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for place, message in enumerate(self._messages):
            for each in _ids(message):
                texts[each, _words(message.content)].append(place)
        return texts

    def _users_by_id(self, fields: Fields) -> Places:
        return self._users.get(identifier_of(fields.get("id")) or "", ()) if fields.get("role") == Role.USER else ()

    def _by_id(self, fields: Fields, last: int | None, is_before_known: bool) -> int | None:
        found = self._users_by_id(fields)
        if len(found) > _FEW:
            # A client that counts from one again in every session.
            words = _words(text_and_parts(fields.get("content"))[0])
            found = self._texts_of_id.get((identifier_of(fields.get("id")) or "", words), found[-_FEW:])
        looked_at = found if len(found) <= _FEW else _around(found, last)
        same = [place for place in looked_at if _says(self._messages[place], fields)]
        if same or (found and is_before_known):
            return _next(same or found, last)
        return None

    def _by_place(self, fields: Fields, reading: Reading, is_before_anchor: bool, answers: Places) -> int | None:
        """Where a user message with an unknown id is stored, if it is."""
        last = -1 if reading.last is None else reading.last
        follows: Places = ()
        if not reading.new and (reading.last is not None or is_before_anchor):
            follows = [place for place in self.branches.said_next(last) if _says(self._messages[place], fields)]
        if follows:
            return follows[-1]
        nearest = _around(answers, last)
        questions = (self.branches.question_of(place) for place in nearest)
        return min(
            (place for place in questions if place > last and _says(self._messages[place], fields)), default=None
        )


def _ids(message: Message) -> list[str]:
    return [each for each in (message.agui_id, str(message.message_uuid)) if each]


def _answers(messages: Sequence[Fields], anchors: Sequence[Places], at: int) -> Places:
    """Where the answer to the user message at `at` is stored."""
    for after in range(at + 1, len(messages)):
        if messages[after].get("role") == Role.USER:
            break
        if anchors[after]:
            return anchors[after]
    return ()


def _around(places: Places, last: int | None) -> Places:
    """A few of the places: those behind the last one, or the newest ones."""
    at = bisect_right(places, -1 if last is None else last)
    return places[at : at + _FEW] or places[-_FEW:]


def _next(places: Places, last: int | None) -> int:
    """The first place behind the last one; agents and clients use ids again. Else the newest."""
    at = bisect_right(places, -1 if last is None else last)
    return places[at] if at < len(places) else places[-1]


def _onwards(places: Places, last: int | None) -> int:
    """The next place, but never back: some clients show what came late after what came next."""
    return _next(places, last) if last is None else max(last, _next(places, last))


def _is_same_again(fields: Fields, sent: Sequence[Fields]) -> bool:
    """Whether a new message was sent already, under the same id."""
    has_id = identifier_of(fields.get("id")) is not None
    return has_id and any(fields.get("content") == other.get("content") for other in sent)


def _says(message: Message, fields: Fields) -> bool:
    """Whether a stored user message says what a client's does, as far as a client can be trusted to keep it."""
    text, parts = text_and_parts(fields.get("content"))
    words, stored = _words(text), _words(message.content)
    if message.error is not None and stored and words.startswith(stored):
        # It was over the limits and is stored shortened.
        return True
    is_same_kind = parts is None or message.parts is None or _kinds(parts) == _kinds(message.parts)
    return words == stored and (is_same_kind or message.error is not None)


def _words(text: str) -> str:
    """A text without what is lost on its way through other people's code: blanks, and halves of surrogate pairs."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _kinds(parts: Sequence[Any]) -> list[Any]:
    kinds = (mapping_of(part).get("type") for part in parts)
    return [kind for kind in kinds if kind != "text"]
