"""Users and their tokens: who may call, and as whom."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from threadkeep import clock, ids
from threadkeep.domain import limits
from threadkeep.domain.principal import Principal
from threadkeep.domain.token import SCOPES, Token, digest, is_use_due, new_secret
from threadkeep.errors import Invalid, NotFound, Unauthorized, Unavailable
from threadkeep.storage import tokens
from threadkeep.storage.database import Database

_CACHE_US = 2_000_000
"""Microseconds for which a token that was looked up is believed: what a revocation takes to reach other processes."""
_OUTAGE_US = 600_000_000
"""Microseconds for which it is believed while the database gives no answer: a run is to be cancelled even then."""
_PATIENCE_SECONDS = 1.0
"""How long a database that hangs is waited for until a token is believed as it was."""
_CACHED = 10_000
_NAME = 200
_log = logging.getLogger("threadkeep.tokens")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A token that was looked up, when, and whom it stands for."""

    at: int
    token: Token
    principal: Principal


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[str, _Seen] = {}
        self._used: dict[str, int] = {}
        self._noting: set[asyncio.Task[None]] = set()
        self._finding: dict[str, asyncio.Task[_Seen]] = {}

    async def close(self) -> None:
        """Stop looking, and finish what is being written down."""
        stopped = [*self._finding.values()]
        for finding in stopped:
            finding.cancel()
        if stopped:
            await asyncio.wait(stopped)
        await asyncio.gather(*self._noting)

    async def local_principal(self, name: str = "local") -> Principal:
        """The user of that name, made where there is none. Raises Invalid."""
        limits.check_text(name, _NAME, "user", minimum=1)
        user_id, tenant_id = await self._database.write(
            lambda: tokens.ensure_user(name, ids.new_user_id(), ids.new_id(), clock.now())
        )
        return Principal(user_id, tenant_id)

    async def create(
        self,
        *,
        user: str,
        name: str,
        secret: str | None = None,
        expires_in: int | None = None,
        may_act_for: bool = False,
        scopes: Collection[str] = SCOPES,
    ) -> tuple[Token, str]:
        """Make a token for the user of that name. Returns it with its secret, which is kept nowhere.

        `expires_in` is in seconds; `scopes` are the kinds of call that it is for. Raises Invalid.
        """
        limits.check_text(name, _NAME, "name", minimum=1)
        if not scopes or not SCOPES.issuperset(scopes):
            raise Invalid(f"A scope is one of {', '.join(sorted(SCOPES))}", ["scopes"])
        owner = await self.local_principal(user)
        now = clock.now()
        secret = secret or new_secret()
        expires_at = None if expires_in is None else now + expires_in * 1_000_000
        token = Token(
            ids.new_id(),
            name,
            owner.user_id,
            owner.tenant_id,
            may_act_for,
            now,
            expires_at,
            None,
            frozenset(scopes),
        )
        await self._database.write(lambda: tokens.create(token, digest(secret)))
        return token, secret

    async def ensure(self, secret: str, *, user: str = "admin", name: str = "configured") -> None:
        """Make sure that the operator's own secret is a token. Raises Invalid."""
        if await self._database.read(lambda: tokens.by_digest(digest(secret))) is None:
            await self.create(user=user, name=name, secret=secret)

    async def any_live(self) -> bool:
        """Whether there is a token that was not revoked."""
        return await self._database.read(tokens.any_live)

    async def all(self) -> list[Token]:
        """All tokens, oldest first."""
        return await self._database.read(tokens.all_tokens)

    async def revoke(self, token_id: str) -> None:
        """Raises NotFound where there is no such token, or it was revoked before."""
        self._seen.clear()
        if not await self._database.write(lambda: tokens.revoke(token_id, clock.now())):
            raise NotFound(f"There is no live token {token_id!r}")

    async def authenticate(self, authorization: str | None, on_behalf_of: str | None = None) -> Principal:
        """Who is calling.

        `on_behalf_of` names a user of the caller's own, for which the token needs the right.
        While the database gives no answer, a token that it knew in the last ten minutes is good as it was.
        Raises Unauthorized, Invalid, Unavailable.
        """
        principal = await self._look_up(authorization or "")
        return principal if on_behalf_of is None else _acting_for(principal, on_behalf_of)

    async def _look_up(self, authorization: str) -> Principal:
        now = clock.now()
        seen = self._seen.get(authorization)
        if seen is None or now - seen.at > _OUTAGE_US:
            seen = await self._find(authorization, now)
        elif now - seen.at > _CACHE_US:
            seen = await self._find_again(authorization, seen, now)
        if not seen.token.is_live(now):
            raise Unauthorized("The token was revoked or has expired")
        return seen.principal

    async def _find_again(self, authorization: str, seen: _Seen, now: int) -> _Seen:
        """What the database says now, or `seen` where it gives no answer in time. Raises Unauthorized."""
        finding = self._finding.get(authorization)
        if finding is None:
            finding = self._finding[authorization] = asyncio.create_task(self._find(authorization, now))
            finding.add_done_callback(partial(self._found, authorization))
        # Left to itself where it takes longer: whoever asks next may find it done.
        done, _ = await asyncio.wait({finding}, timeout=_PATIENCE_SECONDS)
        if not done or finding.cancelled() or isinstance(finding.exception(), Unavailable):
            return seen
        return finding.result()

    def _found(self, authorization: str, finding: asyncio.Task[_Seen]) -> None:
        del self._finding[authorization]
        if not finding.cancelled() and isinstance(error := finding.exception(), Unavailable):
            _log.info("a token is believed as it was: %s", error)

    async def _find(self, authorization: str, now: int) -> _Seen:
        """What the database says of a token, and remember it. Raises Unauthorized, Unavailable."""
        key = digest(_secret_of(authorization))
        token = await self._database.read(lambda: tokens.by_digest(key))
        if token is None:
            raise Unauthorized("The token is unknown")
        if len(self._seen) >= _CACHED:
            self._seen.clear()
        principal = Principal(token.user_id, token.tenant_id, token.id, token.may_act_for, token.scopes)
        seen = self._seen[authorization] = _Seen(now, token, principal)
        if token.is_live(now):
            self._note_use(token, now)
        return seen

    def _note_use(self, token: Token, now: int) -> None:
        """Write down that the token is in use, a minute after the last time; the request does not wait for it."""
        if not (is_use_due(token.last_used_at, now) and is_use_due(self._used.get(token.id), now)):
            return
        if len(self._used) >= _CACHED:
            self._used.clear()
        self._used[token.id] = now
        task = asyncio.create_task(self._write_use(token.id, now))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _write_use(self, token_id: str, now: int) -> None:
        try:
            await self._database.write(lambda: tokens.used(token_id, now))
        except Exception as error:
            _log.warning("could not note the use of token %s: %s", token_id, type(error).__name__)


def _secret_of(authorization: str) -> str:
    """`Bearer T` and `Token T` are the same. Raises Unauthorized."""
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() not in ("bearer", "token") or not secret.strip():
        raise Unauthorized("Give a token: Authorization: Bearer TOKEN")
    return secret.strip()


def _acting_for(principal: Principal, user: str) -> Principal:
    if not principal.may_act_for:
        raise Unauthorized("This token may not act for other users (make one with --act-for)")
    if not user or len(user) > _NAME:
        raise Invalid(f"X-Threadkeep-User takes 1 to {_NAME} characters", ["header", "X-Threadkeep-User"])
    user_id = ids.derived_user_id(principal.tenant_id, principal.user_id, user)
    return Principal(user_id, principal.tenant_id, principal.token_id, scopes=principal.scopes)
