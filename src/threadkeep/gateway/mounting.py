"""The gateway as a part of somebody else's ASGI application, under any path, with that application's own users.

A server runs the lifespan of its outermost application only, so that what is mounted opens at its first request, or
where the host's lifespan says so. What runs in a process that ends without closing is ended by its lease.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from threadkeep.api import errors as error_table
from threadkeep.api.app import create_app as create_memory_service
from threadkeep.api.errors import json_response
from threadkeep.chat_history import AGUIAgent
from threadkeep.chat_history.bounded import BoundedCache
from threadkeep.domain.principal import Principal
from threadkeep.errors import Invalid, ThreadkeepError, Unauthorized, Unavailable
from threadkeep.gateway.agents import AgentSource, BadAgent, agents_of, load_agent
from threadkeep.gateway.app import build_app
from threadkeep.gateway.paths import below_mount
from threadkeep.gateway.upstream import Upstream, check_url
from threadkeep.services.container import Container
from threadkeep.settings import CLIENT_MESSAGES, OPEN_INTERRUPTS, RUN_POLICIES, Settings
from threadkeep.storage.database import check_database_url
from threadkeep.workers.runner import working

Authenticate = Callable[[Request], str | Awaitable[str | None] | None]
"""From a request to the name of the user who sends it; None is nobody. It sees all of the request but its body."""

_USER = "threadkeep.user"
_USERS = 1_000
_log = logging.getLogger("threadkeep.gateway")


def create_app(
    *,
    agent: AGUIAgent | Callable[[], AGUIAgent] | str | None = None,
    upstream: str | None = None,
    upstream_headers: Mapping[str, str] | None = None,
    database: str | None = None,
    authenticate: Authenticate | None = None,
    settings: Settings | None = None,
) -> "Gateway":
    """The AG-UI gateway as an ASGI application, to be mounted in another one or served alone.

    ```python
    gateway = create_app(agent=make_agent, database="sqlite:///chats.db", authenticate=user_of)

    @asynccontextmanager
    async def lifespan(app):
        async with gateway:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/agui", gateway)
    ```

    Nothing is opened here: the database is at the first request, or where `async with gateway` begins.

    Args:
        agent: What carries out the runs: an AGUIAgent, a class or function that makes one for each run, or
            `module:attribute`. A function is called once to see what it makes.
        upstream: The URL of an AG-UI server that carries them out instead.
        upstream_headers: Sent to that server with every run.
        database: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`; that of the settings where it is None.
        authenticate: Who sends a request, by your application's own rules; plain or async. It is given a Starlette
            `Request` without its body, and returns the name of a user, or None for a 401. What it raises is your
            application's to answer. Users go by these names everywhere in the database: `threadkeep token create
            --user NAME` makes a token for the same threads. Without it a request needs one of those tokens.
        settings: Everything else that `threadkeep serve` can be told. `host`, `port`, `token`, `workers` and what is
            about logs mean nothing here.

    Raises:
        BadAgent: There is no agent, more than one, or what was given is none.
        BadDatabaseURL: The URL names no database.
        MissingExtra: The `postgres` extra is not installed, and the URL is PostgreSQL's.
        Invalid: A setting has a value that it cannot have.
        TypeError: An argument is of a wrong type.
    """
    if authenticate is not None and not callable(authenticate):
        raise TypeError(f"authenticate is a function from a request to a user, not {type(authenticate).__name__}")
    if settings is not None and not isinstance(settings, Settings):
        raise TypeError(f"settings is a threadkeep.settings.Settings, not {type(settings).__name__}")
    if not isinstance(database, str | None):
        raise TypeError(f"database is a URL, not {type(database).__name__}")
    settings = settings or Settings()
    settings = replace(settings, database=settings.database if database is None else database)
    check_database_url(settings.database)
    _check_settings(settings)
    given = settings.agent if agent is None and upstream is None else agent
    url = settings.upstream if agent is None and upstream is None else upstream
    return Gateway(settings, _source_of(given, url, upstream_headers), authenticate)


class Gateway:
    """What `create_app` makes: an ASGI application that opens what it needs, and closes it when it is told to.

    `async with gateway` opens and closes it; so do `open()` and `aclose()`. As the outermost application it does both
    at the lifespan events of its server. One that was closed answers 503 until it is opened again.
    """

    def __init__(
        self, settings: Settings, make_source: Callable[[], AgentSource], authenticate: Authenticate | None
    ) -> None:
        self._settings = settings
        self._make_source = make_source
        self._authenticate = authenticate
        self._opening: asyncio.Task[_Opened] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Open the database, bring its schema up to date, and end the runs that earlier processes have left behind.

        Raises Unavailable, SchemaTooNew and other errors of the family.
        """
        self._is_closed = False
        await self._opened()

    async def aclose(self) -> None:
        """Stop the runs of this process, let what they said be stored, and let go of the database.

        Closing twice is closing once.
        """
        self._is_closed = True
        opening, self._opening = self._opening, None
        if opening is None or opening.get_loop() is not asyncio.get_running_loop():
            return
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        scope = below_mount(scope)
        if scope["type"] == "http" and self._authenticate is not None:
            scope[_USER] = await self._user_of(Request(scope), self._authenticate)
        try:
            opened = await self._opened()
        except Unavailable as error:
            await error_table.answer(error)(scope, receive, send)
            return
        except ThreadkeepError:
            _log.exception("the gateway cannot be opened")
            detail = "The gateway cannot be opened; the server's log says why"
            await json_response({"detail": detail}, 500)(scope, receive, send)
            return
        await opened.app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _user_of(self, request: Request, authenticate: Authenticate) -> str | ThreadkeepError | None:
        """The user's name, or our own error that says why there is none."""
        try:
            user = authenticate(request)
            if inspect.isawaitable(user):
                user = await user
        except ThreadkeepError as error:
            return error
        if not isinstance(user, str | None):
            raise TypeError(f"authenticate is to return the name of a user or None, not {type(user).__name__}")
        return user

    async def _opened(self) -> "_Opened":
        """All requests wait for one opening, which goes on where one of them leaves; a failed one is tried again."""
        if self._is_closed:
            raise Unavailable("The gateway is closed")
        loop = asyncio.get_running_loop()
        if self._opening is not None and self._opening.get_loop() is not loop:
            if not self._opening.get_loop().is_closed():
                raise RuntimeError("The gateway is open in another event loop; make one for each loop")
            self._opening = None
        if self._opening is None:
            self._opening = loop.create_task(_open(self._settings, self._make_source, self._authenticate is not None))
            self._opening.add_done_callback(self._forget_failure)
        return await asyncio.shield(self._opening)

    def _forget_failure(self, opening: "asyncio.Task[_Opened]") -> None:
        if self._opening is opening and (opening.cancelled() or opening.exception() is not None):
            self._opening = None


@dataclass(frozen=True, slots=True)
class _Opened:
    """What is open, and how it is closed."""

    app: ASGIApp
    close: Callable[[], Awaitable[None]]


async def _open(settings: Settings, make_source: Callable[[], AgentSource], has_users: bool) -> _Opened:
    async with AsyncExitStack() as stack:
        container = await Container.open(settings)
        stack.push_async_callback(container.close)
        source = make_source()
        stack.push_async_callback(source.aclose)
        if settings.work:
            await stack.enter_async_context(working(container))
        identify = _Users(container).principal if has_users else None
        app = build_app(
            container, create_memory_service(container), source, prefix="", identify=identify, has_probes=False
        )
        await stack.enter_async_context(app.router.lifespan_context(app))
        return _Opened(app, stack.pop_all().aclose)


class _Users:
    """The principals of the users that the host names."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._known: BoundedCache[str, Principal] = BoundedCache(_USERS)

    async def principal(self, request: Request) -> Principal:
        """Raises Unauthorized, Invalid, or what the host's own function has raised of our family."""
        user = request.scope[_USER]
        if isinstance(user, ThreadkeepError):
            raise user
        if user is None:
            raise Unauthorized("Nobody is signed in")
        principal = self._known.get(user)
        if principal is None:
            principal = await self._container.tokens.local_principal(user)
            self._known.put(user, principal)
        return principal


def _source_of(agent: object, upstream: str | None, headers: Mapping[str, str] | None) -> Callable[[], AgentSource]:
    """What makes the source of agents when the gateway opens. Raises BadAgent."""
    if (agent is None) == (upstream is None):
        raise BadAgent("Give an agent or the URL of an upstream, and not both")
    if upstream is not None:
        url = check_url(upstream)
        return lambda: Upstream(url, headers=headers)
    if headers is not None:
        raise BadAgent("upstream_headers go to an upstream, and an agent is none")
    local = load_agent(agent) if isinstance(agent, str) else agents_of(agent)
    return lambda: local


def _check_settings(settings: Settings) -> None:
    if settings.client_messages not in CLIENT_MESSAGES:
        raise Invalid(f"client_messages is one of {', '.join(CLIENT_MESSAGES)}, not {settings.client_messages!r}")
    if settings.run_policy not in RUN_POLICIES:
        raise Invalid(f"run_policy is one of {', '.join(RUN_POLICIES)}, not {settings.run_policy!r}")
    if settings.open_interrupts not in OPEN_INTERRUPTS:
        raise Invalid(f"open_interrupts is one of {', '.join(OPEN_INTERRUPTS)}, not {settings.open_interrupts!r}")
    for name in ("run_lease", "run_bytes", "max_content", "max_request_bytes", "database_connections"):
        value = getattr(settings, name)
        if not isinstance(value, int) or value < 1:
            raise Invalid(f"{name} is a whole number from 1 on, not {value!r}")
