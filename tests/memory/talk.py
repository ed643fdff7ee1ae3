"""Lines of a conversation, briefly."""

from collections.abc import Sequence

from threadkeep.domain.memory import Memory, MemoryScope
from threadkeep.memory.facts import Fact
from threadkeep.memory.transcript import Line

DAY = 1_795_953_600_000_000
"""Noon of 29 November 2026."""


def talk(*said: str) -> list[Line]:
    """`"ann: I like tea"` for a person, `"- Do you?"` for an agent; numbers are 10, 20, 30 ..."""
    lines = []
    for place, text in enumerate(said, 1):
        person, _, words = text.partition(": ")
        agent = text.startswith("- ")
        lines.append(Line(place * 10, None if agent else person, text[2:] if agent else words, DAY))
    return lines


def fact(text: str, person: str = "ann", sources: Sequence[int] = (10,)) -> Fact:
    return Fact(text, person, tuple(sources))


def memory(text: str, number: int = 1, attributed_to: str | None = "ann") -> Memory:
    return Memory(f"m-{number}", "s", MemoryScope("ann"), text, None, (), attributed_to, None, 0, 0)
