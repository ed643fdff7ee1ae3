"""Facts in a model's answer, and what of them is believed. Pure functions.

A model is asked to keep speakers apart, and may fail at it or be talked out of it. So who said a fact is not what the
model says but who said the lines that it names, and a fact whose words only an agent has used is left out, unless a
person was asked and answered.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.domain import limits
from threadkeep.domain.words import words
from threadkeep.errors import ModelFailed
from threadkeep.memory.transcript import Line, people_of


def set_of(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


_LISTS = ("memories", "facts", "memory", "results")
_TEXTS = ("text", "memory", "fact", "content")
_SOURCES = ("sources", "source", "lines")
_LONGEST = 1_000
"""Characters of a fact; what is longer is no fact but a piece of the transcript."""
_MOST = 200
_QUESTION = re.compile("[?？؟;՞]")
_STEM = 5
_COMMON = set_of(
    "a about after all also an and any are as at be because been but by can could did do does for from had has have "
    "he her him his how i if in into is it its like likes me more most my no not of on one or our out over prefers "
    "she so some than that the their them then there these they this to too user users very want wants was we were "
    "what when which who will with would you your yes ok okay"
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a person said and that is worth keeping."""

    text: str
    person: str
    sources: tuple[int, ...]
    """The numbers of the lines that say it."""
    categories: tuple[str, ...] = ()
    said_at: int | None = None


def read_facts(answer: dict[str, Any], part: Sequence[Line]) -> list[Fact]:
    """The facts of an answer to a part of a transcript that are believed. Raises ModelFailed where it has no list."""
    found: list[Fact] = []
    seen: set[tuple[str, str]] = set()
    for item in _items(answer)[:_MOST]:
        fact = _read(item, part)
        key = ("", "") if fact is None else (fact.person, " ".join(words(fact.text)))
        if fact is not None and key not in seen:
            seen.add(key)
            found.append(fact)
    return found


def stems(text: str) -> set[str]:
    """The beginnings of the words that say something."""
    return {word[:_STEM] for word in words(text) if word not in _COMMON}


def _items(answer: dict[str, Any]) -> list[Any]:
    for name in _LISTS:
        value = answer.get(name)
        if isinstance(value, list):
            return value
        if isinstance(value, dict):
            return [value]
    raise ModelFailed("The model's answer has no list of memories")


def _read(item: Any, part: Sequence[Line]) -> Fact | None:
    fields = item if isinstance(item, dict) else {"text": item}
    text = next((value for name in _TEXTS if isinstance(value := fields.get(name), str)), "")
    text = _cleaned(text)
    if not text or len(text) > _LONGEST:
        return None
    cited = _cited(fields, part)
    speakers = [line for line in cited if line.person is not None and not line.is_context]
    if not cited:
        # The model did not say where it has this from.
        speakers = _likely(text, part)
    person = _person(text, speakers)
    if person is None or not _is_grounded(text, person, cited, part):
        return None
    own = [line for line in speakers if line.person == person]
    times = [line.said_at for line in own if line.said_at is not None]
    numbers = tuple(dict.fromkeys(line.number for line in own))
    return Fact(text, person, numbers, _categories(fields), max(times, default=None))


def _cited(fields: dict[str, Any], part: Sequence[Line]) -> list[Line]:
    named: Any = next((fields[name] for name in _SOURCES if fields.get(name) is not None), [])
    numbers = [_number(each) for each in (named if isinstance(named, list) else [named])]
    return [part[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= len(part)]


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value
    digits = str(value).strip("[]n# ") if isinstance(value, str) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _likely(text: str, part: Sequence[Line]) -> list[Line]:
    """The lines that a fact without sources may come from: those of a person that share its words, or all of them."""
    spoken = [line for line in part if line.person is not None and not line.is_context]
    sharing = [line for line in spoken if stems(text) & stems(line.text)]
    return sharing or (spoken if len(people_of(spoken)) == 1 else [])


def _person(text: str, lines: Sequence[Line]) -> str | None:
    """Who said it: of several, the one whose lines share most of its words."""
    wanted = stems(text)
    shares: dict[str, int] = {}
    for line in lines:
        if line.person is not None:
            shares[line.person] = shares.get(line.person, 0) + len(wanted & stems(line.text))
    return max(shares, key=lambda person: shares[person], default=None)


def _is_grounded(text: str, person: str, cited: Sequence[Line], part: Sequence[Line]) -> bool:
    wanted = stems(text)
    agents = [line for line in part if line.person is None]
    if wanted & _stems_of(line for line in part if line.person == person):
        return True
    echoed = [line for line in agents if wanted & stems(line.text)]
    # In no words of the conversation: a summary, or a translation.
    return not echoed or any(line in cited and _asks_before(line, cited, part) for line in echoed)


def _asks_before(line: Line, cited: Sequence[Line], part: Sequence[Line]) -> bool:
    """Whether the line asks something, and a person who is cited speaks next."""
    following = part[part.index(line) + 1 :]
    answer = next((each for each in following if each.person is not None), None)
    return _QUESTION.search(line.text) is not None and answer in cited


def _stems_of(lines: Iterable[Line]) -> set[str]:
    return {stem for line in lines for stem in stems(line.text)}


def _categories(fields: dict[str, Any]) -> tuple[str, ...]:
    given = fields.get("categories")
    texts = (
        [_cleaned(each)[: limits.CATEGORY] for each in given if isinstance(each, str)]
        if isinstance(given, list)
        else []
    )
    return tuple(dict.fromkeys(filter(None, texts)))[:3]


def _cleaned(text: str) -> str:
    """One line without control characters or halves of surrogate pairs."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in text).split())
