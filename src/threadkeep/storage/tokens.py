"""Users and tokens in the database: statements and operations. Nothing here commits."""

from sqlalchemy import bindparam, insert, or_, select, update

from threadkeep.domain.token import SCOPES, USE_US, Token
from threadkeep.storage import text
from threadkeep.storage.statement import Row, Statement, Steps, insert_unless_taken
from threadkeep.storage.tables import tokens, users

_COLUMNS = (
    tokens.c.token_id,
    tokens.c.name,
    tokens.c.user_id,
    tokens.c.tenant_id,
    tokens.c.may_act_for,
    tokens.c.created_at,
    tokens.c.expires_at,
    tokens.c.revoked_at,
    tokens.c.scopes,
    tokens.c.last_used_at,
)


_INSERT_USER = insert_unless_taken(users, users.c.user_id)
_USER_BY_NAME = Statement(select(users.c.user_id, users.c.tenant_id).where(users.c.name == bindparam("name")))
_TENANT = Statement(select(users.c.tenant_id).order_by(users.c.created_at).limit(1))
_INSERT = Statement(insert(tokens))
_BY_DIGEST = Statement(select(*_COLUMNS).where(tokens.c.digest == bindparam("digest")))
_ALL = Statement(select(*_COLUMNS).order_by(tokens.c.token_id))
_ANY = Statement(select(tokens.c.token_id).where(tokens.c.revoked_at.is_(None)).limit(1))
_REVOKE = Statement(
    update(tokens)
    .where(tokens.c.token_id == bindparam("id"), tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("now"))
    .returning(tokens.c.token_id)
)
# Many processes may have seen the same token; the first one writes.
_USED = Statement(
    update(tokens)
    .where(
        tokens.c.token_id == bindparam("id"),
        or_(tokens.c.last_used_at.is_(None), tokens.c.last_used_at <= bindparam("before")),
    )
    .values(last_used_at=bindparam("now"))
)


def ensure_user(name: str, user_id: str, tenant_id: str, now: int) -> Steps[tuple[str, str]]:
    """The ids of the user and tenant of that name, made from those given where there is none."""
    kept = text.encode(name)
    first = yield _TENANT, {}
    tenant = first[0][0] if first else tenant_id
    yield _INSERT_USER, {"user_id": user_id, "tenant_id": tenant, "name": kept, "created_at": now}
    ((found_user, found_tenant),) = yield _USER_BY_NAME, {"name": kept}
    return found_user, found_tenant


def create(token: Token, digest: str) -> Steps[None]:
    yield (
        _INSERT,
        {
            "token_id": token.id,
            "digest": digest,
            "name": text.encode(token.name),
            "user_id": token.user_id,
            "tenant_id": token.tenant_id,
            "may_act_for": int(token.may_act_for),
            "created_at": token.created_at,
            "expires_at": token.expires_at,
            "revoked_at": token.revoked_at,
            "scopes": "" if token.scopes == SCOPES else ",".join(sorted(token.scopes)),
            "last_used_at": token.last_used_at,
        },
    )


def by_digest(digest: str) -> Steps[Token | None]:
    rows = yield _BY_DIGEST, {"digest": digest}
    return _token(rows[0]) if rows else None


def all_tokens() -> Steps[list[Token]]:
    rows = yield _ALL, {}
    return [_token(row) for row in rows]


def any_live() -> Steps[bool]:
    """Whether there is a token that was not revoked."""
    return bool((yield _ANY, {}))


def revoke(token_id: str, now: int) -> Steps[bool]:
    """Returns whether there was such a token, not revoked yet."""
    return bool((yield _REVOKE, {"id": token_id, "now": now}))


def used(token_id: str, now: int) -> Steps[None]:
    """Note a use, unless one was noted within the last minute."""
    yield _USED, {"id": token_id, "now": now, "before": now - USE_US}


def _token(row: Row) -> Token:
    token_id, name, user_id, tenant_id, may_act_for, created_at, expires_at, revoked_at, scopes, last_used_at = row
    return Token(
        token_id,
        text.decode(name),
        user_id,
        tenant_id,
        bool(may_act_for),
        created_at,
        expires_at,
        revoked_at,
        frozenset(scopes.split(",")) if scopes else SCOPES,
        last_used_at,
    )
