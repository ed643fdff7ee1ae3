"""`threadkeep serve`"""

import gc
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Any

import click
import uvicorn
from starlette.types import ASGIApp

from threadkeep.api.app import create_app
from threadkeep.cli.running import run, setting, with_container
from threadkeep.errors import ThreadkeepError
from threadkeep.services.container import FINAL_EXTRACTIONS, Container
from threadkeep.settings import Settings
from threadkeep.storage.appends import compile_for
from threadkeep.workers.runner import working

_BACKLOG = 2048
_GC_THRESHOLD = 10_000
"""New objects after which the youngest are looked through; the default of 700 is for programs that hold little."""
_SWITCH_SECONDS = 0.0005
_GRACE = 5
"""Seconds that open requests and streams have to end after a signal to stop."""


@click.command()
@setting("host")
@setting("port", type=click.IntRange(0, 65_535))
@setting("database")
@setting("database_connections", type=click.IntRange(min=1))
@setting("token")
@setting("agent")
@setting("upstream")
@setting("max_content", type=click.IntRange(min=1))
@setting("max_request_bytes", type=click.IntRange(min=1024))
@setting("work")
@setting("purge_after", type=click.IntRange(min=0))
@setting("final_extraction", type=click.Choice(FINAL_EXTRACTIONS))
@setting("run_lease", type=click.IntRange(min=1))
def serve(**options: Any) -> None:
    """Serve the Memory Service, and an agent behind the gateway if one is given."""
    if options["agent"] and options["upstream"]:
        raise click.UsageError("Give --agent or --upstream, not both: one gateway has one agent.")
    settings = Settings(**options)
    announce = partial(_announce, settings)
    run(with_container(settings, lambda container: listen_and_serve(container, settings, announce)))


Announce = Callable[[str, str | None], None]
"""Called when the server listens, with its URL and the secret of a token that was made because there was none."""


async def listen_and_serve(container: Container, settings: Settings, announce: Announce) -> None:
    """Serve until a signal asks to stop; what was accepted is answered. Raises ThreadkeepError."""
    with _listen(settings.host, settings.port) as listener:
        url = f"http://{_printable(settings.host)}:{listener.getsockname()[1]}"
        secret = await _first_token(container, settings)
        async with _application(container, settings) as app, _worker(container, settings):
            config = uvicorn.Config(
                app,
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
            )
            server = _Server(config)
            compile_for(container.database.dialect)
            tune_interpreter()
            # From the moment that it is announced, a signal asks it to stop.
            with server.capture_signals():
                announce(url, secret)
                sys.stdout.flush()
                await server.serve(sockets=[listener])


def tune_interpreter() -> None:
    """Settings of the interpreter that suit a server that holds much and has a thread that writes."""
    # What was loaded by now stays for good: looking through it again and again would stop all requests meanwhile.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 50, 50)
    # The writer needs the interpreter often and briefly; it should not wait 5 ms for it each time.
    sys.setswitchinterval(_SWITCH_SECONDS)


class _Server(uvicorn.Server):
    """Stops at a signal and returns, where uvicorn would raise the signal again and end the process at once:
    runs are to be ended and the database to be closed before.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


@asynccontextmanager
async def _application(container: Container, settings: Settings) -> AsyncIterator[ASGIApp]:
    api = create_app(container)
    if settings.agent is None and settings.upstream is None:
        yield api
        return
    from threadkeep.gateway.app import open_gateway

    async with open_gateway(container, api) as both:
        yield both


def _worker(container: Container, settings: Settings) -> AbstractAsyncContextManager[object]:
    return working(container) if settings.work else nullcontext()


def _announce(settings: Settings, url: str, secret: str | None) -> None:
    click.echo(f"Threadkeep listens on {url}")
    click.echo(f"  Memory Service  {url}/api/v2/   documentation {url}/api/v2/docs/")
    if settings.agent or settings.upstream:
        click.echo(f"  AG-UI gateway   {url}/agui/   in front of {settings.agent or settings.upstream}")
    if secret:
        click.echo(f"  Token           {secret}   (made for you; it is shown this once)")


async def _first_token(container: Container, settings: Settings) -> str | None:
    """The secret of a token that was made because there was none."""
    if settings.token:
        await container.tokens.ensure(settings.token)
        return None
    if await container.tokens.any_live():
        return None
    _, secret = await container.tokens.create(user="admin", name="first", may_act_for=True)
    return secret


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ThreadkeepError(f"Cannot listen on {host}:{port}: {_reason(error)}") from error
    listener.setblocking(False)
    return listener


def _reason(error: OSError) -> str:
    # asyncio and socket add the address to the text, which the message has already.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _printable(host: str) -> str:
    return f"[{host}]" if ":" in host else host
