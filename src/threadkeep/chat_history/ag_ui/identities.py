"""Under which uuids the records of a run are stored: the same ones whenever the same events are folded again. Pure."""

import json
from collections import Counter
from uuid import UUID, uuid5

MESSAGE, TOOL_CALL, REASONING, INPUT, EVENT = "message", "tool_call", "reasoning", "input", "event"


class Identities:
    """Gives each record of one run its uuid, in the order in which the records are born.

    A record is known by its kind, its AG-UI id, and how many of that kind and id the run had before it: so one that
    was left out of the record moves no other's. `take` tells a run from an earlier one of the same id in the chat.
    """

    def __init__(self, chat_uuid: UUID, run_id: str, take: str = "") -> None:
        self._chat_uuid = chat_uuid
        self._run = (run_id, take)
        self._born: Counter[tuple[str, str | None]] = Counter()

    def next(self, kind: str, agui_id: str | None) -> UUID:
        """The uuid of a record that is newly born."""
        place = self._born[kind, agui_id]
        self._born[kind, agui_id] += 1
        return self.at(kind, place, agui_id)

    def at(self, kind: str, place: int, agui_id: str | None = None) -> UUID:
        """The uuid of the record with `place` others of its kind and id before it."""
        # As JSON: ids of agents may hold anything, halves of surrogate pairs included, which have no bytes.
        return uuid5(self._chat_uuid, json.dumps([*self._run, kind, agui_id, place]))
