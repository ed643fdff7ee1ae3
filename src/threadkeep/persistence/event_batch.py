"""Batches of events on the wire: how many fit, and changes with the tokens that guard them. Pure."""

from collections.abc import Iterable
from typing import cast

from threadkeep.contract.events import Event, EventFields, EventPatch

MAX_BATCH_EVENTS = 200


def check_batch(count: int) -> None:
    """Raises ValueError where a batch is empty or too large."""
    if count == 0:
        raise ValueError("A batch holds at least one event")
    if count > MAX_BATCH_EVENTS:
        raise ValueError(f"{count} events in one request; the limit is {MAX_BATCH_EVENTS}")


def build_patches(session_id: str, changes: Iterable[tuple[str, Event, EventFields]]) -> list[EventPatch]:
    """The items of a batch of changes, each with its token.

    Args:
        session_id: the session that the batch is for.
        changes: the session of each event, its row, and what is to be different.

    Raises:
        ValueError: an event is of another session or comes twice, or there are none or too many.
    """
    patches: dict[int, EventPatch] = {}
    for of_session, row, fields in changes:
        number = row["sequenceId"]
        if of_session != session_id:
            raise ValueError(f"Event {number} belongs to another session")
        if number in patches:
            raise ValueError(f"Event {number} comes twice in one batch")
        patches[number] = cast(EventPatch, {**fields, "sequenceId": number, "createdAt": row["createdAt"]})
    check_batch(len(patches))
    return [*patches.values()]
