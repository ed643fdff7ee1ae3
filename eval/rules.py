"""A model of few rules, for a run without any: it notes sentences in which somebody says "I" or "my".

The rules were written with the set in view, so their figures say that all of extraction works, and nothing of what a
language model is worth.
"""

import json
import re
from typing import Any

from threadkeep.memory.facts import stems
from threadkeep.testing.openai_server import Reply

_SENTENCE = re.compile(r"[^.!?。]+[.!?。]?")
_FIRST_PERSON = re.compile(
    r"\b(?:I(?:'m| am| was| have| own| like| love| hate| prefer| live| work| play| run| take| never| do not| started| "
    r"adopted| founded| moved| write| will)|[Mm]y \w+|[Ww]e decided)\b.*"
    r"|(?:Ich|Je suis|Tengo|私は|我).*"
)
_LEFT_OUT = re.compile(r"\b(?:if|SYSTEM|password|card|need|want|tired|hungry|annoyed|thought)\b|'", re.IGNORECASE)


def answer(body: dict[str, Any]) -> Reply:
    """What the rules answer to a request of extraction."""
    system, user = (message["content"] for message in body["messages"])
    lines = [json.loads(line) for line in user.splitlines() if line.startswith("{")]
    decides = system.startswith("You are given new facts")
    made = {"decisions": _decisions(lines)} if decides else {"memories": _memories(lines)}
    return Reply(text=[json.dumps(made, ensure_ascii=False)])


def _memories(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        if line["speaker"] == "assistant" or line.get("already_read"):
            continue
        for sentence in _SENTENCE.findall(line["text"]):
            match = _FIRST_PERSON.search(sentence)
            if match and not sentence.endswith("?") and not _LEFT_OUT.search(sentence):
                found.append({"text": match[0].strip(" .!。"), "sources": [line["n"]], "categories": []})
    return found


def _decisions(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What shares most of its words with a memory replaces it."""
    memories = [line for line in lines if "memory" in line]
    made = []
    for fact in (line for line in lines if "fact" in line):
        wanted = stems(fact["text"])
        shared = {memory["memory"]: len(wanted & stems(memory["text"])) for memory in memories}
        best = max(shared, key=lambda number: shared[number], default=None)
        is_near = best is not None and 2 * shared[best] >= len(wanted)
        made.append({"fact": fact["fact"], "action": "replaces" if is_near else "new", "memory": best})
    return made
