"""Requests that act once: the first answer is kept together with what the request changed, and given again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from threadkeep import clock
from threadkeep.errors import Invalid
from threadkeep.storage import idempotency
from threadkeep.storage.database import Database
from threadkeep.storage.statement import Steps

T = TypeVar("T")


class Answered(Exception):
    """The request has been answered before, with `answer`; nothing was done now."""

    def __init__(self, answer: str) -> None:
        super().__init__("The request has been answered before")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Once(Generic[T]):
    """A request that its sender may repeat, and whose result is a `T`.

    The key is the user's own within a space; `space_id` is '' where the request makes one. `encode` turns the result
    into the answer that is kept. What fails is not kept: the next request with the key is judged anew.
    """

    space_id: str
    user_id: str
    key: str
    fingerprint: str
    """The same for the same request, and for no other."""
    encode: Callable[[T], str]

    def act(self, operation: Steps[T]) -> Steps[T]:
        """Run the operation unless the request has been answered. Raises Answered, Invalid, and what it raises."""
        at = (self.space_id, self.user_id, self.key)
        first = yield from idempotency.claim(*at, self.fingerprint, clock.now())
        if first is None:
            made = yield from operation
            yield from idempotency.keep(*at, self.encode(made))
            return made
        if first.fingerprint != self.fingerprint:
            raise Invalid(
                "This key was used for another request: a key stands for one request, its path and its body",
                ["header", "Idempotency-Key"],
                "idempotency_key_reused",
            )
        raise Answered(first.answer)


async def write(database: Database, operation: Callable[[], Steps[T]], once: Once[T] | None) -> T:
    """Run the operation in a transaction, which keeps its answer too where the request acts once."""
    if once is None:
        return await database.write(operation)
    return await database.write(lambda: once.act(operation()))
