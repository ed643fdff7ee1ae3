"""`threadkeep erase`"""

import sys

import click

from threadkeep.cli.running import run, setting, with_container
from threadkeep.services.container import Container
from threadkeep.services.erasure import Erased
from threadkeep.settings import Settings


@click.command()
@setting("database")
@click.option("--participant", required=True, help="The id of the person, as sessions name it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(database: str, participant: str, yes: bool) -> None:
    """Remove a person for good, and say what was removed.

    Sessions in which the person was alone with agents go, and so do the memory spaces that they own, as if they had
    never been. Of a session with others, the person's own events go, and their id. Memories go that came of any of
    this, that are about the person, or that the person said. Nothing of this can be undone.
    """
    run(with_container(Settings(database=database), lambda services: _erase(services, participant, yes)))


async def _erase(services: Container, participant: str, yes: bool) -> None:
    found = await services.erasure.find(participant)
    if not yes:
        click.echo(f"Of {participant} there are: {_counted(found)}.")
        click.confirm("Remove them for good?", abort=True)
    with click.progressbar(
        length=found.spaces + found.sessions + found.shared, file=sys.stderr, label="Erasing"
    ) as bar:
        erased = await services.erasure.erase(participant, lambda: bar.update(1))
    click.echo(
        f"Removed {participant}: {_counted(erased)}, events: {erased.events}, "
        f"memories: {erased.memories}, tokens: {erased.tokens}."
        if any((erased.spaces, erased.sessions, erased.shared, erased.memories, erased.tokens))
        else f"There was nothing of {participant}."
    )


def _counted(some: Erased) -> str:
    return f"spaces: {some.spaces}, sessions of their own: {some.sessions}, sessions shared with others: {some.shared}"
