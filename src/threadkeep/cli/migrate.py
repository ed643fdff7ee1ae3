"""`threadkeep migrate`"""

import click

from threadkeep.cli.running import run, setting
from threadkeep.storage import migrate as schema


@click.command()
@setting("database")
def migrate(database: str) -> None:
    """Bring the database to the schema of this version. `serve` does the same at its start."""
    before, after = run(schema.migrate(database))
    if before == after:
        click.echo(f"The schema is up to date: {after}")
    else:
        click.echo(f"Migrated from {before or 'nothing'} to {after}")
