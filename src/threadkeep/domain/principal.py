"""Who is asking."""

from dataclasses import dataclass

from threadkeep.domain.token import SCOPES


@dataclass(frozen=True, slots=True)
class Principal:
    """The user on whose behalf a call runs. What belongs to another user does not exist for them."""

    user_id: str
    """24 lower-case hex digits."""
    tenant_id: str
    """A UUID."""
    token_id: str | None = None
    may_act_for: bool = False
    """Whether the token may name another user of its tenant."""
    scopes: frozenset[str] = SCOPES
    """The kinds of call that the token is for."""
