"""Runs the labelled conversations through the whole of extraction: events, jobs, model, consolidation, store."""

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace

from eval.labels import Conversation
from eval.scoring import Figures, Kept
from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.event import EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.memory.ports import ChatMessage, ChatModel, JsonSchema
from threadkeep.services.attempts import Models
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.workers.runner import model_runner_of

_LATER = 600_000_000
"""Microseconds after which what failed is tried again: all waits of so few attempts are over then."""


class Counting:
    """Models that count how often they are asked."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.requests = 0
        self.name = ""

    @property
    def can_extract(self) -> bool:
        return self._models.can_extract

    async def chat(self, model_name: str | None, base_url: str | None) -> ChatModel | None:
        model = await self._models.chat(model_name, base_url)
        return None if model is None else _Counted(model, self)

    async def close(self) -> None:
        await self._models.close()


class _Counted:
    def __init__(self, model: ChatModel, counting: Counting) -> None:
        self.name = model.name
        self._model = model
        self._counting = counting

    async def complete(self, messages: Sequence[ChatMessage], schema: JsonSchema) -> dict[str, object]:
        self._counting.requests += 1
        return await self._model.complete(messages, schema)


async def run(conversations: Iterable[Conversation], settings: Settings, models: Models) -> Figures:
    """The figures of the models; each conversation has a space of its own in a database that is thrown away."""
    figures = Figures()
    counting = Counting(models)
    with tempfile.TemporaryDirectory(prefix="threadkeep-eval-") as folder:
        known = replace(settings, database=f"sqlite:///{folder}/eval.db")
        container = await Container.open(known, models=counting)
        try:
            owner = await container.tokens.local_principal("eval")
            for conversation in conversations:
                space = (await container.spaces.create(owner, SpaceDraft())).id
                for said in conversation.sessions:
                    figures.failed += not await _extract(container, owner, space, said)
                found, _ = await container.memories.page(owner, space, memory_filter.EVERYTHING)
                kept = [Kept(memory.text, memory.attributed_to) for memory in reversed(found)]
                figures.count(conversation, kept)
        finally:
            await container.close()
    figures.requests = counting.requests
    return figures


async def _extract(container: Container, owner: Principal, space: str, said: Sequence[str]) -> bool:
    people = tuple(dict.fromkeys(line.partition(": ")[0] for line in said if not line.startswith("- "))) or ("ann",)
    session = await container.sessions.create(owner, space, SessionDraft(people))
    await container.events.append(owner, space, session.id, [_draft(line) for line in said])
    await container.extractions.request(owner, space, session.id)
    runner = model_runner_of(container)
    for attempt in range(container.settings.llm_attempts):
        await runner.run_due(clock.now() + attempt * _LATER)
        state = (await container.extractions.state(owner, space, session.id)).state
        if state not in ("pending", "running"):
            return state != "failed"
    return False


def _draft(line: str) -> EventDraft:
    person, _, words = line.partition(": ")
    is_agent = line.startswith("- ")
    text = line[2:] if is_agent else words
    emitter = ("agent", None) if is_agent else ("user", person)
    return EventDraft(json.dumps({"content": text}), text, "message", *emitter)
