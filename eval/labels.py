"""The labelled conversations: what was said, the facts a person would keep, and the junk they would not."""

import json
from dataclasses import dataclass
from pathlib import Path

_PATH = Path(__file__).parent / "conversations.jsonl"
Groups = tuple[tuple[str, ...], ...]
"""Words to be found: one of each group, in any case."""


@dataclass(frozen=True, slots=True)
class Label:
    """A fact worth keeping, who said it, and the words by which a memory of it is known."""

    fact: str
    by: str
    words: Groups


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions one after the other, each a list of `"ann: I like tea"` or, for an agent, `"- Do you?"`."""

    id: str
    sessions: tuple[tuple[str, ...], ...]
    keep: tuple[Label, ...]
    junk: Groups
    """Each is words that are in no memory together."""


def load(path: Path = _PATH) -> list[Conversation]:
    """The conversations, in the order of the file."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        found.append(
            Conversation(
                fields["id"],
                tuple(tuple(session) for session in fields["sessions"]),
                tuple(
                    Label(label["fact"], label["by"], tuple(tuple(group) for group in label["words"]))
                    for label in fields["keep"]
                ),
                tuple(tuple(words) for words in fields["junk"]),
            )
        )
    return found
