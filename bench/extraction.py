"""What extraction costs in requests to a language model, beside the fewest that the words could go in."""

import json
import math
from collections.abc import Sequence
from typing import Any

from bench import report
from bench.databases import ENGINES
from threadkeep import clock
from threadkeep.domain.event import EventDraft
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.memory.ports import ChatMessage, ChatModel, JsonSchema
from threadkeep.services.container import Container
from threadkeep.services.extraction import PART_TOKENS
from threadkeep.services.token_counting import count_tokens
from threadkeep.settings import Settings
from threadkeep.workers.runner import model_runner_of

LENGTHS = (10, 100, 1_000)
_SAID = "I went to the market on day {number} and bought {number} apples, because I like to bake for my neighbours."
_ANSWER = "That sounds like a good day. Shall I look for a recipe that needs so many apples, or do you have one?"


class _Model:
    """Finds one fact in each part, and takes each for new; counts what it is asked."""

    name = "counting"
    can_extract = True

    def __init__(self) -> None:
        self.requests = {"facts": 0, "decisions": 0}
        self.tokens = 0

    async def chat(self, model_name: str | None, base_url: str | None) -> ChatModel:
        return self

    async def complete(self, messages: Sequence[ChatMessage], schema: JsonSchema) -> dict[str, Any]:
        self.tokens += sum(count_tokens(message.content) for message in messages)
        if "decisions" in schema["properties"]:
            self.requests["decisions"] += 1
            return {"decisions": [{"fact": 1, "action": "new", "memory": None}]}
        self.requests["facts"] += 1
        lines = [json.loads(line) for line in messages[1].content.splitlines() if line.startswith("{")]
        last = next(line for line in reversed(lines) if line["speaker"] == "user")
        return {"memories": [{"text": last["text"], "sources": [last["n"]], "categories": []}]}

    async def close(self) -> None:
        """Nothing is open."""


async def requests(engine: str) -> None:
    report.title(f"Requests to a model for the memories of one session: {engine}")
    for length in LENGTHS:
        model = _Model()
        with ENGINES[engine]() as url:
            container = await Container.open(Settings(database=url), models=model)
            owner = await container.tokens.local_principal("bench")
            space = (await container.spaces.create(owner, SpaceDraft())).id
            session = (await container.sessions.create(owner, space, SessionDraft(("ann",)))).id
            drafts = [_draft(number) for number in range(length)]
            for at in range(0, length, 200):
                await container.events.append_batch(owner, space, session, drafts[at : at + 200])
            await container.extractions.request(owner, space, session)
            await model_runner_of(container).run_due(clock.now())
            assert (await container.extractions.state(owner, space, session)).state == "extracted"
            await container.close()
        fewest = math.ceil(sum(count_tokens(draft.content or "") for draft in drafts) / PART_TOKENS)
        report.line(f"{length:,} events: requests for facts", model.requests["facts"])
        report.line(f"{length:,} events: requests for decisions", model.requests["decisions"])
        report.line(f"{length:,} events: tokens sent for each event", f"{model.tokens / length:10.1f}")
        report.ratio(
            f"{length:,} events: requests for facts / fewest", model.requests["facts"] / max(fewest, 1), at_most=3
        )


def _draft(number: int) -> EventDraft:
    text = (_ANSWER if number % 2 else _SAID).format(number=number)
    emitter = ("agent", None) if number % 2 else ("user", "ann")
    return EventDraft(json.dumps({"content": text}), text, "message", *emitter)
