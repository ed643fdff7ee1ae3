"""What new facts mean for what is known: added, updated, deleted or kept out. Pure functions.

What says the same in the same words is settled here; what needs to be understood is decided by a model, and only
as far as its decisions make sense: each memory is touched once, and only by what the same person said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from threadkeep.domain.memory import Memory, MemoryChange, MemorySource
from threadkeep.domain.words import words
from threadkeep.errors import ModelFailed
from threadkeep.memory.facts import Fact, set_of

Action = Literal["new", "same", "replaces", "retracts"]
_FILLERS = set_of("a an the is are be user users he she they at in of as")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a fact means; `fact` and `known` are places in their lists."""

    fact: int
    action: Action
    known: int | None = None


@dataclass(frozen=True, slots=True)
class Keeping:
    """What every memory that is added gets."""

    session_id: str | None = None
    """Where the facts come from; None where from no session."""
    metadata: str | None = None
    expiration_date: str | None = None


def is_same(one: str, other: str) -> bool:
    """Whether two texts say the same in the same words, but for those that say nothing."""
    return _said(one) == _said(other)


def open_facts(facts: Sequence[Fact], known: Sequence[Memory]) -> list[int]:
    """The places of the facts that neither a memory nor an earlier fact says already."""
    left: list[int] = []
    for place, fact in enumerate(facts):
        texts = [*(memory.text for memory in known), *(facts[earlier].text for earlier in left)]
        if not any(is_same(fact.text, text) for text in texts):
            left.append(place)
    return left


def read_decisions(answer: dict[str, Any], facts: int, known: int) -> list[Decision]:
    """The decisions of an answer about so many facts and memories; what makes no sense is left out.

    Raises ModelFailed where there is no list of decisions.
    """
    items = answer.get("decisions")
    if not isinstance(items, list):
        raise ModelFailed("The model's answer has no list of decisions")
    found: dict[int, Decision] = {}
    for item in items:
        if not isinstance(item, dict):
            continue
        fact, action, memory = item.get("fact"), item.get("action"), item.get("memory")
        if not isinstance(fact, int) or not 1 <= fact <= facts or action not in get_args(Action):
            continue
        place = memory - 1 if isinstance(memory, int) and 1 <= memory <= known else None
        if place is not None or action == "new":
            found.setdefault(fact - 1, Decision(fact - 1, cast(Action, action), place))
    return list(found.values())


def decide(
    facts: Sequence[Fact], known: Sequence[Memory], decisions: Sequence[Decision], keeping: Keeping
) -> list[MemoryChange]:
    """The changes that facts of one scope bring. A fact without a decision that makes sense is added."""
    by_fact = {decision.fact: decision for decision in decisions}
    touched: set[str] = set()
    changes: list[MemoryChange] = []
    for place, fact in enumerate(facts):
        decision = by_fact.get(place, Decision(place, "new"))
        memory = None if decision.known is None else known[decision.known]
        if memory is not None and decision.action == "same":
            continue
        if memory is None or decision.action == "new" or memory.id in touched or not _may_touch(fact, memory):
            changes.append(_added(fact, keeping))
            continue
        touched.add(memory.id)
        changes.append(_changed(fact, memory, keeping, deletes=decision.action == "retracts"))
    return changes


def _may_touch(fact: Fact, memory: Memory) -> bool:
    """Whether the memory is nobody's in particular, or of the person who said the fact."""
    return memory.attributed_to in (None, fact.person)


def _added(fact: Fact, keeping: Keeping) -> MemoryChange:
    return MemoryChange(
        "ADD",
        text=fact.text,
        sources=_sources(fact, keeping),
        attributed_to=fact.person,
        categories=fact.categories,
        metadata=keeping.metadata,
        expiration_date=keeping.expiration_date,
        created_at=fact.said_at,
    )


def _changed(fact: Fact, memory: Memory, keeping: Keeping, *, deletes: bool) -> MemoryChange:
    return MemoryChange(
        "DELETE" if deletes else "UPDATE",
        memory_id=memory.id,
        text=None if deletes else fact.text,
        old_text=memory.text,
        sources=_sources(fact, keeping),
        attributed_to=fact.person,
        categories=fact.categories or None,
    )


def _sources(fact: Fact, keeping: Keeping) -> tuple[MemorySource, ...]:
    return () if keeping.session_id is None else (MemorySource(keeping.session_id, fact.sources),)


def _said(text: str) -> list[str]:
    # In their order: who likes whom is a matter of it.
    return [word for word in words(text.replace("'", "").replace("’", "")) if word not in _FILLERS]
