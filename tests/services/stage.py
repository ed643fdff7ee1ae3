"""A space, a scripted model and a worker, for tests of what a model finds in what people say."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.passing_time import At
from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.event import EventDraft
from threadkeep.domain.extraction import Extraction
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.memory import Memory
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.testing.models import Answer, OneModel, ScriptedModel
from threadkeep.workers.runner import model_runner_of

KEEP = Strategy("soft_delete", "ttl", 10**7)


def found(*texts: str) -> dict[str, Any]:
    """An answer with facts, each of the line of the same place."""
    return {"memories": [{"text": text, "sources": [place], "categories": []} for place, text in enumerate(texts, 1)]}


def decided(*decisions: tuple[str, int | None]) -> dict[str, Any]:
    """An answer with decisions, one for each fact."""
    return {
        "decisions": [
            {"fact": place, "action": action, "memory": memory} for place, (action, memory) in enumerate(decisions, 1)
        ]
    }


class Stage:
    """Lets people say something, has it extracted, and looks at what is known then."""

    def __init__(self, container: Container, at: At, model: ScriptedModel) -> None:
        self.container = container
        self.at = at
        self.model = model

    async def session(self, *strategies: Strategy, people: Sequence[str] = ("ann", "bob")) -> str:
        draft = SessionDraft(tuple(people), strategies=strategies or (KEEP,))
        return (await self.container.sessions.create(*self.at, draft)).id

    async def say(self, session: str, *said: str, type: str = "message") -> None:
        """`"ann: I like tea"`, or `"- Do you?"` for an agent."""
        drafts = []
        for text in said:
            person, _, words = text.partition(": ")
            is_agent = text.startswith("- ")
            content = text[2:] if is_agent else words
            emitter = ("agent", None) if is_agent else ("user", person)
            drafts.append(EventDraft(json.dumps({"content": content}), content, type, *emitter))
        await self.container.events.append(*self.at, session, drafts)

    async def extract(self, session: str, *answers: Answer, **options: Any) -> Extraction:
        """Ask for it, and let a worker do it."""
        self.model.answers += answers
        await self.container.extractions.request(*self.at, session, **options)
        await self.work()
        return await self.state(session)

    async def work(self, now: int | None = None) -> int:
        """Let a worker do what waits for a model. Returns how many jobs it took."""
        return await model_runner_of(self.container, name="w").run_due(clock.now() if now is None else now)

    async def state(self, session: str) -> Extraction:
        return await self.container.extractions.state(*self.at, session)

    async def memories(self, **scope: str) -> list[Memory]:
        """What is known, in the order in which it was added."""
        memories, _ = await self.container.memories.page(*self.at, memory_filter.parse(scope))
        return list(reversed(memories))

    async def texts(self, **scope: str) -> list[str]:
        return [memory.text for memory in await self.memories(**scope)]


@asynccontextmanager
async def on_stage(database: str, model: ScriptedModel | None = None, **settings: Any) -> AsyncIterator[Stage]:
    """A stage on a fresh space of alice's."""
    model = model or ScriptedModel()
    container = await Container.open(Settings(database=database, **settings), models=OneModel(model))
    try:
        alice = await container.tokens.local_principal("alice")
        space = await container.spaces.create(alice, SpaceDraft(custom_instructions="Mind the food."))
        yield Stage(container, (alice, space.id), model)
    finally:
        await container.close()
