"""The two seams to models: one that answers in JSON, and one that turns texts into vectors. No implementation."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

# A text, because `array` takes no parameters before Python 3.12.
Vector: TypeAlias = "array[float]"
"""A vector of float32 values (`array("f")`): `numpy.frombuffer` reads it, and `tobytes` gives what is stored."""
JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of what a model is asked."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatModel(Protocol):
    """A language model that answers with a JSON object."""

    name: str
    """The model, as its endpoint calls it."""

    async def complete(self, messages: Sequence[ChatMessage], schema: JsonSchema) -> dict[str, Any]:
        """The model's answer, which is meant to fit the schema; what it really holds is the caller's to check.

        Raises ModelFailed where there is no answer, or none that is a JSON object.
        """


class Embedder(Protocol):
    """Turns texts into vectors; texts that mean the same lie near each other."""

    name: str
    """The model; vectors of two names cannot be compared."""
    dimensions: int | None
    """Values of a vector; None until the first answer where the endpoint alone knows."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each text, in order. Raises ModelFailed."""
