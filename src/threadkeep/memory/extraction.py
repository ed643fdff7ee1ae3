"""Asking a model: which facts there are in a part of a transcript, and what they mean for what is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from threadkeep.domain.memory import Memory
from threadkeep.memory.consolidation import Decision, read_decisions
from threadkeep.memory.facts import Fact, read_facts
from threadkeep.memory.ports import ChatMessage, ChatModel
from threadkeep.memory.transcript import Line, render, to_json

CATEGORIES = (
    "personal_details",
    "family",
    "professional_details",
    "health",
    "food",
    "sports",
    "travel",
    "music",
    "entertainment",
    "hobbies",
    "technology",
    "education",
    "finance",
    "plans",
    "preferences",
    "instructions",
    "misc",
)


def _list_of(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": dict(properties), "required": [*properties], "additionalProperties": False}
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": item}},
        "required": [name],
        "additionalProperties": False,
    }


FACTS_SCHEMA = _list_of(
    "memories",
    {
        "text": {"type": "string"},
        "sources": {"type": "array", "items": {"type": "integer"}},
        "categories": {"type": "array", "items": {"type": "string"}},
    },
)
DECISIONS_SCHEMA = _list_of(
    "decisions",
    {
        "fact": {"type": "integer"},
        "action": {"type": "string", "enum": ["new", "same", "replaces", "retracts"]},
        "memory": {"type": ["integer", "null"]},
    },
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the owner of a space wants noted: their words, and categories with what each is for."""

    instructions: tuple[str, ...] = ()
    categories: Mapping[str, str] = field(default_factory=dict)


async def find_facts(model: ChatModel, part: Sequence[Line], wishes: Wishes) -> list[Fact]:
    """What persons said in this part that is worth keeping. Raises ModelFailed."""
    messages = [ChatMessage("system", _instructions(wishes)), ChatMessage("user", render(part))]
    return read_facts(await model.complete(messages, FACTS_SCHEMA), part)


async def find_decisions(model: ChatModel, facts: Sequence[Fact], known: Sequence[Memory]) -> list[Decision]:
    """What the facts mean for what is known, as the model sees it. Raises ModelFailed."""
    told = [
        "<facts>",
        *(to_json({"fact": number, "text": fact.text}) for number, fact in enumerate(facts, 1)),
        "</facts>",
        "<memories>",
        *(to_json({"memory": number, "text": memory.text}) for number, memory in enumerate(known, 1)),
        "</memories>",
    ]
    messages = [ChatMessage("system", prompt("consolidation")), ChatMessage("user", "\n".join(told))]
    return read_decisions(await model.complete(messages, DECISIONS_SCHEMA), len(facts), len(known))


@cache
def prompt(name: str) -> str:
    """A prompt by the name of its file."""
    return resources.files("threadkeep.memory").joinpath(f"prompts/{name}.txt").read_text(encoding="utf-8")


def _instructions(wishes: Wishes) -> str:
    names = ", ".join(
        f"{name} ({meaning})" if meaning else name
        for name, meaning in (wishes.categories or dict.fromkeys(CATEGORIES, "")).items()
    )
    text = prompt("extraction").replace("{categories}", names)
    if wishes.instructions:
        text += "\nWhoever runs this conversation also wants:\n" + "\n".join(wishes.instructions) + "\n"
    return text
