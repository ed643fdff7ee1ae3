"""The logs of runs and their interrupts, on their way out of one database and into another. Nothing here commits.

Events travel deflated, as many in a line as a compacted row has.
"""

import base64
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select

from threadkeep.domain import run_group
from threadkeep.domain.run import RunKey
from threadkeep.storage import text
from threadkeep.storage.statement import InsertMany, Statement, Steps
from threadkeep.storage.tables import interrupts, run_events

Fields = dict[str, Any]

_LARGEST = 96 * 1024 * 1024
"""Bytes of the events in a line, as packed."""
_PLACE = ("space_id", "session_id")
RUN_EVENTS = [column for column in run_events.c if column.name not in _PLACE]
INTERRUPT = [column for column in interrupts.c if column.name not in _PLACE]
_INSERT_EVENTS = InsertMany(run_events, list(run_events.c))
_INSERT_INTERRUPTS = InsertMany(interrupts, list(interrupts.c))
_INTERRUPTS = Statement(
    select(*INTERRUPT)
    .where(
        interrupts.c.space_id == bindparam("space_id"),
        interrupts.c.session_id == bindparam("session_id"),
        interrupts.c.run_id == bindparam("run_id"),
    )
    .order_by(interrupts.c.place, interrupts.c.interrupt_id)
)
_FORGET = [
    Statement(
        delete(table).where(
            table.c.space_id == bindparam("space_id"),
            table.c.session_id == bindparam("session_id"),
        )
    )
    for table in (run_events, interrupts)
]


def packed(key: RunKey, first: int, events: Sequence[bytes], created_at: int) -> Fields:
    """The line of events that follow one another."""
    payload = run_group.pack(events)
    form, kept = run_group.shortest(payload)
    return {
        "run_id": text.encode(key.run_id),
        "first_index": first,
        "count": len(events),
        "size": len(payload),
        "form": form,
        "payload": base64.b64encode(kept).decode(),
        "created_at": created_at,
    }


def wrong_with_events(fields: Fields, expected: int | None) -> str | None:
    """What is wrong with a line of events, of which `expected` is the index that is to come; without it no run is."""
    if expected is None:
        return "events of a run that is not there"
    if fields["first_index"] != expected:
        return f"the events from {fields['first_index']} on of a run; those from {expected} on are missing"
    if fields["count"] < 1 or not 0 <= fields["size"] <= _LARGEST:
        return f"{fields['count']} events of {fields['size']} bytes in a line"
    try:
        payload = base64.b64decode(fields["payload"], validate=True)
        run_group.read(payload, fields["form"], fields["count"], fields["size"])
    except ValueError as error:
        return f"the events of a run cannot be read: {error}"
    return None


def interrupts_of(space_id: str, session_id: str, run_id: str) -> Steps[list[Fields]]:
    """The interrupts of a run, whose id is given as it is kept."""
    names = [column.name for column in INTERRUPT]
    rows = yield _INTERRUPTS, {"space_id": space_id, "session_id": session_id, "run_id": run_id}
    return [dict(zip(names, row, strict=True)) for row in rows]


def forget(space_id: str, session_id: str) -> Steps[None]:
    """Remove what is left of an import that was stopped."""
    for statement in _FORGET:
        yield statement, {"space_id": space_id, "session_id": session_id}


def put_events(space_id: str, session_id: str, lines: Sequence[Fields]) -> Steps[None]:
    """Bring the events of runs."""
    place = {"space_id": space_id, "session_id": session_id}
    rows = [{**line, **place, "payload": base64.b64decode(line["payload"])} for line in lines]
    yield _INSERT_EVENTS, [tuple(row[column.name] for column in _INSERT_EVENTS.columns) for row in rows]


def put_interrupts(space_id: str, session_id: str, lines: Sequence[Fields]) -> Steps[None]:
    """Bring what runs have asked."""
    if lines:
        rows = [{**line, "space_id": space_id, "session_id": session_id} for line in lines]
        yield _INSERT_INTERRUPTS, [tuple(row[column.name] for column in interrupts.c) for row in rows]
