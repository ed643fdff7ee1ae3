"""An embedder for tests: texts that share words lie near each other, the same on every machine, without a model."""

import zlib
from array import array
from collections.abc import Sequence

from threadkeep.memory.ports import Vector

DIMENSIONS = 256


class WordEmbedder:
    """An embedder that counts words. `name` may be changed, as if another model took over."""

    def __init__(self, name: str = "words", dimensions: int = DIMENSIONS) -> None:
        self.name = name
        self.dimensions: int | None = dimensions
        self.asked: list[list[str]] = []
        """The texts of each call."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each text."""
        self.asked.append(list(texts))
        return [vector_of(text, self.dimensions or DIMENSIONS) for text in texts]


def vector_of(text: str, dimensions: int = DIMENSIONS) -> Vector:
    """The words of the text, each thrown on one of the dimensions."""
    values = [0.0] * dimensions
    for word in text.casefold().split() or [""]:
        values[zlib.crc32(word.strip(".,!?;:").encode("utf-8", "surrogatepass")) % dimensions] += 1.0
    length = sum(value * value for value in values) ** 0.5
    return array("f", [value / length for value in values])
