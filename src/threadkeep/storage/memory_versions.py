"""The version of a space's memories: taken first by whoever changes them, and what has changed since. Nothing commits.

So changes come one after the other, and their versions become visible in order: whoever holds memories of a space, in
whatever process, sees by one number whether they have changed, and reads on from the version that it has.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlalchemy.types import BigInteger, Text

from threadkeep.errors import NotFound
from threadkeep.storage import text
from threadkeep.storage.statement import Insert, Statement, Steps
from threadkeep.storage.tables import memories, spaces
from threadkeep.storage.tables import memory_versions as version_rows

_AT_SPACE = bindparam("at_space", type_=Text)
_HOLD_SPACE = Statement(
    select(spaces.c.space_id)
    .where(spaces.c.space_id == _AT_SPACE, spaces.c.deleted_at.is_(None))
    # Nobody closes the space until this transaction ends, and so nothing is left behind in one that was removed.
    .with_for_update(read=True)
)


def _next_version(dialect_insert: Insert) -> Any:
    put = dialect_insert(version_rows).values(space_id=bindparam("space_id"), version=1, removed=0)
    later = version_rows.c.version + 1
    return put.on_conflict_do_update(index_elements=[version_rows.c.space_id], set_={"version": later}).returning(
        version_rows.c.version
    )


_NEXT_VERSION = Statement(_next_version)
_TAKEN_AWAY = Statement(
    update(version_rows)
    .where(version_rows.c.space_id == _AT_SPACE)
    .values(removed=bindparam("new_removed", type_=BigInteger))
)
_CHANGES = Statement(
    select(memories.c.version, memories.c.memory_id, memories.c.text, memories.c.deleted_at).where(
        memories.c.space_id == _AT_SPACE, memories.c.version > bindparam("after", type_=BigInteger)
    )
)
_STATE = Statement(select(version_rows.c.version, version_rows.c.removed).where(version_rows.c.space_id == _AT_SPACE))


@dataclass(frozen=True, slots=True)
class VersionState:
    """The version of a space's memories, and the one at which some were last removed for good."""

    version: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A memory that changed in a version of its space; `text` is None where it went."""

    version: int
    memory_id: str
    text: str | None


def state(space_id: str) -> Steps[VersionState]:
    rows = yield _STATE, {"at_space": space_id}
    return VersionState(*rows[0]) if rows else VersionState()


def take(space_id: str) -> Steps[int]:
    """Take the space's memories for this transaction alone. Raises NotFound where the space is gone."""
    if not (yield _HOLD_SPACE, {"at_space": space_id}):
        raise NotFound(f"There is no memory space {space_id!r}")
    ((version,),) = yield _NEXT_VERSION, {"space_id": space_id}
    return int(version)


def take_away(space_id: str) -> Steps[None]:
    """Remove memories for good, from a space that may be deleted: who holds them has to look which are left."""
    ((version,),) = yield _NEXT_VERSION, {"space_id": space_id}
    yield _TAKEN_AWAY, {"at_space": space_id, "new_removed": version}


def changes(space_id: str, after: int) -> Steps[list[Change]]:
    """The memories that came, went or said something else in later versions than this one."""
    rows = yield _CHANGES, {"at_space": space_id, "after": after}
    return [
        Change(version, memory_id, text.decode(said) if deleted_at is None else None)
        for version, memory_id, said, deleted_at in rows
    ]
