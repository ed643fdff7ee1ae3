"""The shared state of a thread as its runs change it: snapshots and patches. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import plain
from threadkeep.chat_history.ag_ui.patches import BadPatch, patched
from threadkeep.chat_history.constants import MessageStatus


@dataclass(slots=True, eq=False)
class ThreadState:
    """The state, from what the client sent on. `changed` once the agent has had its say: only then is it stored.

    The writer takes it like a row: `status` and `unsaved` say what those of a row say.
    """

    value: Any = None
    changed: bool = False
    rejected: int = 0
    status: MessageStatus = MessageStatus.ACTIVE
    unsaved: int = 0

    def replace(self, snapshot: Any) -> None:
        self.value = plain(snapshot)
        self.changed = True

    def change(self, operations: Sequence[Any]) -> bool:
        """Apply a patch. One that does not fit changes nothing; False then."""
        try:
            self.value = patched({} if self.value is None else self.value, operations)
        except BadPatch:
            self.rejected += 1
            return False
        self.changed = True
        return True
