"""The vectors of memories: float32, each of the model that is named with it. Nothing here commits."""

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, delete, func, select, tuple_
from sqlalchemy.types import BigInteger, Text

from threadkeep.domain.job import EMBEDDING
from threadkeep.storage import jobs, memory_versions, text
from threadkeep.storage.statement import InsertMany, Statement, Steps
from threadkeep.storage.tables import memories, memory_vectors

Place = tuple[int, str]
"""How far the vectors of a space were read: the version and the memory of the last."""
START: Place = (0, "")

_AT_SPACE = bindparam("at_space", type_=Text)
_AT_MEMORY = bindparam("at_memory", type_=Text)
_MODEL = bindparam("model", type_=Text)
_LIMIT = bindparam("limit", type_=BigInteger)
_WITHOUT = Statement(
    select(memories.c.memory_id, memories.c.text, memories.c.digest)
    .join(
        memory_vectors,
        and_(
            memory_vectors.c.space_id == memories.c.space_id,
            memory_vectors.c.memory_id == memories.c.memory_id,
            memory_vectors.c.model == _MODEL,
        ),
        isouter=True,
    )
    .where(
        memories.c.space_id == _AT_SPACE,
        memories.c.deleted_at.is_(None),
        memories.c.memory_id > bindparam("after", type_=Text),
        memory_vectors.c.memory_id.is_(None),
    )
    .order_by(memories.c.memory_id)
    .limit(_LIMIT)
)
_SAYS = Statement(
    select(memories.c.memory_id).where(
        memories.c.space_id == _AT_SPACE,
        memories.c.memory_id == _AT_MEMORY,
        memories.c.digest == bindparam("digest", type_=Text),
        memories.c.deleted_at.is_(None),
    )
)
_REMOVE = Statement(
    delete(memory_vectors).where(memory_vectors.c.space_id == _AT_SPACE, memory_vectors.c.memory_id == _AT_MEMORY)
)
_INSERT = InsertMany(memory_vectors, list(memory_vectors.c))
_READ_ON = Statement(
    select(memory_vectors.c.version, memory_vectors.c.memory_id, memory_vectors.c.vector)
    .where(
        memory_vectors.c.space_id == _AT_SPACE,
        tuple_(memory_vectors.c.version, memory_vectors.c.memory_id)
        > tuple_(bindparam("after_version", type_=BigInteger), bindparam("after_memory", type_=Text)),
        memory_vectors.c.model == _MODEL,
    )
    .order_by(memory_vectors.c.version, memory_vectors.c.memory_id)
    .limit(_LIMIT)
)
_IDS = Statement(
    select(memory_vectors.c.memory_id).where(memory_vectors.c.space_id == _AT_SPACE, memory_vectors.c.model == _MODEL)
)
_COUNT = Statement(select(func.count()).select_from(memory_vectors).where(memory_vectors.c.space_id == _AT_SPACE))
_OTHER_MODELS = Statement(
    select(memory_vectors.c.space_id).where(memory_vectors.c.model != _MODEL).distinct().limit(_LIMIT)
)


def want(space_id: str, now: int) -> Steps[None]:
    """Let the memories of the space get vectors soon."""
    yield from jobs.put_once(space_id, "", EMBEDDING, now, now)
    yield from jobs.wake(space_id, "", EMBEDDING, now)


def without(space_id: str, model: str, after: str, limit: int) -> Steps[list[tuple[str, str, str]]]:
    """Memories behind the id `after` that have no vector of the model: the id, the text, and the digest of it."""
    rows = yield _WITHOUT, {"at_space": space_id, "model": model, "after": after, "limit": limit}
    return [(memory_id, text.decode(said), digest) for memory_id, said, digest in rows]


def put(space_id: str, model: str, made: Sequence[tuple[str, str, bytes]]) -> Steps[int]:
    """Keep vectors, each for a memory that still says what it was made of (its digest). Returns how many were kept.

    Raises NotFound where the space is gone.
    """
    version = yield from memory_versions.take(space_id)
    kept = 0
    for memory_id, digest, vector in made:
        at = {"at_space": space_id, "at_memory": memory_id}
        if (yield _SAYS, {**at, "digest": digest}):
            yield _REMOVE, at
            yield _INSERT, [(space_id, memory_id, model, vector, version)]
            kept += 1
    return kept


def forget(space_id: str, memory_id: str) -> Steps[None]:
    """Remove the vector of a memory that goes, or says something else from now on."""
    yield _REMOVE, {"at_space": space_id, "at_memory": memory_id}


def read_on(space_id: str, model: str, after: Place, limit: int) -> Steps[list[tuple[int, str, bytes]]]:
    """Vectors behind a place, in order: the version, the memory, the values."""
    values = {"at_space": space_id, "model": model, "after_version": after[0], "after_memory": after[1]}
    return [(row[0], row[1], bytes(row[2])) for row in (yield _READ_ON, {**values, "limit": limit})]


def count(space_id: str) -> Steps[int]:
    """The vectors of the space, of whatever model."""
    ((total,),) = yield _COUNT, {"at_space": space_id}
    return int(total)


def ids(space_id: str, model: str) -> Steps[list[str]]:
    """The memories of the space that have a vector of the model."""
    return [memory_id for (memory_id,) in (yield _IDS, {"at_space": space_id, "model": model})]


def spaces_of_other_models(model: str, limit: int) -> Steps[list[str]]:
    """Spaces in which memories have vectors of another model."""
    return [space_id for (space_id,) in (yield _OTHER_MODELS, {"model": model, "limit": limit})]
