"""The history of memories: a line for each change, numbered from 1. Nothing here commits.

It outlives the deletion of its memory, and goes when the memory is purged or erased.
"""

from collections.abc import Sequence

from sqlalchemy import bindparam, func, select
from sqlalchemy.types import Text

from threadkeep.domain.memory import HistoryEntry, Memory, MemorySource, sources_from_json, sources_to_json
from threadkeep.storage import text
from threadkeep.storage.statement import InsertMany, Statement, Steps
from threadkeep.storage.tables import memory_history

_AT_SPACE = bindparam("at_space", type_=Text)
_AT_MEMORY = bindparam("at_memory", type_=Text)
_INSERT = InsertMany(memory_history, list(memory_history.c))
_LAST_NUMBER = Statement(
    select(func.max(memory_history.c.number)).where(
        memory_history.c.space_id == _AT_SPACE, memory_history.c.memory_id == _AT_MEMORY
    )
)
_HISTORY = Statement(
    select(
        memory_history.c.number,
        memory_history.c.event,
        memory_history.c.old_text,
        memory_history.c.new_text,
        memory_history.c.attributed_to,
        memory_history.c.sources,
        memory_history.c.created_at,
    )
    .where(memory_history.c.space_id == _AT_SPACE, memory_history.c.memory_id == _AT_MEMORY)
    .order_by(memory_history.c.number)
)


def history(space_id: str, memory_id: str) -> Steps[list[HistoryEntry]]:
    """What happened to the memory, in order: also of one that was deleted and is not purged yet."""
    return [
        HistoryEntry(
            number,
            event,
            text.decode_optional(old_text),
            text.decode_optional(new_text),
            text.decode_optional(attributed_to),
            sources_from_json(sources),
            created_at,
        )
        for number, event, old_text, new_text, attributed_to, sources, created_at in (
            yield (
                _HISTORY,
                {"at_space": space_id, "at_memory": memory_id},
            )
        )
    ]


def note(
    memory: Memory,
    event: str,
    old_text: str | None,
    new_text: str | None,
    attributed_to: str | None,
    sources: Sequence[MemorySource],
    at: int,
) -> Steps[None]:
    """Add a line. Whoever calls this holds the version of the space, so that no two lines have one number."""
    ((last,),) = yield _LAST_NUMBER, {"at_space": memory.space_id, "at_memory": memory.id}
    yield (
        _INSERT,
        [
            (
                memory.space_id,
                memory.id,
                (last or 0) + 1,
                event,
                text.encode_optional(old_text),
                text.encode_optional(new_text),
                text.encode_optional(attributed_to),
                sources_to_json(sources),
                at,
            )
        ],
    )
