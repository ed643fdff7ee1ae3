"""Interrupts in the database: statements and operations. Nothing here commits."""

from collections.abc import Sequence

from threadkeep.domain.interrupt import OPEN, InterruptDraft
from threadkeep.domain.run import RunKey
from threadkeep.storage import text
from threadkeep.storage.statement import InsertMany, Steps
from threadkeep.storage.tables import interrupts

_INSERT = InsertMany(interrupts, [column for column in interrupts.c if column.name not in ("ended_at", "ended_by")])


def put(key: RunKey, drafts: Sequence[InterruptDraft], now: int) -> Steps[None]:
    """Keep what a run has ended with, as open. Of two with one id the first counts."""
    place_of: dict[str, tuple[int, InterruptDraft]] = {}
    for place, draft in enumerate(drafts):
        place_of.setdefault(draft.interrupt_id, (place, draft))
    if place_of:
        at = (key.space_id, key.session_id, text.encode(key.run_id))
        yield (
            _INSERT,
            [
                (*at, text.encode(name), place, text.encode(draft.payload), OPEN, draft.expires_at, now)
                for name, (place, draft) in place_of.items()
            ],
        )
