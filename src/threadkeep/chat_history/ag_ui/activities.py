"""Activities: what an agent shows beside its messages, such as a plan or a progress, as rows of their own. Pure."""

from collections.abc import Sequence
from typing import Any

from threadkeep.chat_history.ag_ui.lenient import plain
from threadkeep.chat_history.ag_ui.patches import BadPatch, patched
from threadkeep.chat_history.ag_ui.records import JSONText, Row
from threadkeep.chat_history.ag_ui.turn import Turn
from threadkeep.chat_history.constants import Role

Key = tuple[str, bool]


class Activities:
    """The activities of a run, by message id; those without an id by their type.

    An activity has no end of its own: it is open until the run ends.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._rows: dict[Key, Row] = {}

    def show(self, agui_id: str | None, kind: str, content: Any, *, replace: bool, owner: str | None) -> Row:
        """A snapshot comes: it is the activity from now on, unless it is only meant for when there is none."""
        row = self._rows.get(_key(agui_id, kind))
        if row is not None and not replace:
            return row
        if row is None:
            row = self._rows[_key(agui_id, kind)] = self._turn.new_row(agui_id, Role.ACTIVITY, self._turn.voice(owner))
        row.activity_type = kind
        row.content = JSONText(plain(content))
        self._turn.keep(row)
        return row

    def change(self, agui_id: str | None, kind: str, operations: Sequence[Any]) -> Row | None:
        """A patch comes. One for an activity that is not there, or that does not fit it, changes nothing."""
        row = self._rows.get(_key(agui_id, kind))
        if row is None or not isinstance(row.content, JSONText):
            self._turn.stray += 1
            return None
        try:
            row.content.value = patched(row.content.value, operations)
        except BadPatch:
            self._turn.stray += 1
            return None
        self._turn.touch(row)
        return row


def _key(agui_id: str | None, kind: str) -> Key:
    return (kind, False) if agui_id is None else (agui_id, True)
