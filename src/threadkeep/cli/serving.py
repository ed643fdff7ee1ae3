"""One process that serves: its application, its interpreter, and how it stops."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from threadkeep import __version__
from threadkeep.api.app import create_app
from threadkeep.api.cors import allow_origins
from threadkeep.services.container import Container
from threadkeep.services.health import Health
from threadkeep.settings import Settings
from threadkeep.storage.appends import compile_for
from threadkeep.telemetry import metrics
from threadkeep.workers.runner import working

_GC_THRESHOLD = 10_000
"""New objects after which the youngest are looked through; the default of 700 is for programs that hold little."""
_SWITCH_SECONDS = 0.0005
GRACE_SECONDS = 5
"""How long open requests and streams have to end after a signal to stop."""
IDLE_SECONDS = 75
"""How long a connection is kept that nobody uses: longer than load balancers (60 s) and HTTP clients keep theirs.

Whichever side waits less closes first, and a request that is under way to a server that has just closed is lost.
"""


def uvicorn_config(app: Any, **options: Any) -> uvicorn.Config:
    """How the HTTP server runs. Its own logs go where all others do."""
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
        **options,
    )


async def serve_on(listener: socket.socket, container: Container, announce: Callable[[], None]) -> None:
    """Serve in this process until a signal asks to stop; what was accepted is answered. Raises BadAgent."""
    async with application(container) as app:
        server = _Server(uvicorn_config(app, lifespan="off"), container)
        # From the moment that it is announced, a signal asks it to stop.
        with server.capture_signals():
            announce()
            sys.stdout.flush()
            await server.serve(sockets=[listener])


@asynccontextmanager
async def application(container: Container) -> AsyncIterator[ASGIApp]:
    """All that the settings ask for, ready to serve, with a worker beside it. Raises BadAgent."""
    settings = container.settings
    api = create_app(container)
    async with _gateway(container, api) as app, _worker(container, settings):
        compile_for(container.database.dialect)
        tune_interpreter()
        metrics.started(__version__)
        yield allow_origins(app, settings.cors_origins)


def say_no_before_stopping(health: Health, seconds: int) -> None:
    """Put something before what SIGINT and SIGTERM do: from the first on `/readyz` says no, and stopping waits.

    A second signal stops at once. To be called with the server's handlers in place, and on its loop.
    """
    loop = asyncio.get_running_loop()

    def put_before(number: int) -> None:
        stop: Any = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None) -> None:
            is_first = not health.is_stopping
            health.stop()
            if is_first and seconds:
                loop.call_soon_threadsafe(loop.call_later, seconds, stop, number, frame)
            else:
                stop(number, frame)

        signal.signal(number, handle)

    put_before(signal.SIGINT)
    put_before(signal.SIGTERM)


def tune_interpreter() -> None:
    """Settings of the interpreter that suit a server that holds much and has a thread that writes."""
    # What was loaded by now stays for good: looking through it again and again would stop all requests meanwhile.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 50, 50)
    # The writer needs the interpreter often and briefly; it should not wait 5 ms for it each time.
    sys.setswitchinterval(_SWITCH_SECONDS)


async def first_token(container: Container, settings: Settings) -> str | None:
    """The secret of a token that was made because there was none."""
    if settings.token:
        await container.tokens.ensure(settings.token)
        return None
    if await container.tokens.any_live():
        return None
    _, secret = await container.tokens.create(user="admin", name="first", may_act_for=True)
    return secret


class _Server(uvicorn.Server):
    """Stops at a signal and returns, where uvicorn would raise the signal again and end the process at once:
    runs are to be ended and the database to be closed before.
    """

    def __init__(self, config: uvicorn.Config, container: Container) -> None:
        super().__init__(config)
        self._container = container

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        say_no_before_stopping(self._container.health, self._container.settings.stop_delay)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


@asynccontextmanager
async def _gateway(container: Container, api: ASGIApp) -> AsyncIterator[ASGIApp]:
    if container.settings.agent is None and container.settings.upstream is None:
        yield api
        return
    from threadkeep.gateway.app import open_gateway

    async with open_gateway(container, api) as both:
        yield both


def _worker(container: Container, settings: Settings) -> AbstractAsyncContextManager[object]:
    return working(container) if settings.work else nullcontext()
