"""A message repository before which things go wrong: a call that is not made, a scope that breaks, a lost answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from threadkeep.chat_history import MessageRepositoryLike

FAULTS = ("refused", "broken", "unanswered")


class FaultyMessages:
    """Passes every call on, and lets the first scopes of `transaction` go wrong, once it is told to.

    `refused`: the scope does not begin. `broken`: it ends by an exception after its first write. `unanswered`: all of
    it is stored, but whoever asked hears of a time-out.
    """

    def __init__(self, inner: MessageRepositoryLike, fault: str, times: int = 2) -> None:
        self._inner = inner
        self._fault = fault
        self._left = 0
        self._times = times
        self._breaks = False

    def begin(self) -> None:
        """From now on."""
        self._left = self._times

    @property
    def left(self) -> int:
        """How many scopes are still to go wrong."""
        return self._left

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        fault = self._fault if self._left else None
        self._left -= 1 if fault else 0
        if fault == "refused":
            raise ConnectionRefusedError("nobody answers")
        self._breaks = fault == "broken"
        async with self._inner.transaction():
            yield
        if fault == "unanswered":
            raise TimeoutError

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if not name.startswith(("create_", "update_")):
            return method

        async def write(*args: Any) -> Any:
            answer = await method(*args)
            if self._breaks:
                self._breaks = False
                raise ConnectionResetError("the connection broke")
            return answer

        return write
