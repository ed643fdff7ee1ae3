"""Access tokens: only a digest of the secret is kept."""

import hashlib
import secrets
from dataclasses import dataclass

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

    def is_live(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new_secret() -> str:
    """A secret of 256 bits, recognisable by its prefix."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is stored in place of the secret. A random secret of 256 bits needs no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
