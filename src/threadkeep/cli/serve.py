"""`threadkeep serve`"""

import socket
import sys
from typing import Any

import click
import uvicorn
from starlette.types import ASGIApp

from threadkeep.api.app import create_app
from threadkeep.cli.running import run, setting, with_container
from threadkeep.errors import ThreadkeepError
from threadkeep.services.container import Container
from threadkeep.settings import Settings

_BACKLOG = 2048


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
@setting("run_lease", type=click.IntRange(min=1))
def serve(**options: Any) -> None:
    """Serve the Memory Service, and an agent behind the gateway if one is given."""
    if options["agent"] and options["upstream"]:
        raise click.UsageError("Give --agent or --upstream, not both: one gateway has one agent.")
    settings = Settings(**options)
    run(with_container(settings, lambda container: _serve(container, settings)))


async def _serve(container: Container, settings: Settings) -> None:
    listener = _listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    url = f"http://{_printable(settings.host)}:{port}"
    app: ASGIApp = create_app(container)
    if settings.agent or settings.upstream:
        from threadkeep.gateway.app import open_gateway

        async with open_gateway(container, app) as gateway:
            await _announce_and_run(container, settings, gateway, listener, url)
    else:
        await _announce_and_run(container, settings, app, listener, url)


async def _announce_and_run(
    container: Container, settings: Settings, app: ASGIApp, listener: socket.socket, url: str
) -> None:
    token = await _first_token(container, settings)
    click.echo(f"Threadkeep listens on {url}")
    click.echo(f"  Memory Service  {url}/api/v2   documentation {url}/api/v2/docs/")
    if settings.agent or settings.upstream:
        click.echo(f"  AG-UI gateway   {url}/agui/   in front of {settings.agent or settings.upstream}")
    if token:
        click.echo(f"  Token           {token}   (made for you; it is shown this once)")
    sys.stdout.flush()
    config = uvicorn.Config(app, lifespan="off", log_level="warning", access_log=False, server_header=False)
    await uvicorn.Server(config).serve(sockets=[listener])


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
        raise ThreadkeepError(f"Cannot listen on {host}:{port}: {error.strerror or error}") from error
    listener.setblocking(False)
    return listener


def _printable(host: str) -> str:
    return f"[{host}]" if ":" in host else host
