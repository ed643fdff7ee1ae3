"""From a command to a coroutine and back: options that several commands share, and errors told in one line."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from threadkeep.errors import ThreadkeepError
from threadkeep.services.container import Container
from threadkeep.settings import Settings, help_of
from threadkeep.telemetry.access_log import AccessLog

if TYPE_CHECKING:
    from threadkeep.telemetry.tracing import Tracing

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def setting(name: str, **options: Any) -> Callable[[F], F]:
    """The option of a setting: `--database-connections`, also read from THREADKEEP_DATABASE_CONNECTIONS."""
    default = getattr(Settings(), name)
    flag = name.replace("_", "-")
    return click.option(
        f"--{flag}/--no-{flag}" if isinstance(default, bool) else f"--{flag}",
        name,
        envvar=f"THREADKEEP_{name.upper()}",
        default=default,
        show_default=default is not None,
        show_envvar=True,
        help=help_of(name),
        **options,
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. Our own errors end the command with one line and status 1."""
    with errors_in_one_line(), asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(work)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Our own errors end the command with one line and status 1."""
    try:
        yield
    except ThreadkeepError as error:
        raise click.ClickException(str(error)) from error


async def with_container(
    settings: Settings,
    work: Callable[[Container], Coroutine[Any, Any, T]],
    access_log: AccessLog | None = None,
    tracing: "Tracing | None" = None,
) -> T:
    """Run with the services open, and close them."""
    container = await Container.open(settings, access_log=access_log, tracing=tracing)
    try:
        return await work(container)
    finally:
        await container.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ModuleNotFoundError:  # There is none for Windows.
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
