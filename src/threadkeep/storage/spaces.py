"""Spaces in the database: statements and operations. Nothing here commits."""

from typing import Any

from sqlalchemy import CTE, ColumnElement, and_, bindparam, case, func, literal_column, select, update

from threadkeep.domain.space import Space
from threadkeep.storage import text
from threadkeep.storage.statement import Row, Statement, Steps, insert_or_find, insert_unless_taken
from threadkeep.storage.tables import spaces

_COLUMNS = (
    spaces.c.space_id,
    spaces.c.user_id,
    spaces.c.tenant_id,
    spaces.c.description,
    spaces.c.llm_model_name,
    spaces.c.llm_base_url,
    spaces.c.custom_instructions,
    spaces.c.deduplication_key,
    spaces.c.created_at,
)
_MINE = and_(spaces.c.user_id == bindparam("user_id"), spaces.c.deleted_at.is_(None))
_THIS = and_(spaces.c.space_id == bindparam("space_id"), _MINE)
_TEXTS = ("description", "llm_model_name", "llm_base_url", "custom_instructions")


_INSERT = insert_unless_taken(spaces, spaces.c.space_id, "deleted_at")
_GET = Statement(select(*_COLUMNS).where(_THIS))
_BY_KEY = Statement(select(spaces.c.space_id).where(_MINE, spaces.c.live_key == bindparam("key")))
_COUNT = Statement(select(func.count()).select_from(spaces).where(_MINE))
_LIST = Statement(
    select(*_COLUMNS)
    .where(_MINE)
    .order_by(spaces.c.space_id.desc())
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_LIST_AFTER = Statement(
    select(*_COLUMNS)
    .where(_MINE, spaces.c.space_id < bindparam("after"))
    .order_by(spaces.c.space_id.desc())
    .limit(bindparam("limit"))
)
_LIST_BY_KEY = Statement(select(*_COLUMNS).where(_MINE, spaces.c.live_key == bindparam("key")))
_PATCH = Statement(
    update(spaces)
    .where(spaces.c.space_id == bindparam("id"), spaces.c.user_id == bindparam("owner"), spaces.c.deleted_at.is_(None))
    .values(
        {
            name: case(
                (bindparam(f"has_{name}") == 1, bindparam(f"new_{name}", type_=spaces.c[name].type)),
                else_=spaces.c[name],
            )
            for name in _TEXTS
        }
    )
    .returning(*_COLUMNS)
)
_DELETE = Statement(
    update(spaces)
    .where(spaces.c.space_id == bindparam("id"), spaces.c.user_id == bindparam("owner"), spaces.c.deleted_at.is_(None))
    .values(deleted_at=bindparam("now"), live_key=None)
    .returning(spaces.c.space_id)
)


def is_theirs(wanted: CTE) -> ColumnElement[bool]:
    """Whether the space of a wanted row is there and belongs to its owner, in a statement about many of them."""
    return (
        select(literal_column("1"))
        .select_from(spaces)
        .where(spaces.c.space_id == wanted.c.space, spaces.c.user_id == wanted.c.owner, spaces.c.deleted_at.is_(None))
        .exists()
    )


def create(space: Space) -> Steps[str | None]:
    """Insert the space. Returns None, or the id of the live space that has its key."""
    key = text.encode_optional(space.deduplication_key)
    existing = yield from insert_or_find(
        _INSERT,
        {
            "space_id": space.id,
            "user_id": space.user_id,
            "tenant_id": space.tenant_id,
            **{name: text.encode_optional(getattr(space, name)) for name in _TEXTS},
            "deduplication_key": key,
            "live_key": key,
            "created_at": space.created_at,
        },
        _BY_KEY,
        {"user_id": space.user_id, "key": key},
    )
    return None if existing is None else str(existing[0])


def get(space_id: str, user_id: str) -> Steps[Space | None]:
    rows = yield _GET, {"space_id": space_id, "user_id": user_id}
    return _space(rows[0]) if rows else None


def page(
    user_id: str, key: str | None, offset: int, limit: int, after: str | None = None
) -> Steps[tuple[list[Space], int]]:
    """A page of the user's live spaces, newest first, and the number of all of them.

    `after` is the id of the last space that the caller has seen.
    """
    if key is not None:
        rows = yield _LIST_BY_KEY, {"user_id": user_id, "key": text.encode(key)}
        fresh = [row for row in rows if after is None or row[0] < after]
        return [_space(row) for row in fresh[offset : offset + limit]], len(rows)
    ((total,),) = yield _COUNT, {"user_id": user_id}
    if after is None:
        rows = yield _LIST, {"user_id": user_id, "limit": limit, "offset": offset}
    else:
        rows = yield _LIST_AFTER, {"user_id": user_id, "limit": limit, "after": after}
    return [_space(row) for row in rows], total


def patch(space_id: str, user_id: str, fields: dict[str, str | None]) -> Steps[Space | None]:
    """Set the text fields that are mentioned. Returns None where there is no such space."""
    values: dict[str, Any] = {"id": space_id, "owner": user_id}
    for name in _TEXTS:
        values[f"has_{name}"] = int(name in fields)
        values[f"new_{name}"] = text.encode_optional(fields.get(name))
    rows = yield _PATCH, values
    return _space(rows[0]) if rows else None


def delete(space_id: str, user_id: str, now: int) -> Steps[bool]:
    """Soft-delete the space, and with it all in it: nothing is found in a space that is deleted.

    Returns whether it was there.
    """
    rows = yield _DELETE, {"id": space_id, "owner": user_id, "now": now}
    return bool(rows)


def _space(row: Row) -> Space:
    space_id, user_id, tenant_id, description, model, url, instructions, key, created_at = row
    texts = [text.decode_optional(kept) for kept in (description, model, url, instructions, key)]
    return Space(space_id, user_id, tenant_id, texts[0], texts[1], texts[2], texts[3], texts[4], created_at)
