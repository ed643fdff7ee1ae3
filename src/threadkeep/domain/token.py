"""Access tokens: only a digest of the secret is kept."""

import hashlib
import secrets
from dataclasses import dataclass

READ = "read"
WRITE = "write"
SCOPES = frozenset((READ, WRITE))
"""What a token may be for: calls that change nothing, and calls that do. Most are for both."""
USE_US = 60_000_000
"""Microseconds in which one use of a token stands for all."""
_PREFIX = "tk_"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept; times are in microseconds since 1970."""

    id: str
    name: str
    user_id: str
    tenant_id: str
    may_act_for: bool
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    scopes: frozenset[str] = SCOPES
    last_used_at: int | None = None
    """Not to the second: it is written once a minute at most."""

    def is_live(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def is_use_due(last_used_at: int | None, now: int) -> bool:
    """Whether a use now is worth writing down."""
    return last_used_at is None or now - last_used_at >= USE_US


def new_secret() -> str:
    """A secret of 256 bits, recognisable by its prefix."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is stored in place of the secret. A random secret of 256 bits needs no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
