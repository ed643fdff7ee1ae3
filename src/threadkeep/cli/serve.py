"""`threadkeep serve`"""

from functools import partial
from typing import Any

import click

from threadkeep.cli.listening import Announce, listen, url_of
from threadkeep.cli.modelling import model_settings
from threadkeep.cli.observing import observed
from threadkeep.cli.running import run, setting, with_container
from threadkeep.cli.serving import first_token, serve_on
from threadkeep.services.container import FINAL_EXTRACTIONS, Container
from threadkeep.settings import CLIENT_MESSAGES, OPEN_INTERRUPTS, RUN_POLICIES, Settings
from threadkeep.storage.database import engine_of
from threadkeep.telemetry.lines import FORMATS
from threadkeep.telemetry.logs import LEVELS


@click.command()
@setting("host")
@setting("port", type=click.IntRange(0, 65_535))
@setting("database")
@setting("database_connections", type=click.IntRange(min=1))
@setting("valkey")
@setting("token")
@setting("agent")
@setting("upstream")
@setting("cors_origins")
@setting("max_content", type=click.IntRange(min=1))
@setting("max_request_bytes", type=click.IntRange(min=1024))
@setting("rate_limit", type=click.IntRange(min=0))
@setting("workers", type=click.IntRange(min=1))
@setting("stop_delay", type=click.IntRange(min=0))
@setting("log_level", type=click.Choice(LEVELS))
@setting("log_format", type=click.Choice(list(FORMATS)))
@setting("access_log")
@setting("otel_endpoint")
@setting("work")
@setting("purge_after", type=click.IntRange(min=0))
@setting("final_extraction", type=click.Choice(FINAL_EXTRACTIONS))
@setting("delete_memories_along")
@model_settings
@setting("run_lease", type=click.IntRange(min=1))
@setting("run_bytes", type=click.IntRange(min=1))
@setting("run_policy", type=click.Choice(RUN_POLICIES))
@setting("open_interrupts", type=click.Choice(OPEN_INTERRUPTS))
@setting("client_messages", type=click.Choice(CLIENT_MESSAGES))
@setting("copilotkit_agent")
@setting("repair")
@setting("keep_unsigned")
def serve(**options: Any) -> None:
    """Serve the Memory Service, and an agent behind the gateway if one is given."""
    settings = Settings(**options)
    if settings.agent and settings.upstream:
        raise click.UsageError("Give --agent or --upstream, not both: one gateway has one agent.")
    announce = partial(_announce, settings)
    if settings.workers > 1:
        _check_workers(settings)
        from threadkeep.cli.workers import serve_with_workers

        serve_with_workers(settings, announce)
        return
    run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Announce) -> None:
    with observed(settings) as observers:
        await with_container(settings, lambda container: listen_and_serve(container, settings, announce), *observers)


async def listen_and_serve(container: Container, settings: Settings, announce: Announce) -> None:
    """Serve until a signal asks to stop; what was accepted is answered. Raises ThreadkeepError."""
    with listen(settings.host, settings.port) as listener:
        secret = await first_token(container, settings)
        await serve_on(listener, container, lambda: announce(url_of(settings.host, listener), secret))


def _check_workers(settings: Settings) -> None:
    if engine_of(settings.database) == "sqlite":
        raise click.UsageError(
            "--workers needs PostgreSQL: one process writes to a SQLite file faster than several that take turns."
        )


def _announce(settings: Settings, url: str, secret: str | None) -> None:
    click.echo(f"Threadkeep listens on {url}")
    click.echo(f"  Memory Service  {url}/api/v2/   documentation {url}/api/v2/docs/")
    if settings.agent or settings.upstream:
        click.echo(f"  AG-UI gateway   {url}/agui/   in front of {settings.agent or settings.upstream}")
    if secret:
        click.echo(f"  Token           {secret}   (made for you; it is shown this once)")
