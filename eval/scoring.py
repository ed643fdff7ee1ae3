"""From memories and labels to figures. Pure functions.

A memory is right where it has the words of a label. Which words a model chooses beside those is its own business.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from eval.labels import Conversation, Groups


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory as it was kept: its text, and who is said to have said it."""

    text: str
    by: str | None


@dataclass(slots=True)
class Figures:
    """Counts over any number of conversations."""

    labels: int = 0
    memories: int = 0
    found: int = 0
    """Labels that a memory has the words of."""
    right: int = 0
    """Memories that have the words of a label."""
    doubles: int = 0
    """Memories that say nothing but what an earlier one says."""
    attributed: int = 0
    """Right memories that are the right person's."""
    junk: int = 0
    """Memories that hold what nobody would keep."""
    failed: int = 0
    """Conversations that could not be extracted."""
    requests: int = 0
    conversations: int = 0
    remarks: list[str] = field(default_factory=list)
    """What was missed and what should not be there, conversation by conversation."""

    @property
    def precision(self) -> float:
        """Of the memories, those that are right."""
        return _share(self.right, self.memories)

    @property
    def recall(self) -> float:
        """Of the labels, those that were found."""
        return _share(self.found, self.labels)

    @property
    def duplicates(self) -> float:
        """Of the memories, those that say nothing new."""
        return _share(self.doubles, self.memories) if self.memories else 0.0

    @property
    def attribution(self) -> float:
        """Of the right memories, those of the right person."""
        return _share(self.attributed, self.right)

    def count(self, conversation: Conversation, memories: Sequence[Kept]) -> None:
        """Count the memories that one conversation left behind."""
        self.conversations += 1
        self.labels += len(conversation.keep)
        self.memories += len(memories)
        seen: set[int] = set()
        for memory in memories:
            fitting = [place for place, label in enumerate(conversation.keep) if has(memory.text, label.words)]
            self.right += bool(fitting)
            self.doubles += bool(fitting) and seen.issuperset(fitting)
            self.attributed += bool(fitting) and any(conversation.keep[place].by == memory.by for place in fitting)
            seen.update(fitting)
            is_junk = any(has(memory.text, tuple((word,) for word in words)) for words in conversation.junk)
            self.junk += is_junk
            if not fitting or is_junk:
                self.remarks.append(f"{conversation.id}: should not keep {memory.text!r}")
        self.found += len(seen)
        for place, label in enumerate(conversation.keep):
            if place not in seen:
                self.remarks.append(f"{conversation.id}: misses {label.fact!r}")

    def table(self) -> str:
        """The figures as lines."""
        return "\n".join(
            [
                f"conversations  {self.conversations} ({self.failed} failed)",
                f"precision      {self.precision:.3f}   {self.right} of {self.memories} memories are worth keeping",
                f"recall         {self.recall:.3f}   {self.found} of {self.labels} facts were found",
                f"duplicates     {self.duplicates:.3f}   {self.doubles} of {self.memories} memories say nothing new",
                f"attribution    {self.attribution:.3f}   {self.attributed} of {self.right} are the right person's",
                f"junk           {self.junk} memories hold what nobody would keep",
                f"requests       {self.requests}, {_share(self.requests, self.conversations):.2f} a conversation",
            ]
        )


def has(text: str, words: Groups) -> bool:
    """Whether the text holds a word of each group."""
    folded = text.casefold()
    return all(any(word.casefold() in folded for word in group) for group in words)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
