"""The root command, and how its errors are told."""

import click

from threadkeep import __version__
from threadkeep.cli.erase import erase
from threadkeep.cli.export import export, import_
from threadkeep.cli.migrate import migrate
from threadkeep.cli.serve import serve
from threadkeep.cli.token import token
from threadkeep.cli.work import work


@click.group(context_settings={"auto_envvar_prefix": "THREADKEEP", "help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="threadkeep %(version)s")
def threadkeep() -> None:
    """Threadkeep keeps what AI agents and people say to each other."""


threadkeep.add_command(serve)
threadkeep.add_command(token)
threadkeep.add_command(migrate)
threadkeep.add_command(work)
threadkeep.add_command(erase)
threadkeep.add_command(export)
threadkeep.add_command(import_)
