"""`threadkeep export` and `threadkeep import`"""

import contextlib
import io
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import click

from threadkeep.cli.running import run, setting, with_container
from threadkeep.services import transfer
from threadkeep.services.container import Container
from threadkeep.services.transfer import Stopped
from threadkeep.settings import Settings

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar


@click.command()
@setting("database")
@click.option("--space", help="The id of the memory space.")
@click.option("--all", "everything", is_flag=True, help="All memory spaces.")
@click.option("--participant", help="Only sessions in which this person takes part.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file; standard output if absent.")
@click.option("--resume", is_flag=True, help="Go on with a file whose export was stopped.")
def export(
    database: str, space: str | None, everything: bool, participant: str | None, output: Path | None, resume: bool
) -> None:
    """Write memory spaces as lines of JSON, for `threadkeep import` into any other database."""
    if (space is None) == (not everything):
        raise click.UsageError("Give --space ID or --all.")
    if resume and output is None:
        raise click.UsageError("--resume goes on with the file that --output names.")
    if output is not None and output.exists() and not resume:
        raise click.UsageError(f"{output} is there already; give --resume to go on with it, or another name.")
    run(
        with_container(
            Settings(database=database), lambda services: _export(services, space, participant, output, resume)
        )
    )


@click.command("import")
@setting("database")
@click.option(
    "--input",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file; standard input if absent.",
)
@click.option("--user", help="The name of the user who is to own the memory spaces; else who owned them.")
def import_(database: str, source: Path | None, user: str | None) -> None:
    """Take in what `threadkeep export` wrote. What is there already is skipped, so a stopped import can be repeated."""
    run(with_container(Settings(database=database), lambda services: _import(services, source, user)))


async def _export(
    services: Container, space: str | None, participant: str | None, output: Path | None, resume: bool
) -> None:
    behind, written = (None, 0) if output is None or not resume else _cut(output)
    total = await services.transfer.count(space, participant)
    with (
        _opened(output, "a") as file,
        _bar(total, "Exporting") as bar,
    ):
        bar.update(written)
        async for line in services.transfer.export(space, participant, behind):
            file.write(line)
            bar.update(line.startswith('{"end"'))


async def _import(services: Container, source: Path | None, user: str | None) -> None:
    total = None if source is None else _sessions_in(source)
    with (
        _opened(source, "r") as file,
        _bar(total, "Importing") as bar,
    ):
        moved = await services.transfer.bring(file, user, lambda: bar.update(1))
    click.echo(
        f"Sessions: {moved.sessions}, events: {moved.events}, sessions that were there already: {moved.skipped}, "
        f"memories: {moved.memories}"
    )


def _bar(length: int | None, label: str) -> "ProgressBar[int]":
    """On a terminal; a log gets only the label."""
    return click.progressbar(length=length, file=sys.stderr, label=label)


def _cut(path: Path) -> tuple[Stopped | None, int]:
    """Leave of a stopped export what is whole. Returns where to go on, and the sessions that are there."""
    if not path.exists():
        return None, 0
    with _opened(path, "r") as file:
        behind, keep, done = transfer.last_whole(file)
    if done:
        raise click.UsageError(f"{path} is whole: there is nothing to go on with.")
    kept = path.with_name(path.name + ".part")
    written = 0
    with _opened(path, "r") as file, _opened(kept, "w") as part:
        for line in islice(file, keep):
            part.write(line)
            written += line.startswith('{"end"')
    kept.replace(path)
    return behind, written


def _sessions_in(path: Path) -> int:
    with _opened(path, "r") as file:
        return sum(line.startswith('{"end"') for line in file)


@contextlib.contextmanager
def _opened(path: Path | None, mode: str) -> Iterator[TextIO]:
    """The file, or the standard stream of the direction, in UTF-8 whatever the terminal speaks."""
    if path is None:
        stream = sys.stdin if mode == "r" else sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
        yield stream
        return
    try:
        with cast(TextIO, path.open(mode, encoding="utf-8", newline="\n")) as file:
            yield file
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is no UTF-8 text: {error}") from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
