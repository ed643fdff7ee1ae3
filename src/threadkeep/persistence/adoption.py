"""Creating what may exist already: the answer to a taken deduplication key is the thing that has it."""

from collections.abc import Callable
from typing import TypeVar

from threadkeep.persistence.client import DRMemoryServiceClient
from threadkeep.persistence.errors import DRMemoryConflictError, DRMemoryNotFoundError
from threadkeep.transport.calls import Call

T = TypeVar("T")
_ROUNDS = 3


async def create_or_adopt(client: DRMemoryServiceClient, create: Call[T], get: Callable[[str], Call[T]]) -> T:
    """Create, or read the existing one that a deduplication conflict names.

    Raises DRMemoryConflictError where the conflict names nothing, or where what it names is gone each time.
    """
    for attempt in range(1, _ROUNDS + 1):
        try:
            return await client.send(create)
        except DRMemoryConflictError as conflict:
            if conflict.existing_id is None:
                raise
            try:
                return await client.send(get(conflict.existing_id))
            except DRMemoryNotFoundError:
                # Deleted in between, which frees the key.
                if attempt == _ROUNDS:
                    raise conflict from None
    raise AssertionError("unreachable")
