"""From what was said to changes of what is known: asks the model, looks up what is near, decides. Writes nothing."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from threadkeep.domain.memory import Memory, MemoryChange, MemoryScope
from threadkeep.memory.consolidation import Decision, Keeping, decide, open_facts
from threadkeep.memory.extraction import Wishes, find_decisions, find_facts
from threadkeep.memory.facts import Fact
from threadkeep.memory.ports import ChatModel
from threadkeep.memory.transcript import Line

Candidates = Callable[[str, MemoryScope, Sequence[str], int], Awaitable[list[Memory]]]
_NEAR = 10
"""Memories that are looked at for each fact, at most; and for all facts of one scope so many times four."""


class Consolidating:
    def __init__(self, candidates: Candidates) -> None:
        """`candidates` gives the memories of a space that are near some texts, of exactly one scope."""
        self._candidates = candidates

    async def find(self, model: ChatModel, parts: Iterable[Sequence[Line]], wishes: Wishes) -> list[Fact]:
        """The facts in some parts of a transcript: a request for each. Raises ModelFailed."""
        return [fact for part in parts for fact in await find_facts(model, part, wishes)]

    async def changes(
        self,
        model: ChatModel,
        space_id: str,
        facts: Sequence[Fact],
        scopes: Mapping[str, MemoryScope],
        keeping: Keeping,
    ) -> list[tuple[MemoryScope, list[MemoryChange]]]:
        """What the facts change, scope by scope; `scopes` says which is whose. Raises ModelFailed.

        A model is asked only where something is known that is near, and not the same.
        """
        by_scope: dict[MemoryScope, list[Fact]] = {}
        for fact in facts:
            by_scope.setdefault(scopes[fact.person], []).append(fact)
        return [
            (scope, await self._changes_of(model, space_id, scope, some, keeping)) for scope, some in by_scope.items()
        ]

    async def _changes_of(
        self, model: ChatModel, space_id: str, scope: MemoryScope, facts: Sequence[Fact], keeping: Keeping
    ) -> list[MemoryChange]:
        texts = [fact.text for fact in facts]
        known = await self._candidates(space_id, scope, texts, min(_NEAR * len(texts), 4 * _NEAR))
        left = [facts[place] for place in open_facts(facts, known)]
        decisions: list[Decision] = []
        if left and known:
            decisions = await find_decisions(model, left, known)
        return decide(left, known, decisions, keeping)
