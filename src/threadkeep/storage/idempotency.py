"""The first answers to requests that carry an Idempotency-Key. Nothing here commits.

A key is claimed before anything else is done, in the transaction of the change: whoever comes with the same key
meanwhile waits for its end, and then finds the answer, or a key that is free again.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, bindparam, select, update

from threadkeep.storage.statement import Statement, Steps, insert_or_find, insert_unless_taken
from threadkeep.storage.tables import idempotency_keys

_THIS = and_(
    idempotency_keys.c.space_id == bindparam("at_space"),
    idempotency_keys.c.user_id == bindparam("at_user"),
    idempotency_keys.c.idempotency_key == bindparam("at_key"),
)
_CLAIM = insert_unless_taken(idempotency_keys, idempotency_keys.c.idempotency_key)
_FIND = Statement(select(idempotency_keys.c.fingerprint, idempotency_keys.c.answer).where(_THIS))
_KEEP = Statement(update(idempotency_keys).where(_THIS).values(answer=bindparam("new_answer")))


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of the first request with a key."""

    fingerprint: str
    answer: str


def claim(space_id: str, user_id: str, key: str, fingerprint: str, now: int) -> Steps[Kept | None]:
    """Take the key, or find who had it first. Raises Unavailable."""
    row = {
        "space_id": space_id,
        "user_id": user_id,
        "idempotency_key": key,
        "fingerprint": fingerprint,
        "answer": "",
        "created_at": now,
    }
    found = yield from insert_or_find(_CLAIM, row, _FIND, _at(space_id, user_id, key))
    return None if found is None else Kept(found[0], found[1])


def keep(space_id: str, user_id: str, key: str, answer: str) -> Steps[None]:
    """Keep the answer of a request whose key was claimed in this transaction."""
    yield _KEEP, {**_at(space_id, user_id, key), "new_answer": answer}


def _at(space_id: str, user_id: str, key: str) -> dict[str, Any]:
    return {"at_space": space_id, "at_user": user_id, "at_key": key}
