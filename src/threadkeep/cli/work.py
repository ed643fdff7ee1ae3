"""`threadkeep work`"""

import asyncio
import contextlib
import signal
from typing import Any

import click

from threadkeep.cli.modelling import model_settings
from threadkeep.cli.observing import observed
from threadkeep.cli.running import run, setting, with_container
from threadkeep.services.container import FINAL_EXTRACTIONS, Container
from threadkeep.settings import Settings
from threadkeep.telemetry.lines import FORMATS
from threadkeep.telemetry.logs import LEVELS
from threadkeep.workers.runner import working


@click.command()
@setting("database")
@setting("database_connections", type=click.IntRange(min=1))
@setting("log_level", type=click.Choice(LEVELS))
@setting("log_format", type=click.Choice(list(FORMATS)))
@setting("otel_endpoint")
@setting("purge_after", type=click.IntRange(min=0))
@setting("final_extraction", type=click.Choice(FINAL_EXTRACTIONS))
@model_settings
def work(**options: Any) -> None:
    """Run lifecycle strategies and the purge, without serving. Any number of processes may, beside any server."""
    run(_work(Settings(**options)))


async def _work(settings: Settings) -> None:
    with observed(settings) as observers:
        await with_container(settings, _work_until_signal, *observers)


async def _work_until_signal(container: Container) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Windows has no such handlers; there the interrupt ends the command.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopping.set)
    async with working(container) as runner:
        click.echo(f"Threadkeep works as {runner.name}")
        await stopping.wait()
