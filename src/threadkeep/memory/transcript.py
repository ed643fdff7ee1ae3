"""What is said in events or messages, as a model reads it: numbered, with its speakers kept apart. Pure functions.

A line of the transcript is a line of JSON, so that nothing that is said can pass for another line or for its end.
People are told apart by labels of ours: an id is a text that somebody chose.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadkeep import clock
from threadkeep.domain import recalled
from threadkeep.domain.event import Event
from threadkeep.domain.message_text import fields_of

SILENT_TYPES = frozenset({recalled.EVENT_TYPE, "status", "tool_output", "state", "agui", "attachment"})
"""Types of event in which nobody speaks."""
_BYTES_A_TOKEN = 3
"""English has about four bytes to a token, Chinese three: this counts rather too many tokens than too few."""
_AGENT_LINE = 1_200
"""Characters of what an agent says that are shown: it is there so that answers to it make sense."""
_LINE_TOKENS = 20
"""What a line takes besides its text, roughly."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was said. `person` is who said it, None an agent."""

    number: int
    """The number of its event, or the place of its message."""
    person: str | None
    text: str
    said_at: int | None = None
    """Microseconds since 1970."""
    is_context: bool = False
    """It was read before, and is there so that what follows makes sense."""


def read_event(event: Event) -> Line | None:
    """What was said in an event; None where nothing was, or where it came from memory."""
    if event.type in SILENT_TYPES:
        return None
    fields = fields_of(event.body)
    role = fields.get("role")
    if event.emitter_type == "user" and role in (None, "user"):
        person = event.emitter_id
    elif event.emitter_type == "agent" and role in (None, "assistant", "agent"):
        person = None
    else:
        return None
    return _line(event.sequence_id, person, fields.get("content"), event.created_at)


def read_message(number: int, message: Mapping[str, Any], said_at: int | None) -> Line | None:
    """What was said in a message with `role`, `content` and perhaps `name`."""
    role = message.get("role", "user")
    if role not in ("user", "assistant"):
        return None
    name = message.get("name")
    person = (name if isinstance(name, str) and name else "user") if role == "user" else None
    return _line(number, person, message.get("content"), said_at)


def tokens_of(line: Line) -> int:
    """About how many tokens the line takes; rather more than less."""
    return _LINE_TOKENS + len(line.text.encode()) // _BYTES_A_TOKEN


def parts(lines: Sequence[Line], budget: int) -> Iterator[list[Line]]:
    """The lines in parts of at most so many tokens, each with what was said before it as context.

    A line that is too long for any part is cut into pieces. Parts in which no person speaks are left out.
    """
    part: list[Line] = []
    room = budget
    for line in itertools.chain.from_iterable(_pieces(each, budget) for each in lines):
        needed = tokens_of(line)
        if needed > room and part:
            yield from _spoken(part)
            part = as_context(part, budget // 4)
            room = budget - sum(map(tokens_of, part))
        part.append(line)
        room -= needed
    yield from _spoken(part)


def render(part: Sequence[Line]) -> str:
    """The part as a model is given it; its lines are numbered from 1."""
    people = people_of(part)
    written = []
    for number, line in enumerate(part, 1):
        fields: dict[str, Any] = {"n": number, "speaker": _label(line.person, people)}
        if line.said_at is not None:
            fields["date"] = clock.format_timestamp(line.said_at)[:10]
        if line.is_context:
            fields["already_read"] = True
        fields["text"] = line.text
        written.append(to_json(fields))
    return "<transcript>\n" + "\n".join(written) + "\n</transcript>"


def as_context(lines: Sequence[Line], budget: int) -> list[Line]:
    """The last of the lines, as far as they take so many tokens: for what is said next to make sense."""
    kept: list[Line] = []
    for line in reversed(lines[-4:]):
        budget -= tokens_of(line)
        if budget < 0:
            break
        kept.insert(0, replace(line, is_context=True))
    return kept


def people_of(part: Iterable[Line]) -> list[str]:
    """Who speaks in the part, in the order in which they begin."""
    return list(dict.fromkeys(line.person for line in part if line.person is not None))


def to_json(fields: Mapping[str, Any]) -> str:
    """One line of JSON in which no mark of ours can stand."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _line(number: int, person: str | None, content: Any, said_at: int | None) -> Line | None:
    if isinstance(content, list):
        # The parts of a message that are no text say nothing that could be noted.
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        return None
    # Halves of surrogate pairs cannot be sent to anybody.
    text = recalled.without(content).encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
    text = text.replace("\u200b", "").strip()
    if not text:
        return None
    return Line(number, person, text if person is not None else _shortened(text), said_at)


def _shortened(text: str) -> str:
    if len(text) <= _AGENT_LINE:
        return text
    # The end of a speech is where it asks.
    return f"{text[: _AGENT_LINE // 2]} … {text[-_AGENT_LINE // 2 :]}"


def _pieces(line: Line, budget: int) -> Iterator[Line]:
    room = max(budget // 2, _LINE_TOKENS) * _BYTES_A_TOKEN
    if tokens_of(line) <= budget:
        yield line
        return
    text = line.text
    length = max(1, room * len(text) // len(text.encode()))
    while text:
        cut = len(text) if len(text) <= length else (text.rfind(" ", length // 2, length) + 1 or length)
        yield replace(line, text=text[:cut])
        text = text[cut:]


def _spoken(part: list[Line]) -> Iterator[list[Line]]:
    if any(line.person is not None and not line.is_context for line in part):
        yield part


def _label(person: str | None, people: Sequence[str]) -> str:
    if person is None:
        return "assistant"
    return "user" if len(people) == 1 else f"user {people.index(person) + 1}"
